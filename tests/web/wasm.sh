# shellcheck shell=bash
# For tests of WebAssembly, which source it: check.sh, and a build of the preset wasm, or the test is skipped by name.
. "${WHET_SOURCE_DIR:?}/tests/support/check.sh"

build_wasm() { # what [target ...]
    local what=$1
    shift
    if [ -n "${WHET_INSTRUMENTED:-}" ]; then
        skip "$what" "this build is instrumented ($WHET_INSTRUMENTED); the release build runs them"
        finish
    fi
    echo 'int main(void) { return 0; }' >"$SCRATCH/program.c"
    if ! command -v node >/dev/null || ! clang --target=wasm32-wasi -o "$SCRATCH/program.wasm" "$SCRATCH/program.c" 2>/dev/null; then
        skip "$what" "needs clang, lld, wasi-libc, libclang-rt-14-dev-wasm32 and nodejs (make setup-all)"
        finish
    fi
    cd "$WHET_SOURCE_DIR" || exit 1
    [ -f build/wasm/build.ninja ] || check "the WebAssembly build is configured" cmake --preset wasm || finish
    check "WebAssembly is built" cmake --build --preset wasm ${1:+--target "$@"} || finish
}
