# The completions for bash, zsh and fish: each has every option of every command, and no other, and is tried in its shell.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"
# shellcheck source=commands.sh
. "$WHET_SOURCE_DIR/tests/cli/commands.sh"

for shell in bash zsh fish; do
    "$WHET_BIN" help --completions $shell >"$SCRATCH/whet.$shell" 2>"$SCRATCH/err"
    check "the program prints completions for $shell" [ "$?/$(wc -c <"$SCRATCH/err")" = 0/0 ]
done
refuses "there are none for another shell" '' '' \
    "whet help: --completions: 'tcsh' is not one of bash, zsh or fish\n" help --completions tcsh

# ---- bash ----

. "$SCRATCH/whet.bash"
# The answers for a line with the cursor at its end, in one line.
completed() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    _whet
    echo "${COMPREPLY[*]}"
}
completes() { # line answers
    check "bash completes '$1'" [ "$(completed "$1")" = "$2" ]
}
commands='softmax policies demo reproduce figure retrieval theory probe audit tune gguf clrs lm league bench help'
completes 'whet ' "$commands"
completes 'whet s' 'softmax'
completes 'whet x' ''
completes 'whet --v' '--version'
completes 'whet --quiet s' 'softmax'
completes 'whet --color never s' 'softmax'
completes 'whet --color ' 'auto always never'
completes 'whet demo --color=a' 'auto always'
completes 'whet help d' 'demo'
completes 'whet demo --s' '--seed'
completes 'whet policies -' '--json --names --quiet -q --color --help -h --version -V'
completes 'whet bench --only ' 'rows prefill decode backward retrieval lm skip tune long mpi'
completes 'whet bench --only=p' 'prefill'
completes 'whet bench r' 'rows retrieval'
completes 'whet bench c' 'clrs'
completes 'whet reproduce --compare ' 'published'
completes 'whet figure a' 'accuracy accuracy-f32'
completes 'whet theory s' 'spread'
completes 'whet softmax --policy so' 'softmax softmax1 softpick'
completes 'whet softmax --policy ada' 'adaptive adaptive:hold adaptive+entmax15'
completes 'whet softmax --policy adaptive:' 'hold'
completes 'whet softmax --stats --policy=adaptive:h' 'hold'
completes 'whet demo --policy=hard' 'hardmax'
completes 'whet softmax --policy adaptive+' 'adaptive+entmax15'
completes 'whet demo --seed ' ''
completes 'whet softmax --sink ' ''
completes 'whet theory r' 'reach'
completes 'whet figure --f' '--from --full --fresh-steps'
completes 'whet retrieval ' 'train eval fit heads'
completes 'whet retrieval train --l2 ' 'decoupled loss loss-half none'
completes 'whet retrieval train --rounding=b' 'bf16 bf16-products'
completes 'whet retrieval heads --s' '--sizes --seed'
completes 'whet lm ' 'train eval generate import export'
completes 'whet lm train --learn-policy ' 'nothing layer head'
completes 'whet lm train --algo mst_' 'mst_kruskal mst_prim'
completes 'whet lm train --num-heads ' ''
completes 'whet clrs ' 'generate mix export score list'
completes 'whet clrs g' 'generate'
completes 'whet clrs export --s' '--split --seeds'
completes 'whet clrs export --split ' 'train val'
completes 'whet clrs generate --ties=s' 'scalar simd'
touch "$SCRATCH/rows.csv"
mkdir "$SCRATCH/rowfolder"
completes "whet clrs score $SCRATCH/rows" "$SCRATCH/rows.csv"
completes "whet clrs mix --spec $SCRATCH/rows" "$SCRATCH/rows.csv"
completes "whet softmax $SCRATCH/rows" "$SCRATCH/rows.csv"
completes "whet softmax --stats $SCRATCH/rows" "$SCRATCH/rows.csv"
completes "whet demo --out $SCRATCH/rows" "$SCRATCH/rows.csv"
completes "whet demo -o $SCRATCH/rows" "$SCRATCH/rows.csv"
completes "whet lm train -o $SCRATCH/row" "$SCRATCH/rowfolder"
COMP_WORDBREAKS=' ' completes "whet softmax --policy=adaptive:" '--policy=adaptive:hold'
check "the function is registered with bash" [ "$(complete -p whet)" = 'complete -F _whet whet' ]

# Nothing that the program offers may be missing, and nothing more be offered.
lines() { tr ' ' '\n' | sort; }
check "every policy is offered" diff <(completed "whet softmax --policy " | tr ' ' '\n') <("$WHET_BIN" policies --names)
check "every algorithm is offered" diff <(completed "whet clrs generate --algo " | tr ' ' '\n') <("$WHET_BIN" clrs list --names)
check "the parts are those of the program" \
    diff <(completed 'whet reproduce --only ' | lines) <("$WHET_BIN" reproduce --help | sed -n '/^parts/,/^$/s/^  \([a-z0-9-]*\)[ *].*/\1/p' | sort)
while read -r name; do
    # shellcheck disable=SC2086 # words of a command
    check "bash offers the options of $name" diff <(completed "whet $name -" | lines) <(options_of $name)
done < <(all_commands)
if have shellcheck; then
    check "shellcheck has nothing to say of the bash completion" shellcheck -s bash "$SCRATCH/whet.bash"
else
    skip "shellcheck has nothing to say of the bash completion" "needs shellcheck"
fi

# ---- zsh ----

# What each command's function gives to _arguments, read by a zsh in which that is a function that prints.
zsh_options() { # command; options one a line, sorted
    zsh -f -c '
        _arguments() {
            local word
            for word; do
                [[ $word == -* || $word == \(* || $word == \*-* ]] || continue
                word=${word#\*}; word=${word#\(*\)}; word=${word%%[=+\[]*}
                print -r -- $word
            done
        }
        _describe() { : }; _files() { : }; compdef() { : }
        eval "${$(<$1)%_whet \"\$@\"*}"
        _whet_options_${2// /_}' zsh "$SCRATCH/whet.zsh" "$1" | sort
}
if have zsh; then
    check "zsh can read its completion" zsh -n "$SCRATCH/whet.zsh"
    while read -r name; do
        # shellcheck disable=SC2086
        check "zsh offers the options of $name" diff <(zsh_options "$name") <(options_of $name)
    done < <(all_commands)
    mkdir "$SCRATCH/zsh"
    cp "$SCRATCH/whet.zsh" "$SCRATCH/zsh/_whet"
    mkdir "$SCRATCH/bin"
    ln -s "$WHET_BIN" "$SCRATCH/bin/whet"
    zsh_file=$SCRATCH/zsh/_whet
    cat >"$SCRATCH/ask.zsh" <<'ZSH'
# Lists the choices for a line in an interactive zsh of its own.
zmodload zsh/zpty || exit 3
zpty shell zsh -f -i
zpty -w shell "PS1= PATH=$1/bin:\$PATH fpath=(${2:h} \$fpath) LISTMAX=1000; autoload -Uz compinit; compinit -u -d $1/dump; \
bindkey '^I' list-choices; echo REA''DY"
zpty -r -m shell answer '*READY*' || exit 3
zpty -w -n shell "$3"$'\t'
# The marker is typed at the end; what comes before it on the screen is the list.
answer= chunk=
for attempt in {1..100}; do
    sleep 0.1
    while zpty -rt shell chunk; do answer+=$chunk; done
    [[ $answer == *$4* ]] && break
done
print -r -- "$answer"
zpty -d shell
ZSH
    zsh_completes() { # line expected
        local answer
        answer=$(timeout 60 zsh -f "$SCRATCH/ask.zsh" "$SCRATCH" "$zsh_file" "$1" "$2" 2>&1)
        grep -qF -- "$2" <<<"$answer" || { cat -v <<<"$answer"; return 1; }
    }
    check "zsh completes commands" zsh_completes 'whet ' 'show how softmax spreads out'
    check "zsh completes options" zsh_completes 'whet softmax --' '--stats'
    check "zsh completes short options" zsh_completes 'whet demo -' '-o'
    check "zsh completes policies" zsh_completes 'whet softmax --policy adap' 'adaptive:hold'
    check "zsh completes subcommands" zsh_completes 'whet clrs ' 'generate'
    check "zsh completes the options of a subcommand" zsh_completes 'whet clrs generate --' '--algo'
    check "zsh completes algorithms" zsh_completes 'whet clrs generate --algo mst_' 'mst_kruskal'
    check "zsh completes policies after an equals sign" zsh_completes 'whet demo --policy=stick' 'stick-breaking'
    check "zsh completes the options of figure 3" zsh_completes 'whet figure 3 --l' '--layer'
else
    skip "zsh offers the options of every command" "needs zsh"
    skip "zsh completes commands, options and policies" "needs zsh"
fi

# ---- fish ----

fish_completed() { # line; what fish offers, one a line and sorted, without descriptions
    fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$SCRATCH/whet.fish" "$1" | cut -f 1 | sort
}
if have fish; then
    check "fish can read its completion" fish --no-execute "$SCRATCH/whet.fish"
    check "fish completes commands" diff <(fish_completed 'whet ') <(lines <<<"$commands")
    # shellcheck disable=SC2086
    while read -r name; do
        check "fish offers the options of $name" diff <(fish_completed "whet $name --") <(options_of $name | grep '^--')
        check "fish offers the letters of $name" diff \
            <(fish_completed "whet $name -" | grep '^-[a-zA-Z]$') <(options_of $name | grep '^-[a-zA-Z]$')
    done < <(all_commands)
    check "fish completes subcommands" diff <(fish_completed 'whet lm ') <(lines <<<'train eval generate import export')
    check "fish completes behind common options" diff <(fish_completed 'whet --color never lm g') <(echo generate)
    check "fish completes policies" diff <(fish_completed 'whet softmax --policy ') <("$WHET_BIN" policies --names | sort)
    check "fish completes choices" diff <(fish_completed 'whet lm train --gate ') <(lines <<<'geglu swiglu')
    check "fish completes files" grep -q 'rows.csv' <(fish_completed "whet softmax $SCRATCH/ro")
    check "fish completes folders" diff <(fish_completed "whet lm train -o $SCRATCH/row") <(echo "$SCRATCH/rowfolder/")
else
    skip "fish offers the options of every command" "needs fish"
fi
finish
