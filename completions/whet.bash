# Completion of the program whet for bash: source this file, or install it as
# share/bash-completion/completions/whet. The names of policies and algorithms are asked of the program itself, so that they
# are always those it knows. It stands on its own: nothing of the package bash-completion is needed.

# The words of the line up to the cursor, in the array `words`: unlike COMP_WORDS they are not broken at the colons of
# policy names and the equals signs of options. Blanks within quotes are not looked for; nothing here has any.
_whet_words() {
    local line=${COMP_LINE:0:COMP_POINT}
    read -r -a words <<<"$line"
    case $line in
    '' | *[[:blank:]]) words+=('') ;;
    esac
}

# Offers those of the words in $2 (one a line) that start with $1; $3 stands right before $1 on the line (`--policy=`).
# Bash replaces only what follows the last of its break characters, so what comes before that is taken off the answers.
_whet_offer() {
    local typed=$1 front=${3:-} kept='' answer break
    for break in : =; do
        case $COMP_WORDBREAKS,$front$typed in
        *"$break"*,*"$break"*)
            answer=$front$typed
            answer=${answer%"${answer##*"$break"}"}
            [ ${#answer} -le ${#kept} ] || kept=$answer
            ;;
        esac
    done
    while IFS= read -r answer; do
        case $answer in
        "$typed"*)
            answer=$front$answer
            COMPREPLY+=("${answer#"$kept"}")
            ;;
        esac
    done <<<"$2"
}

_whet_files() {
    local answer
    compopt -o filenames 2>/dev/null
    while IFS= read -r answer; do
        COMPREPLY+=("$answer")
    done < <(compgen -f -- "$1")
}

# The value of option $1, of which $2 is typed, right after $3 if that is not empty.
_whet_value() {
    case $1 in
    --policy) _whet_offer "$2" "$("${words[0]/#\~/$HOME}" policies --names 2>/dev/null)" "$3" ;;
    --heads) [ "${words[1]}" = lm ] || _whet_files "$2" ;;
    --svg | --spec | --out | --json | --csv | --heads-csv | --from | --tokenizer | --prompt-file | --perplexity | --figure | --figures | --llama | --plugin) _whet_files "$2" ;;
    --check) _whet_offer "$2" published "$3" ;;
    --only)
        if [ "${words[1]}" = reproduce ]; then
            _whet_offer "$2" $'table1\ntraining\nfigure1\nfigure2\nfigure5\nfigure6\nfigure7\nties\npolicies\naccuracy\naccuracy-f32\nentropy\nsharpness\nbeyond\nclrs\nfigure8\nfigure9\nclrs-policies\nclrs-entropy' "$3"
        else
            _whet_offer "$2" $'rows\nprefill\ndecode\nbackward\nretrieval\nlm\nlong' "$3"
        fi
        ;;
    --l2) _whet_offer "$2" $'decoupled\nloss\nloss-half\nnone' "$3" ;;
    --precision) _whet_offer "$2" $'bf16\nbf16-products\nf32' "$3" ;;
    --loss) _whet_offer "$2" $'answer\nall' "$3" ;;
    --weigh) _whet_offer "$2" $'tokens\nsequences' "$3" ;;
    --gate) _whet_offer "$2" $'geglu\nswiglu' "$3" ;;
    --positions) _whet_offer "$2" $'rope\nnone' "$3" ;;
    --learn-policy) _whet_offer "$2" $'layer\nhead\nnothing' "$3" ;;
    --cache) _whet_offer "$2" $'f32\nf16' "$3" ;;
    --rope) _whet_offer "$2" $'linear:2\nntk:2\nyarn:4\nnone' "$3" ;;
    --type) _whet_offer "$2" $'f32\nf16\nbf16\nq8_0' "$3" ;;
    --algo | --algorithm) _whet_offer "$2" "$("${words[0]/#\~/$HOME}" clrs list --names 2>/dev/null)" "$3" ;;
    --split) _whet_offer "$2" $'train\nval' "$3" ;;
    --ties) _whet_offer "$2" $'scalar\nsimd' "$3" ;;
    --format) _whet_offer "$2" $'jsonl\ntext' "$3" ;;
    --isa) _whet_offer "$2" $'avx512\navx2\nneon\nscalar' "$3" ;;
    esac
}

_whet_options() { # command [verb]
    case $1 in
    retrieval) _whet_retrieval_options "$2" ;;
    lm) _whet_lm_options "$2" ;;
    reproduce) printf '%s\n' --full --only --out --check --seeds --steps --fresh-steps --sets --lm-steps --lm-samples --lm-seeds --yes --threads --quiet ;;
    figure) printf '%s\n' --out --from --full --seeds --steps --fresh-steps --sets --lm-steps --lm-samples --lm-seeds --yes --threads --quiet ;;
    theory)
        printf '%s\n' --heads --spread --temperature --mass --layers --layer-heads --gain --seed --json --quiet
        ;;
    audit) printf '%s\n' --mass --heads --layer --json --csv --quiet ;;
    probe)
        printf '%s\n' --policy --layers --heads --sizes --sequences --range --decimals --seed --prompt-file --text --chat \
            --answer-tokens --context --perplexity --perplexity-tokens --every --layer --all-heads --json --csv --figure \
            --figures --share --llama --plugin --threads --quiet
        ;;
    'figure 3')
        printf '%s\n' --out --layer --figures --share --policy --sizes --sequences --range --decimals --seed --chat --llama \
            --plugin --threads --quiet
        ;;
    softmax) printf '%s\n' --policy --stats --sink --beta --position --format --header --comments --precision --max-line ;;
    policies) printf '%s\n' --json --names ;;
    demo) printf '%s\n' --policy --seed --svg --no-color ;;
    bench) printf '%s\n' --only --quick --json --threads --isa ;;
    'clrs generate') printf '%s\n' --algo --length --seed --count --start --hints --decimals --ties --format ;;
    'clrs mix') printf '%s\n' --spec --seed --count --hints --decimals --ties --format ;;
    'clrs export')
        printf '%s\n' --split --out --algo --lengths --seeds --count --hints --decimals --ties --quiet
        ;;
    'clrs score') printf '%s\n' --json --hints --decimals --ties --max-line ;;
    'clrs list') printf '%s\n' --names ;;
    esac
    printf '%s\n' --help --version
}

_whet_retrieval_options() { # verb
    case $1 in
    train)
        printf '%s\n' --out --seed --steps --batch --rate --rate-end --l2 --lambda --sizes --classes --depth --width \
            --precision --policy --scale --learn-scale --blind-key --nearest --leak --resume --checkpoint-every --log-every \
            --threads --quiet
        ;;
    eval) printf '%s\n' --policy --sizes --sets --seed --json --csv --threads --quiet ;;
    fit) printf '%s\n' --degree --cap --sizes --sets --seed --json --threads --quiet ;;
    heads) printf '%s\n' --policy --sizes --sets --items --seed --json ;;
    esac
}

_whet_lm_options() { # verb
    case $1 in
    train)
        printf '%s\n' --out --algorithm --hints --lengths --curriculum --seed --steps --batch --accumulate --loss --weigh --rate \
            --rate-end --warm-up --beta1 --beta2 --decay --clip --layers --width --heads --key-heads --head-dim --hidden \
            --context --gate --positions --rope-base --rope-dims --untied --policy --learn-policy --resume \
            --checkpoint-every --log-every --threads --quiet
        ;;
    eval) printf '%s\n' --policy --algorithm --hints --lengths --samples --seed --json --csv --heads-csv --threads --quiet ;;
    generate)
        printf '%s\n' --prompt --prompt-file --steps --temperature --seed --policy --tokenizer --cache --rope --entropy --speed --threads
        ;;
    import) printf '%s\n' --tokenizer ;;
    export) printf '%s\n' --type --name --rope --tokenizer ;;
    esac
}

_whet() {
    local words=() commands=$'softmax\npolicies\ndemo\nreproduce\nfigure\nretrieval\ntheory\nprobe\naudit\nclrs\nlm\nbench\nhelp'
    COMPREPLY=()
    _whet_words
    local last=$((${#words[@]} - 1))
    [ "$last" -ge 1 ] || return 0
    local typed=${words[last]} before=${words[last - 1]} command=${words[1]}
    if [ "$last" -eq 1 ]; then
        _whet_offer "$typed" "$commands"$'\n--help\n--version'
        return
    fi
    if [ "$last" -eq 2 ]; then
        case $command in
        retrieval) _whet_offer "$typed" $'train\neval\nfit\nheads\n--help\n--version' && return ;;
        lm) _whet_offer "$typed" $'train\neval\ngenerate\nimport\nexport\n--help\n--version' && return ;;
        clrs) _whet_offer "$typed" $'generate\nmix\nexport\nscore\nlist\n--help\n--version' && return ;;
        esac
    fi
    [ "$command" != clrs ] || command="clrs ${words[2]}"
    [ "$command ${words[2]}" != 'figure 3' ] || command='figure 3'
    # The --json of bench and clrs and the --heads of audit are flags; all other options named here have a value.
    case $command$before in
    audit--heads) ;;
    *--policy | *--sink | *--beta | *--position | *--svg | *--only | *--seed | *--threads | *--isa | *--l2 | *--max-line | *--precision | *--out | *--csv | *--heads-csv | retrieval--json | lm--json | theory--json | audit--json | probe--json | *--layer | \
        *--sequences | *--range | *--prompt-file | *--text | *--answer-tokens | *--context | *--perplexity | *--perplexity-tokens | \
        *--every | *--figure | *--figures | *--llama | *--plugin | \
        *--check | *--from | *--heads | *--spread | *--temperature | *--mass | *--layers | *--layer-heads | *--gain | \
        *--steps | *--batch | *--rate | *--rate-end | *--lambda | *--sizes | *--classes | *--depth | *--width | *--scale | \
        *--nearest | *--leak | *--checkpoint-every | *--log-every | *--sets | *--items | *--degree | *--cap | *--algo | \
        *--length | *--lengths | *--seeds | *--count | *--start | *--decimals | *--ties | *--format | *--split | *--spec | \
        *--algorithm | *--curriculum | *--accumulate | *--loss | *--weigh | *--warm-up | *--beta1 | *--beta2 | *--decay | \
        *--clip | *--key-heads | *--head-dim | *--hidden | *--gate | *--positions | *--rope-base | *--rope-dims | \
        *--learn-policy | *--samples | *--lm-steps | *--lm-samples | *--lm-seeds | *--prompt | *--tokenizer | *--cache | *--rope | *--type | *--name)
        _whet_value "$before" "$typed" ''
        return
        ;;
    esac
    case $typed in
    --*=*) _whet_value "${typed%%=*}" "${typed#*=}" "${typed%%=*}=" ;;
    -*) _whet_offer "$typed" "$(_whet_options "$command" "${words[2]}")" ;;
    *)
        case $command in
        softmax | bench | audit | probe | 'figure 3' | 'clrs score') _whet_files "$typed" ;;
        retrieval | lm) [ "${words[2]}" = train ] || _whet_files "$typed" ;;
        figure) _whet_offer "$typed" $'1\n2\n3\n5\n6\n7\n8\n9\ntraining\nties\npolicies\naccuracy\naccuracy-f32\nentropy\nsharpness\nclrs-policies\nclrs-entropy' ;;
        theory) _whet_offer "$typed" $'lemma\nreach\ndispersion\nspread\ntemperature\nprecision' ;;
        help) _whet_offer "$typed" "$commands" ;;
        *) _whet_offer "$typed" "$(_whet_options "$command")" ;;
        esac
        ;;
    esac
}

complete -F _whet whet
