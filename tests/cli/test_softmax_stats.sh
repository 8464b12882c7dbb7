# whet softmax --stats: one JSON object a row.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

empty='"n": 0, "entropy": 0, "entropy_after": 0, "beta": 1, "max_prob": 0, "logsumexp": null, "min": null, "argmax": null, "sink_share": 0, "empty": true}\n'
answers "a row of one" '0\n' \
    '{"n": 1, "entropy": 0, "entropy_after": 0, "beta": 1, "max_prob": 1, "logsumexp": 0, "min": 0, "argmax": 0, "sink_share": 1}\n' softmax --stats
answers "an empty line is the empty row" '\n' "{$empty" softmax --stats
answers "a masked row is the empty row" '-inf -inf\n' "{$empty" softmax --stats
answers "several policies are named" '\n' "{\"policy\": \"softmax\", $empty{\"policy\": \"fixed:2\", $empty" \
    softmax --stats --policy softmax --policy fixed:2
whet_given '0 nan\n0\n' softmax --stats
check "a row that is not finite ends with status 1" [ "$status" -eq 1 ]
check "a row that is not finite is named" grep -q '^whet softmax: <stdin>:1: ' "$SCRATCH/err"
check "a row that is not finite has null for numbers and says so" \
    grep -q '"entropy": null, "entropy_after": null, "beta": [^,]*, "max_prob": null, "logsumexp": null, "min": null, "argmax": null, "sink_share": null, "not_finite": true}$' "$SCRATCH/out"
check "the rows after it are answered" [ "$(wc -l <"$SCRATCH/out")" -eq 2 ]

if have python3; then
    fields() { # input fields-and-values(python) [argument ...]
        local input=$1 expected=$2
        shift 2
        whet_given "$input" softmax --stats "$@"
        [ "$status" -eq 0 ] && json_lines "$SCRATCH/out" && python3 -c '
import json, math, sys
row = json.loads(open(sys.argv[1]).readline())
for name, value in eval(sys.argv[2]).items():
    actual = row.get(name)
    near = actual == value or (isinstance(value, float) and abs(actual - value) <= 5e-6 * max(1, abs(value)))
    assert near, (name, actual, value)' "$SCRATCH/out" "$expected"
    }
    check "the statistics of a row have their known values" fields '1 2 3 4\n' \
        'dict(n=4, entropy=0.9475369639754254, entropy_after=0.9475369639754254, beta=1.0, max_prob=0.64391426, logsumexp=4.440189698561196)'
    check "masked entries are not counted" fields '1 -inf 2 3 4\n' 'dict(n=4, entropy=0.9475369639754254)'
    check "adaptive has its known beta" fields '1 2 3 4\n' \
        'dict(entropy=0.9475369639754254, beta=1.182411413810478, entropy_after=0.837732926901575, max_prob=0.699638876)' --policy adaptive
    check "target reaches its entropy" fields '1 2 3 4\n' 'dict(beta=1.8786288978298589, entropy_after=0.5, capped=None)' --policy target:0.5
    check "target at its cap says so" fields '1 1 1 1\n' 'dict(beta=256.0, capped=True)' --policy target:0.5
    check "a map alone has beta 1" fields '1 2 3 4\n' \
        'dict(beta=1.0, max_prob=1.0, entropy_after=0.0, logsumexp=4.440189698561196)' --policy hardmax
    check "a map that need not sum to one has no entropy afterwards" fields '1 2 3 4\n' \
        'dict(beta=1.0, entropy_after=None, max_prob=0.931738459)' --policy sigmoid
    check "the smallest, the largest and the first entry are known" fields '3 1 4 2\n' 'dict(min=1.0, argmax=2, sink_share=0.23688282)'
    check "a composition has the beta of its temperature and the result of its map" fields '1 2 3 4\n' \
        'dict(beta=1.182411413810478, max_prob=1.0, entropy_after=0.0)' --policy adaptive+hardmax
    check "a sink takes part and is not counted" fields '1 2 3\n' \
        'dict(n=3, entropy=0.9475369639754254, logsumexp=4.440189698561196, min=1.0, argmax=2)' --sink 4
    check "a given beta is the one in use" fields '1 2 3 4\n' 'dict(beta=2.5)' --beta 2.5 --policy sparsemax
    check "members come in the documented order" python3 -c '
import json, sys
row = json.loads(sys.stdin.readline())
assert list(row) == ["n", "entropy", "entropy_after", "beta", "max_prob", "logsumexp", "min", "argmax", "sink_share"], row' \
        < <(echo 1 2 | "$WHET_BIN" softmax --stats)
    arguments=()
    while read -r name; do
        arguments+=(--policy "$name")
    done < <("$WHET_BIN" policies --names)
    whet_given '1 2 3 4\n\n-inf\n1 -inf\n0 nan\n3e38 -3e38\n' softmax --stats "${arguments[@]}"
    check "every policy gives valid JSON on awkward rows" json_lines "$SCRATCH/out"
    check "every policy answers every row" [ "$(wc -l <"$SCRATCH/out")" -eq $((6 * ${#arguments[@]} / 2)) ]
else
    skip "statistics are valid JSON with known values" "needs python3"
fi
finish
