#!/usr/bin/env bash
# Builds the library for WebAssembly and runs its tests of rows, policies, kernels and attention in Node, as `make test-wasm`
# does, where the compiler and Node are installed. Counts their cases like its own.
. "${WHET_SOURCE_DIR:?}/tests/web/wasm.sh"
build_wasm "the tests pass in WebAssembly"
check "whet.wasm has at most 300 kB" [ "$(stat -c %s build/wasm/whet.wasm)" -le 300000 ]
run_counted tools/run-tests.sh build/wasm
finish
