# whet tune --forward --gradients: whet learns in f32 from short sequences, and llama.cpp judges on long ones.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

if [ -z "${WHET_MODELS:-}" ] || [ -z "${WHET_LLAMA_LIB:-}" ]; then
    skip "whet learns and llama.cpp judges" "needs WHET_MODELS and a llama.cpp"
    finish
fi
export WHET_LLAMA=$WHET_LLAMA_LIB TMPDIR=$SCRATCH/temporary
mkdir "$TMPDIR" "$SCRATCH/learn" "$SCRATCH/judge"
cp "$WHET_SOURCE_DIR/docs/embedding.md" "$SCRATCH/learn/1.txt"
cp "$WHET_SOURCE_DIR/docs/INSTALL.md" "$SCRATCH/judge/2.txt"
tune=(tune "$WHET_MODELS/stories260K-f32.gguf" --text "$SCRATCH/learn/1.txt" --check "$SCRATCH/judge/2.txt" --forward --gradients
    --by head --layers 1,3-4 --heads 0-5,7 --context 64 --learn-context 32 --count 8 --passes 16 --steps 8 --looks 1 --rate 0.1
    --validation-count 8 --check-count 8 --seeds 1 --limit 100% --quiet --yes)

"$WHET_BIN" "${tune[@]}" --threads 1 --out "$SCRATCH/learned.json" >"$SCRATCH/out" 2>"$SCRATCH/err"
status=$?
check "gradients find a gain" [ "$status $(cat "$SCRATCH/err")" = "0 " ]
learned() {
    python3 - "$SCRATCH/learned.json" <<'END'
import json, sys
about = json.load(open(sys.argv[1]))["about"]
options, chosen = about["options"], about["chosen"]
assert options["forward"] and options["gradients"] and (options["context"], options["learn_context"]) == (64, 32), options
assert chosen["by"] == "head" and chosen["confirmed"] and not any(chosen["h"]), chosen
changed = [i for i, a in enumerate(chosen["a"]) if a != 0]
assert changed == [8 * layer + head for layer in (1, 3, 4) for head in (0, 1, 2, 3, 4, 5, 7)], changed
assert len({chosen["a"][i] for i in changed}) == len(changed)
END
}
check "with a number for each head that was named" learned
check "on sequences of the whole context" grep -q '8 sequences of 64 tokens$' "$SCRATCH/out"

"$WHET_BIN" "${tune[@]}" --threads 1 --out "$SCRATCH/killed.json" >/dev/null 2>&1 &
process=$!
appears "$SCRATCH/killed.json.partial"
kill -9 $process
wait $process 2>/dev/null
"$WHET_BIN" "${tune[@]}" --threads 2 --out "$SCRATCH/killed.json" >"$SCRATCH/out" 2>"$SCRATCH/err"
status=$?
check "a killed run continues" [ "$status $(cat "$SCRATCH/err")" = "0 " ]
check "with the same bits, on any number of threads" cmp "$SCRATCH/learned.json" "$SCRATCH/killed.json"
finish
