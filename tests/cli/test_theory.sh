# whet theory: every statement holds in the numbers that it prints, trained heads are found, and bad input is refused.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

if ! "$WHET_BIN" retrieval train --steps 30 --width 16 --batch 8 --quiet --threads 1 --out "$SCRATCH/head" >/dev/null 2>"$SCRATCH/err" &&
    grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "everything about trained heads" "needs libopenblas0"
    finish
fi

check "all statements are shown" "$WHET_BIN" theory --heads "$SCRATCH/head" --json "$SCRATCH/all.json"
check "and what they state holds in their results" python3 - "$SCRATCH/all.json" <<'PYTHON'
import json, math, sys
def refuse(word): raise ValueError(word + " is not JSON")
result = json.load(open(sys.argv[1]), parse_constant=refuse)
assert set(result) == {"lemma", "reach", "dispersion", "spread", "temperature", "precision", "precision_trained"}
lemma = result["lemma"]
assert lemma["head"]["width"] == 16 and lemma["trained_steps"] == 30
assert [row["n"] for row in lemma["rows"]] == [2 ** i for i in range(4, 15)]
for row in lemma["rows"]:
    assert row["low_bound"] <= row["smallest"] <= 1 / row["n"] <= row["largest"] <= row["high_bound"], row
    assert math.isclose(row["low_bound"], math.exp(-row["spread"]) / row["n"], rel_tol=1e-9)
    assert row["low_slack"] >= 1 and row["high_slack"] >= 1
spread = result["spread"]
for row in spread["rows"]:
    assert row["spread"] <= row["bound"] and row["tightest_ratio"] >= 1, row
    expected = 2 * spread["sigma_q"] * spread["sigma_k"] * row["query_norm"] * row["key_norm"] / math.sqrt(16)
    assert abs(row["bound"] / expected - 1) < 0.3, (row, expected)  # means of products and products of means
for row in result["precision_trained"]["rows"]:
    assert row["f32_numbers"] >= row["f16_numbers"] >= row["bf16_numbers"], row
    assert row["bf16_sets"] >= row["bf16_numbers"]
reach = result["reach"]
assert abs(reach["largest_n"] - (1 + math.exp(8))) < 1e-6
last = result["dispersion"]["rows"][-1]
assert last["n"] == 65536 and all(last[f"largest_{i}"] < 0.001 for i in range(3))
for row in result["temperature"]["rows"]:
    assert row["largest_slope"] <= 0 and row["slope_error"] < 1e-6
PYTHON

whet_given '' theory reach --spread 8 --mass 0.9
check "the reach of a spread is printed" grep -q 'one item while there are at most 332 items' <(tr '\n' ' ' <"$SCRATCH/out")
whet_given '' theory reach --spread 1000
check "one beyond all numbers too" grep -q 'one item among more than 1e308 items' <(tr '\n' ' ' <"$SCRATCH/out")
whet_given '' theory reach --spread 0 --mass 0.7
check "one of a single item too" grep -q 'only where there is no other' "$SCRATCH/out"
check "the mass asked for has its place in the table" eval \
    '[ "$(awk "/^0/ {print \$1}" "$SCRATCH/out" | tr "\n" " ")" = "0.01 0.1 0.5 0.7 0.9 0.99 " ]'
whet_given '' theory dispersion --layers 2 --layer-heads 1 --gain 3
check "the random Transformer can have another shape" grep -q '2 layers of 1 head,' "$SCRATCH/out"
check "a head is trained where none is given" "$WHET_BIN" theory spread --quiet
"$WHET_BIN" theory spread --quiet --heads "$SCRATCH/head" >"$SCRATCH/given"
check "which is not said where one is" [ "$(grep -c 'No --heads' "$SCRATCH/given")" -eq 0 ]

refuses "an unknown statement has a suggestion" '' '' "whet theory: unknown statement 'lema'; did you mean 'lemma'?\n" theory lema
refuses "or a hint" '' '' "whet theory: unknown statement 'everything'; 'whet theory --help' lists them\n" theory everything
refuses "a negative spread makes no sense" '' '' "whet theory: --spread: -1 is out of range (0 or more)\n" theory reach --spread -1
refuses "nor a mass of 1" '' '' "whet theory: --mass: 1 is out of range (above 0, below 1)\n" theory reach --mass 1
refuses "nor a temperature of 0" '' '' "whet theory: --temperature: 0 is out of range (above 0)\n" theory reach --temperature 0
refuses "nor nine layers" '' '' "whet theory: --num-layers: 9 is out of range (1 to 8)\n" theory dispersion --layers 9
refuses "nor no heads" '' '' "whet theory: --num-heads: 0 is out of range (1 to 16)\n" theory dispersion --layer-heads 0
refuses "nor options of another statement" '' '' "whet theory: --gain is for dispersion, not for reach\n" theory reach --gain 2
refuses "also of several" '' '' "whet theory: --spread is for reach or precision, not for lemma\n" theory lemma --spread 2
whet_given '' theory lemma --heads "$SCRATCH/nowhere"
check "heads that are not there are named" grep -q "$SCRATCH/nowhere" "$SCRATCH/err"
check "with exit status 2" [ "$status" -eq 2 ]
whet_given '' theory reach --json /dev/null/x
check "results that cannot be written are a failure" [ "$status" -eq 1 ]
check "with a message" grep -q '/dev/null/x: cannot write' "$SCRATCH/err"
finish
