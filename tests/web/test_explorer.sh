#!/usr/bin/env bash
# The page of `whet probe --html` in Chromium (tests/web/explorer.mjs), from a probe of a real model.
#
# WHET_KEEP_SCREENSHOTS=FOLDER keeps pictures of the page for people to look at.
. "${WHET_SOURCE_DIR:?}/tests/support/check.sh"
. "$WHET_SOURCE_DIR/tests/web/browser.sh"
cd "$WHET_SOURCE_DIR" || exit 1
need_browser "heads are explored in a browser"
model=${WHET_MODELS:-}/stories260K-f32.gguf
if [ ! -f "$model" ] || [ -z "${WHET_PLUGIN:-}" ] || [ -z "${WHET_LLAMA_LIB:-}" ] || [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "heads are explored in a browser" "needs WHET_MODELS, a llama.cpp and a build without instrumentation"
    finish
fi
check "a probe writes a page" "$WHET_BIN" probe "$model" --llama "$WHET_LLAMA_LIB" --plugin "$WHET_PLUGIN" --threads 1 --quiet \
    --sizes 4,8,16,32 --count 1 --tokens 4 --policy softmax --policy adaptive --retrieval --keys 8 --gaps --html "$SCRATCH/heads.html" \
    --json "$SCRATCH/heads.json" || finish
run_counted node tests/web/explorer.mjs "$SCRATCH"
check "the program takes the settings that the page saves" "$WHET_BIN" lm generate "$model" --prompt Once --tokens 2 --quiet --config "$SCRATCH/config.json"
finish
