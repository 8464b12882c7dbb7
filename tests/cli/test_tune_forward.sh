# whet tune --forward: llama.cpp runs the model, on the same tokens as whet does, and only the heads that were named change.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

if [ -z "${WHET_MODELS:-}" ] || [ -z "${WHET_LLAMA_LIB:-}" ]; then
    skip "a model is tuned by llama.cpp" "needs WHET_MODELS and a llama.cpp"
    finish
fi
export WHET_LLAMA=$WHET_LLAMA_LIB TMPDIR=$SCRATCH/temporary
mkdir "$TMPDIR" "$SCRATCH/learn" "$SCRATCH/judge"
cat "$WHET_SOURCE_DIR/docs/embedding.md" >"$SCRATCH/learn/1.txt"
# Control tokens and bytes that are not UTF-8 are text like any other.
{
    printf '<s>Ecci \377\376 <unk></s>\n%.0s' 1 2 3 4 5 6 7 8
    cat "$WHET_SOURCE_DIR/docs/INSTALL.md"
} >"$SCRATCH/judge/2.txt"
tune=(tune "$WHET_MODELS/stories260K-f32.gguf" --text "$SCRATCH/learn/1.txt" --check "$SCRATCH/judge/2.txt" --context 64 --count 8
    --validation-count 8 --check-count 8 --seeds 1 --by all --layers 1,3-4 --heads 0-5,7 --limit 100% --prefix '<s>Once' --quiet --yes)

run_tune() { # out [argument ...]; leaves $status
    local out=$1
    shift
    "$WHET_BIN" "${tune[@]}" --out "$out" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=$?
}
run_tune "$SCRATCH/forward.json" --forward --passes 64 --threads 1
check "a gain is found" [ "$status" = 0 ]
check "without a word on standard error" [ ! -s "$SCRATCH/err" ]
run_tune "$SCRATCH/gradient.json" --steps 8 --rate 0.1
check "by gradients, too" [ "$status" = 0 ]
agree() {
    python3 - "$SCRATCH/forward.json" "$SCRATCH/gradient.json" <<'END'
import json, sys
files = [json.load(open(path)) for path in sys.argv[1:]]
perplexities = []
for config in files:
    assert config["policy"] == "softmax", config["policy"]
    assert [(r["layers"], r["heads"]) for r in config["rules"]] == [(str(layer), "0-5,7") for layer in (1, 3, 4)], config["rules"]
    assert len({r["policy"] for r in config["rules"]}) == 1, config["rules"]
    about = config["about"]
    assert about["chosen"]["confirmed"] and about["options"]["layers"] == [[1, 1], [3, 4]], about["options"]
    changed = [i for i, a in enumerate(about["chosen"]["a"]) if a != 0]
    assert changed == [8 * layer + head for layer in (1, 3, 4) for head in (0, 1, 2, 3, 4, 5, 7)], changed
    perplexities.append([arm["check"][0]["all"]["perplexity"] for arm in about["arms"] if arm["name"] == "softmax"][0])
    assert [f["tokens"] for d in about["check"] for f in d["files"]] == [f["tokens"] for d in files[0]["about"]["check"] for f in d["files"]]
assert files[0]["about"]["options"]["forward"] and not files[1]["about"]["options"]["forward"]
assert abs(perplexities[0] / perplexities[1] - 1) < 0.005, perplexities
END
}
check "both see the same tokens and change the named heads alone" agree

"$WHET_BIN" "${tune[@]}" --forward --passes 64 --threads 1 --out "$SCRATCH/killed.json" >/dev/null 2>&1 &
process=$!
appears "$SCRATCH/killed.json.partial"
kill -9 $process
wait $process 2>/dev/null
run_tune "$SCRATCH/killed.json" --forward --passes 64 --threads 2
check "a killed search continues with the same bits, on any number of threads" cmp "$SCRATCH/forward.json" "$SCRATCH/killed.json"
check "and its temporary files are gone" [ -z "$(ls -A "$TMPDIR")" ]
refuses "parameters for each head" '' '' \
    "whet tune: --by head: forward passes find one set of parameters for all heads or for each layer; use --by layer, add --gradients or leave out --forward\n" \
    "${tune[@]}" --forward --by head
finish
