# The command line as a whole: help, version, and words it does not know.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

whet_given '' --help
cp "$SCRATCH/out" "$SCRATCH/overview"
check "--help succeeds" [ "$status" -eq 0 ]
check "--help complains of nothing" [ ! -s "$SCRATCH/err" ]
for form in '' help '-h' '--quiet' '-q --help'; do
    # shellcheck disable=SC2086 # words on purpose
    whet_given '' $form
    check "'whet $form' prints the overview" cmp "$SCRATCH/out" "$SCRATCH/overview"
done
commands=$(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$SCRATCH/overview")
for name in softmax policies demo bench help; do
    check "the overview lists $name" grep -qx "$name" <<<"$commands"
done
for name in $commands; do
    whet_given '' "$name" --help
    cp "$SCRATCH/out" "$SCRATCH/first"
    check "'whet $name --help' succeeds" [ "$status" -eq 0 ]
    check "'whet $name --help' starts with the usage" grep -q "^usage: whet $name" "$SCRATCH/first"
    check "'whet $name --help' fits 80 columns" awk 'length > 80 { exit 1 }' "$SCRATCH/first"
    whet_given '' help "$name"
    check "'whet help $name' says the same" cmp "$SCRATCH/out" "$SCRATCH/first"
    whet_given '' --help "$name"
    check "'whet --help $name' says the same" cmp "$SCRATCH/out" "$SCRATCH/first"
    whet_given '' "$name" -h
    check "'whet $name -h' says the same" cmp "$SCRATCH/out" "$SCRATCH/first"
done

version='^whet [0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]* ([a-z0-9]*)$'
for form in '--version' 'softmax --version' 'policies --version' 'demo --version' 'help --version'; do
    # shellcheck disable=SC2086
    whet_given '' $form
    check "'whet $form' succeeds" [ "$status" -eq 0 ]
    check "'whet $form' prints version and instruction set" grep -q "$version" "$SCRATCH/out"
done
check "WHET_ISA chooses the instruction set" grep -q '(scalar)' <<<"$(WHET_ISA=scalar "$WHET_BIN" --version)"
WHET_ISA=mmx "$WHET_BIN" policies >"$SCRATCH/out" 2>"$SCRATCH/err"
check "an unknown WHET_ISA is misuse" [ $? -eq 2 ]
check "an unknown WHET_ISA is named, with those supported" \
    grep -q "^whet policies: unknown WHET_ISA 'mmx'; supported here: .*scalar$" "$SCRATCH/err"
check "nothing is printed then" [ ! -s "$SCRATCH/out" ]

refuses "a misspelt command is suggested" '' '' "whet: unknown command 'sofmax'; did you mean 'softmax'?\n" sofmax
refuses "letters in the wrong order are suggested" '' '' "whet: unknown command 'dmeo'; did you mean 'demo'?\n" dmeo
refuses "as they are in a policy's name" '' '' \
    "whet softmax: --policy: unknown policy 'fixde'; did you mean 'fixed'?\n" softmax --policy fixde:2
refuses "the beginning of a command is suggested" '' '' "whet: unknown command 'pol'; did you mean 'policies'?\n" pol
refuses "nothing is suggested where nothing is near" '' '' "whet: unknown command 'frobnicate'; see 'whet --help'\n" frobnicate
refuses "an empty command is unknown" '' '' "whet: unknown command ''; see 'whet --help'\n" ''
refuses "a misspelt option is suggested" '' '' "whet: unknown option '--verison'; did you mean '--version'?\n" --verison
refuses "help for an unknown command" '' '' "whet help: unknown command 'softmux'; did you mean 'softmax'?\n" help softmux
for verb in 'lm train' 'clrs generate' 'retrieval eval'; do
    # shellcheck disable=SC2086 # two words
    check "'whet help $verb' explains the verb" [ "$("$WHET_BIN" help $verb)" = "$("$WHET_BIN" $verb --help)" ]
done
refuses "help for an unknown subcommand" '' '' "whet help: unknown subcommand 'nope' (train, eval, generate, import or export)\n" help lm nope
refuses "help for two commands at once" '' '' "whet help: unexpected argument 'demo'; usage: whet help [OPTION]... [COMMAND [SUBCOMMAND]]\n" help softmax demo

refuses "a misspelt option of a command is suggested" '' '' \
    "whet softmax: unknown option '--polcy'; did you mean '--policy'?\n" softmax --polcy=adaptive
refuses "an unknown option" '' '' "whet softmax: unknown option '--frobnicate'; see 'whet softmax --help'\n" softmax --frobnicate
refuses "an unknown short option" '' '' "whet softmax: unknown option '-x'; see 'whet softmax --help'\n" softmax -x
refuses "an option without its value" '' '' "whet softmax: option '--policy' needs a value: --policy NAME\n" softmax --policy
refuses "a flag with a value" '' '' "whet softmax: option '--stats' takes no value\n" softmax --stats=yes
for seed in x 1x '' 0x - -x 1.5; do
    refuses "the seed '$seed' is refused" '' '' "whet demo: --seed: '$seed' is not a whole number\n" demo "--seed=$seed"
done
whet_given '' demo "--seed=$(printf 'x%.0s' {1..50000})"
check "a long value does not hide what is wrong with it" eval \
    '[ "$status" -eq 2 ] && [ "$(wc -c <"$SCRATCH/err")" -lt 1000 ] && grep -q "is not a whole number$" "$SCRATCH/err"'
for seed in -1 18446744073709551616 0x10000000000000000; do
    refuses "the seed '$seed' is out of range" '' '' \
        "whet demo: --seed: $seed is out of range (0 to 18,446,744,073,709,551,615)\n" demo "--seed=$seed"
done
refuses "numbers in messages are written in full" '' '' \
    "whet figure: --steps: 1,000,000,001 is out of range (1 to 1,000,000,000)\n" figure 5 --steps 1000000001
for bad in inf -inf nan 1e999; do
    refuses "'$bad' is no finite number" '' '' "whet softmax: --sink: '$bad' is not a finite number\n" softmax "--sink=$bad"
done

for name in softmax demo; do
    whet_given '1 2\n' "$name" --policy adptive
    check "$name refuses an unknown policy" [ "$status" -eq 2 ]
    check "$name prints nothing for it" [ ! -s "$SCRATCH/out" ]
    check "$name suggests the nearest policy" grep -q "adptive.*did you mean 'adaptive'" "$SCRATCH/err"
    refuses "$name names an unknown policy once" '1 2\n' '' \
        "whet $name: --policy: unknown policy 'xyz'; 'whet policies' lists them\n" "$name" --policy xyz
    refuses "$name says that --policy is to be repeated" '1 2\n' '' \
        "whet $name: --policy 'adaptive,softmax': policy names have no commas; repeat --policy to compare several\n" \
        "$name" --policy adaptive,softmax
    long=$(printf 'x%.0s' {1..400})
    whet_given '1 2\n' "$name" --policy "fixed:$long"
    check "$name never cuts a message" grep -q ': expected fixed:B\[:strength=s\]$' "$SCRATCH/err"
    for bad in '' fixed fixed:x fixed:0 topk:0 target:1:cap=0 softmax:2 'soft max' length:1; do
        whet_given '1 2\n' "$name" --policy "$bad"
        check "$name refuses the policy '$bad'" [ "$status/$(wc -c <"$SCRATCH/out")" = 2/0 ]
        check "$name says why it refuses '$bad'" grep -q "^whet $name: --policy '$bad': ." "$SCRATCH/err"
    done
done
for name in 'retrieval train' 'lm train'; do
    # shellcheck disable=SC2086 # two words
    refuses "$name names an unknown policy once" '' '' "whet $name: --policy: unknown policy 'xyz'; 'whet policies' lists them\n" $name --policy xyz
    # shellcheck disable=SC2086
    refuses "$name refuses a name that does not fit into a checkpoint" '' '' \
        "whet $name: --policy: policy name too long (287 characters; at most 255)\n" $name --policy "fixed:$(printf '0%.0s' {1..280})2"
done
finish
