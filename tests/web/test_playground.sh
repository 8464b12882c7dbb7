#!/usr/bin/env bash
# The playground in Chromium, driven by playwright-core (tests/web/playground.mjs).
#
# WHET_KEEP_SCREENSHOTS=FOLDER keeps pictures of the page for people to look at.
. "${WHET_SOURCE_DIR:?}/tests/web/wasm.sh"
build_wasm "the playground works in a browser" live
. "$WHET_SOURCE_DIR/tests/web/browser.sh"
need_browser "the playground works in a browser"
check "the page is one file" node web/build.mjs build/wasm "$SCRATCH/playground.html" || finish
run_counted node tests/web/playground.mjs "$SCRATCH/playground.html" "$SCRATCH"
finish
