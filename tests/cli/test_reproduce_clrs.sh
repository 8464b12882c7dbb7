# whet reproduce --only clrs: the experiment on CLRS-Text with models that hardly learn, kept and taken up again.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "no steps are refused" '' '' \
    "whet reproduce: --lm-steps: 0 is out of range (1 to 1,000,000,000)\n" \
    reproduce --only clrs --lm-steps 0
if ! "$WHET_BIN" lm train --layers 1 --width 8 --heads 1 --steps 1 --quiet --out "$SCRATCH/probe" >/dev/null 2>"$SCRATCH/err" &&
    grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "everything about the experiment" "needs libopenblas0"
    finish
fi
if ! command -v gnuplot >/dev/null; then
    skip "everything about the experiment" "needs gnuplot"
    finish
fi

out=$SCRATCH/report
reproduce() { "$WHET_BIN" reproduce --only clrs --lm-steps 2 --lm-samples 1 --quiet --out "$out" "$@"; }
check "the experiment is made" reproduce
for figure in figure8 figure9 clrs-policies clrs-entropy; do
    check "with $figure" [ -s "$out/figures/$figure.svg" ] && check "also as PNG" [ -s "$out/figures/$figure.png" ]
done
check "the page has its parts" grep -q '<section id="clrs">' "$out/index.html" &&
    check "pictures and all" grep -q '<section id="figure9">' "$out/index.html"
check "nothing of max retrieval was made" [ -z "$(find "$out/runs" -name 'bf16*')" ]
check "the results have every arm, algorithm and length" python3 - "$out/results/clrs-quick.json" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))["result"]
arms = {(arm["trained"], arm["policy"]): arm for arm in result["arms"]}
assert ("softmax", "softmax") in arms and ("softmax", "adaptive") in arms and ("adaptive", "adaptive") in arms
assert sum(arm["is_main"] for arm in result["arms"]) == 3 and len(arms) >= 7
lengths = [*range(4, 17), 24, 32]
algorithms = {row["algorithm"] for row in result["arms"][0]["rows"]}
assert len(algorithms) >= 5 and result["training"]["lengths"] == [4, 8]
for arm in arms.values():
    assert [row["length"] for row in arm["rows"]] == lengths * len(algorithms)
    for row in arm["rows"]:
        assert row["inside"] == (row["length"] <= 8) and 0 <= row["exact"]["low"] <= row["exact"]["high"] <= 1
PY

# Kept, and taken up again.
before=$(cat "$out/results/clrs-quick.json")
touch "$SCRATCH/then"
reproduce >"$SCRATCH/table"
check "what is there is not made again" [ -z "$(find "$out/results" "$out/runs" -newer "$SCRATCH/then" -name '*.json' \
    ! -name manifest.json)" ]
check "the table is printed" grep -Eq '^minimum +softmax +adaptive +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$' "$SCRATCH/table"
rm "$out/results/clrs-quick.json" "$out/results/clrs-quick-adaptive-1-minimum.json"
check "what is missing is made again" reproduce
check "and comes to the same" [ "$(cat "$out/results/clrs-quick.json")" = "$before" ]
check "a figure is drawn from what is there" "$WHET_BIN" figure 8 --from "$out" --out "$SCRATCH/eight.svg" --quiet
check "and is a picture" grep -q '</svg>' "$SCRATCH/eight.svg"
finish
