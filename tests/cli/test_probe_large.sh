# whet probe on TinyLlama-1.1B, which `make test-large` fetches.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

if [ -z "${WHET_LARGE_MODEL:-}" ] || [ -z "${WHET_LLAMA_LIB:-}" ]; then
    skip "TinyLlama is probed" "needs make test-large, and a llama.cpp"
    finish
fi
export WHET_LLAMA=$WHET_LLAMA_LIB
whet_given '' probe "$WHET_LARGE_MODEL" --sizes 4,16 --sequences 1 --policy softmax --answer-tokens 4 --csv "$SCRATCH/large.csv" --quiet
check "TinyLlama is probed" [ "$status" -eq 0 ]
check "all of its heads" [ "$(wc -l <"$SCRATCH/large.csv")" -eq $((1 + 2 * 704)) ]
grows() {
    awk -F, 'FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["layer"] == 0 { sum[$at["size"]] += $at["entropy"] }
        END { print sum[4] / 32, sum[16] / 32; exit !(sum[16] > 1.2 * sum[4]) }' "$SCRATCH/large.csv"
}
check "its first layer disperses" grows
finish
