#!/usr/bin/env bash
# The benchmark as a program: it measures, prints figures that can be read, and refuses what makes no sense. What the
# figures are is no concern of a test.
. "${WHET_SOURCE_DIR:-$(dirname "$0")/../..}/tests/support/check.sh"

refuses() { # arguments that make no sense: status 2, a message, and nothing on standard output
    "$WHET_BIN" bench "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
    local status=$?
    [ "$status" -eq 2 ] && [ ! -s "$SCRATCH/out" ] && grep -q '^whet bench: ' "$SCRATCH/err" && return
    echo "status $status"
    cat "$SCRATCH/out" "$SCRATCH/err"
    return 1
}

check "an unknown section is refused" refuses --only columns
check "an unknown option is refused" refuses --fast
check "one unknown section among others is refused" refuses --only rows --only columns
check "too many threads are refused" refuses --threads 1000000
check "policies of other sections are refused" refuses rows --policy adaptive
check "an unknown policy is refused" refuses lm --policy nope
check "an arm that trains nothing is refused" refuses lm --policy chosen
check "no threads are refused" refuses --threads 0
check "the message says how many there may be" grep -q "0 is out of range (1 to 1,024)" "$SCRATCH/err"
check "an instruction set that the processor has not is refused" refuses --isa mmx
check "the message lists the instruction sets" grep -q "is not one of avx512, avx2, neon, wasm or scalar" "$SCRATCH/err"
check "a file without --json is refused" refuses results.json
check "the message says how to name one" grep -q "unknown section 'results.json' (rows, prefill, " "$SCRATCH/err"
check "a misspelt section without --only is refused, too" refuses --quick row
check "the message lists the sections" grep -q "unknown section 'row' (rows, prefill, decode, backward, retrieval, lm, skip, tune, long or mpi)" "$SCRATCH/err"

python=
for candidate in /usr/bin/python3 python3; do
    command -v "$candidate" >/dev/null && python=$candidate && break
done

has_expected_keys() {
    "$python" - "$1" <<'END'
import json, sys

report = json.load(open(sys.argv[1]))
for key in ("version", "isa", "limits_isa", "cpu", "compiler", "sections"):
    assert key in report, key
(rows,) = report["sections"]
assert rows["name"] == "rows" and rows["unit"] == "ns_per_value", rows["name"]
assert [case["label"] for case in rows["cases"]] == ["n=16", "n=256", "n=4096", "n=131072", "f16 n=4096"]
for case in rows["cases"]:
    assert case["disturbed"] == (case["facts"]["percent_on_cpu"] < 90), case["facts"]
    assert 1 < case["facts"]["mean_beta"] < 2.5, case["facts"]
    entries = {entry["name"]: entry for entry in case["entries"]}
    assert set(entries) == {"copy", "read", "exp alone", "plain", "adaptive"}, set(entries)
    for entry in entries.values():
        assert 0 < entry["seconds_best"] <= entry["seconds_median"], entry
    for name in ("plain", "adaptive"):
        for column in ("times_copy", "times_read", "times_exp"):
            assert entries[name][column]["best"] > 0, column
        copy = entries[name]["times_copy"]
        assert ("at_most" in copy) == (case["label"] not in ("n=16", "f16 n=4096")), (case["label"], copy)
        if "at_most" in copy:
            assert copy["met"] is (copy["best"] <= copy["at_most"]), copy
END
}

if [ -z "$python" ]; then
    skip "rows are measured and printed as JSON" "needs python3"
else
    measures_rows() { "$WHET_BIN" bench --quick --only rows --only rows --json "$SCRATCH/rows.json" >"$SCRATCH/table"; }
    check "rows are measured" measures_rows
    check "no line of the tables is wider than 80 columns" awk 'length > 80 { exit 1 }' "$SCRATCH/table"
    check "no line of the tables ends in blanks" awk '/ $/ { exit 1 }' "$SCRATCH/table"
    check "every bar is judged, and all are counted" awk '
        /^    bar: / { judged += / (met|missed|disturbed)$/; bars++ }
        /^bars, / { for (i = 1; i < NF; i++) if ($i ~ /^[0-9]+$/) counted += $i }
        END { exit !(bars == 6 && judged == 6 && counted == 6) }' "$SCRATCH/table"
    check "the JSON has the expected keys" has_expected_keys "$SCRATCH/rows.json"
    to_standard_output() { (cd "$SCRATCH" && "$WHET_BIN" bench --quick --only rows --json - >"$SCRATCH/alone.json"); }
    check "a file of - is standard output" to_standard_output
    check "which has nothing else" has_expected_keys "$SCRATCH/alone.json"
    check "and no file is called that" [ ! -e "$SCRATCH/-" ]
fi
finish
