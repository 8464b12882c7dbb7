#!/usr/bin/env bash
# Builds the library for WebAssembly and runs its tests of rows, policies, kernels and attention in Node, where the compiler and
# Node are installed: those of `make test-wasm`, with fewer or smaller examples (support/emulated.h). Counts their cases like its own.
. "${WHET_SOURCE_DIR:?}/tests/web/wasm.sh"
build_wasm "the tests pass in WebAssembly"
export WHET_TEST_EMULATED=1
run_counted tools/run-tests.sh build/wasm
finish
