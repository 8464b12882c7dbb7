# whet policies: the table.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

whet_given '' policies
check "the table is printed" [ "$status" -eq 0 ]
check "nothing is complained of" [ ! -s "$SCRATCH/err" ]
check "no line is wider than 80 columns" awk 'length > 80 { exit 1 }' "$SCRATCH/out"
check "no word stands alone on a line" awk '/^     / && NF == 1 { exit 1 }' "$SCRATCH/out"
check "no line ends in blanks" awk '/[ \t]$/ { exit 1 }' "$SCRATCH/out"
for policy in softmax fixed:B adaptive adaptive:hold poly: exp:h0 target:H ssmax:s length:n0 linear:n0 hinge:a:h:n0 topk:k hardmax \
    sparsemax entmax15 entmax:a softmax1 sigmoid stick-breaking :strength=; do
    check "the table has $policy" grep -q "^  .*$policy" "$SCRATCH/out"
done
check "compositions are explained with an example" grep -q '^compositions: TEMPERATURE+MAP ' "$SCRATCH/out"
# Every name that stands in the text after `as in`, and every example of the table, is one that the program takes.
takes_all_of() { # name ...
    local name
    for name in "$@"; do
        echo 1 2 3 4 | "$WHET_BIN" softmax --policy "$name" >"$SCRATCH/taken" || return 1
    done
}
# shellcheck disable=SC2046 # one word a name
check "compositions named as examples are taken" takes_all_of $(grep -o '[a-z0-9:.]\+[+][a-z0-9:.]\+' "$SCRATCH/out")
# shellcheck disable=SC2046
check "every example is taken" takes_all_of $("$WHET_BIN" policies --names)
whet_given '' policies --names
check "names are one word a line" awk 'NF != 1 { exit 1 }' "$SCRATCH/out"
check "names are at least one for each kind" [ "$(wc -l <"$SCRATCH/out")" -ge 18 ]
if have python3; then
    whet_given '' policies --json
    check "the JSON is an array of complete objects" python3 -c '
import json, sys
table = json.load(open(sys.argv[1]))
assert len(table) >= 18
for entry in table:
    assert list(entry) == ["syntax", "example", "temperature", "summary", "parameters"], entry
    assert isinstance(entry["temperature"], bool) and entry["summary"]
by_name = {entry["syntax"]: entry["parameters"] for entry in table}
assert by_name["target:H[:cap=C]"] == ["H", "cap", "strength"], by_name
assert by_name["topk:k"] == ["k"] and by_name["hardmax"] == [], by_name
assert by_name["TEMPERATURE+MAP"][-1] == "a", by_name' "$SCRATCH/out"
    "$WHET_BIN" policies --names >"$SCRATCH/names"
    check "the JSON has the same names" python3 -c '
import json, sys
assert [e["example"] for e in json.load(open(sys.argv[1]))] == open(sys.argv[2]).read().split()' "$SCRATCH/out" "$SCRATCH/names"
else
    skip "the JSON is an array of complete objects" "needs python3"
    skip "the JSON has the same names" "needs python3"
fi
refuses "arguments are refused" '' '' "whet policies: unexpected argument 'x'; usage: whet policies [OPTION]...\n" policies x
refuses "two forms at once are refused" '' '' "whet policies: --json cannot be combined with --names\n" policies --json --names
finish
