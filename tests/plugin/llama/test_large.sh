#!/usr/bin/env bash
# TinyLlama-1.1B through the plug-in, for `make test-large`: the host's perplexity with softmax, a worse one with adaptive
# on every head, and one in between with little strength.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/plugin/environment.sh
. "$WHET_SOURCE_DIR/tests/plugin/environment.sh"

model=${WHET_LARGE_MODEL:-}
if [ ! -r "$model" ]; then
    skip "TinyLlama-1.1B through the plug-in" "make test-large fetches it"
    finish
fi
head -c 1100 "$WHET_SOURCE_DIR/tests/plugin/story.txt" >"$SCRATCH/text"
perplexity() { "$WHET_LLAMA_DRIVER" "$model" text "$SCRATCH/text" --context 512 --batch 512 2>/dev/null; }
with() { env "$@" GGML_BACKEND_PATH="$WHET_PLUGIN" "$WHET_LLAMA_DRIVER" "$model" text "$SCRATCH/text" --context 512 --batch 512 2>/dev/null; }

stock=$(perplexity)
holds() { # condition on a (with) and b (the host's), settings ...
    local condition=$1 found
    shift
    found=$(with "$@") || return 1
    echo "with: $found, the host's: $stock"
    awk -v a="${found%% *}" -v b="${stock%% *}" "BEGIN { exit !($condition) }"
}
check "it has the host's perplexity" holds 'a < 1.01 * b && a > 0.99 * b' WHET_POLICY=softmax
check "adaptive on every head makes it worse" holds 'a > 1.5 * b' WHET_POLICY=adaptive
check "a tenth of the strength changes little" holds 'a < 1.1 * b && a > 0.95 * b' WHET_POLICY=adaptive WHET_STRENGTH=0.1
finish
