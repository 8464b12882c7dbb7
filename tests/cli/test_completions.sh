# The completions for bash and zsh.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

. "$WHET_SOURCE_DIR/completions/whet.bash"

# The answers for a line with the cursor at its end, in one line.
completed() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    _whet
    echo "${COMPREPLY[*]}"
}
completes() { # line answers
    check "bash completes '${1/"$WHET_BIN"/whet}'" [ "$(completed "$1")" = "$2" ]
}
completes 'whet ' 'softmax policies demo reproduce figure retrieval theory probe audit clrs lm bench help --help --version'
completes 'whet s' 'softmax'
completes 'whet x' ''
completes 'whet --v' '--version'
completes 'whet help d' 'demo'
completes 'whet softmax --' '--policy --stats --sink --beta --position --format --header --comments --precision --max-line --help --version'
completes 'whet demo --s' '--seed --svg'
completes 'whet policies ' '--json --names --help --version'
completes 'whet bench --only ' 'rows prefill decode backward retrieval lm long'
completes 'whet bench --only=p' 'prefill'
completes 'whet reproduce --only ' 'table1 training figure1 figure2 figure5 figure6 figure7 ties policies accuracy accuracy-f32 entropy sharpness beyond clrs figure8 figure9 clrs-policies clrs-entropy'
completes 'whet reproduce --check ' 'published'
completes 'whet figure a' 'accuracy accuracy-f32'
completes 'whet theory s' 'spread'
completes "$WHET_BIN softmax --policy so" 'softmax softmax1 softpick'
completes "$WHET_BIN softmax --policy ada" 'adaptive adaptive:hold adaptive+entmax15'
completes "$WHET_BIN softmax --policy adaptive:" 'hold'
completes "$WHET_BIN softmax --stats --policy=adaptive:h" 'hold'
completes "$WHET_BIN demo --policy=hard" 'hardmax'
completes "$WHET_BIN softmax --policy adaptive+" 'adaptive+entmax15'
completes 'whet demo --seed ' ''
completes 'whet softmax --sink ' ''
completes 'whet theory r' 'reach'
completes 'whet figure --f' '--from --full --fresh-steps'
completes 'whet retrieval ' 'train eval fit heads --help --version'
completes 'whet retrieval train --l2 ' 'decoupled loss loss-half none'
completes 'whet retrieval train --precision=b' 'bf16 bf16-products'
completes 'whet retrieval heads --s' '--sizes --sets --seed'
completes 'whet lm ' 'train eval generate import export --help --version'
completes 'whet lm train --learn-policy ' 'layer head nothing'
completes "$WHET_BIN lm train --algorithm mst_" 'mst_kruskal mst_prim'
completes 'whet lm train --heads ' ''
completes 'whet clrs ' 'generate mix export score list --help --version'
completes 'whet clrs g' 'generate'
completes 'whet clrs export --s' '--split --seeds'
completes 'whet clrs export --split ' 'train val'
completes 'whet clrs generate --ties=s' 'scalar simd'
completes "$WHET_BIN clrs generate --algo mst_" 'mst_kruskal mst_prim'
touch "$SCRATCH/rows.csv"
completes "whet clrs score $SCRATCH/ro" "$SCRATCH/rows.csv"
completes "whet clrs mix --spec $SCRATCH/ro" "$SCRATCH/rows.csv"
completes "whet softmax $SCRATCH/ro" "$SCRATCH/rows.csv"
completes "whet softmax --stats $SCRATCH/ro" "$SCRATCH/rows.csv"
completes "whet demo --svg $SCRATCH/ro" "$SCRATCH/rows.csv"
COMP_WORDBREAKS=' ' completes "$WHET_BIN softmax --policy=adaptive:" '--policy=adaptive:hold'
check "bash is told of the function" [ "$(complete -p whet)" = 'complete -F _whet whet' ]
check "every policy is offered" [ "$(completed "$WHET_BIN softmax --policy " | tr ' ' '\n')" = "$("$WHET_BIN" policies --names)" ]

# Nothing that the program offers may be missing, and nothing more be offered.
sorted() { tr ' ' '\n' | sort; }
commands=$("$WHET_BIN" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
check "the commands are those of the program" [ "$(completed 'whet help ' | sorted)" = "$(sorted <<<"$commands")" ]
parts=$("$WHET_BIN" reproduce --help | sed -n '/^parts/,$s/^  \([a-z0-9-]*\)[ *].*/\1/p')
check "the parts are those of the program" [ "$(completed 'whet reproduce --only ' | sorted)" = "$(sorted <<<"$parts")" ]
for name in softmax policies demo reproduce figure 'figure 3' theory probe audit bench 'clrs generate' 'clrs mix' 'clrs export' 'clrs score' 'clrs list'; do
    # shellcheck disable=SC2086 # a command and its verb are two words
    options=$("$WHET_BIN" $name --help | sed -n 's/^  \(-h, \)\{0,1\}\(--[a-z-]*\).*/\2/p')
    check "the options of $name are those of the program" \
        [ "$(completed "whet $name -" | sorted)" = "$(sorted <<<"$options")" ]
done

for verb in train eval generate import export; do
    options=$("$WHET_BIN" lm "$verb" --help | sed -n 's/^  \(-h, \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p')
    check "the options of lm $verb are those of the program" \
        [ "$(completed "whet lm $verb -" | sorted)" = "$(sorted <<<"$options")" ]
done

for verb in train eval fit heads; do
    options=$("$WHET_BIN" retrieval "$verb" --help | sed -n 's/^  \(-h, \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p')
    check "the options of retrieval $verb are those of the program" \
        [ "$(completed "whet retrieval $verb -" | sorted)" = "$(sorted <<<"$options")" ]
done

zsh_file=$WHET_SOURCE_DIR/completions/_whet
for name in $commands; do
    check "zsh knows the command $name" grep -q "^        '$name:" "$zsh_file"
done
if have zsh; then
    check "zsh can read its completion" zsh -n "$zsh_file"
    mkdir "$SCRATCH/bin"
    ln -s "$WHET_BIN" "$SCRATCH/bin/whet"
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
    check "zsh completes commands" zsh_completes 'whet ' 'watch a head disperse'
    check "zsh completes options" zsh_completes 'whet softmax --' '--stats'
    check "zsh completes policies" zsh_completes 'whet softmax --policy adap' 'adaptive:hold'
    check "zsh completes verbs" zsh_completes 'whet clrs ' 'how many predictions are right'
    check "zsh completes algorithms" zsh_completes 'whet clrs generate --algo mst_' 'mst_kruskal'
    check "zsh completes policies after an equals sign" zsh_completes 'whet demo --policy=stick' 'stick-breaking'
else
    skip "zsh can read its completion" "needs zsh"
    skip "zsh completes commands, options and policies" "needs zsh"
fi
if have shellcheck; then
    check "shellcheck has nothing to say of the bash completion" shellcheck -s bash "$WHET_SOURCE_DIR/completions/whet.bash"
else
    skip "shellcheck has nothing to say of the bash completion" "needs shellcheck"
fi
finish
