#!/usr/bin/env bash
# Unsupported hosts: the plug-in says so, changes nothing and never crashes. Also what it exports and needs.
# shellcheck disable=SC2317,SC2016 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/plugin/environment.sh
. "$WHET_SOURCE_DIR/tests/plugin/environment.sh"

host=$WHET_OTHER_HOST
refuses() { # which message
    "$host" "$WHET_PLUGIN" "$1" >"$SCRATCH/out" 2>&1
    local status=$?
    cat "$SCRATCH/out"
    [ $status -eq 0 ] && grep -q "whet: .*$2.*; leaving its attention unchanged" "$SCRATCH/out" &&
        grep -q 'whet: 0 attention operations handled.*whet computed nothing' "$SCRATCH/out"
}
check "a host with larger tensors is refused" refuses tensors "unsupported version of ggml: unknown struct layout"
check "a host with another description of types is refused" refuses types "unsupported version of ggml: unknown struct layout"
check "a host with other devices is refused" refuses devices "unsupported version of ggml: unknown struct layout"
check "a host without the operations is refused" refuses operations "unsupported version of ggml: unknown operation numbers"
check "a host with two more functions to a backend is refused" refuses shifted "unsupported version of ggml: unknown backend layout"
check "a host with one more function to a backend is refused" refuses unmarked "unsupported version of ggml: unknown backend layout"
check "a host with the old layout and the new functions is refused" refuses old "unsupported version of ggml: unknown backend layout"
check "the refusal names its version" refuses shifted "unknown backend layout (ggml 9.8.7, commit 1a2b3c)"
check "and its version alone where it knows no commit" refuses old "unknown backend layout (ggml 9.8.7)"
check "a host whose custom operations are of another kind is refused" refuses params "unsupported version of ggml: it does not call the hook"
check "a host without a CPU backend is refused" refuses no-cpu "not loaded ggml's CPU backend yet"
refuses_a_closed_one() { host=$WHET_LLAMA_CLOSED_HOST refuses any "cannot reach ggml: it is linked statically or its symbols are hidden"; }
check "a host with hidden functions, as in static programs, is refused" refuses_a_closed_one

refuses_settings_too() {
    WHET_POLICY=adaptve refuses shifted "unsupported version of ggml: unknown backend layout" &&
        grep -q 'whet: WHET_POLICY=adaptve: ' "$SCRATCH/out"
}
check "settings are checked in any host" refuses_settings_too

keeps_to_one_line() {
    WHET_POLICY=$'a\e[31m\nb' refuses shifted "unsupported version of ggml: unknown backend layout" &&
        grep -q '^whet: WHET_POLICY=a?\[31m?b: ' "$SCRATCH/out"
}
check "a value with control characters is quoted without them" keeps_to_one_line

keeps_the_recording() {
    echo "what was there" >"$SCRATCH/rows.csv"
    WHET_STATS="$SCRATCH/rows.csv" refuses shifted "unsupported version of ggml: unknown backend layout" &&
        [ "$(cat "$SCRATCH/rows.csv")" = "what was there" ]
}
check "no recording is started in a host that is refused" keeps_the_recording

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "what it exports and needs" "this build is instrumented ($WHET_INSTRUMENTED)"
    finish
fi
exports_two_functions() {
    nm -D --defined-only "$WHET_PLUGIN"
    [ "$(nm -D --defined-only "$WHET_PLUGIN" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort | tr '\n' ' ')" = "ggml_backend_init ggml_backend_init_by_type " ]
}
check "it exports two functions" exports_two_functions
needs_nothing_of_the_host() {
    readelf -d "$WHET_PLUGIN" | grep NEEDED
    ! readelf -d "$WHET_PLUGIN" | grep NEEDED | grep -v -E 'lib(c|m|pthread|dl)\.so|ld-linux'
}
check "it needs only libc and libm" needs_nothing_of_the_host

preloaded() { # LD_PRELOAD, command; what it prints is in out, what it says in err
    local preload=$1
    shift
    env LD_LIBRARY_PATH="$(dirname "$WHET_PLUGIN")" LD_PRELOAD="$preload" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
    local status=$?
    cat "$SCRATCH/out" "$SCRATCH/err"
    [ "$status" -eq 0 ] && grep -q 'whet: 0 attention operations handled.*whet computed nothing' "$SCRATCH/err"
}
asks_to_be_loaded() { # LD_PRELOAD
    preloaded "$1" bash -c 'echo "$GGML_BACKEND_PATH"' && [ "$(cat "$SCRATCH/out")" = "$(realpath "$WHET_PLUGIN")" ]
}
check "preloaded by its path, it makes a ggml that comes later load it, and reports at the end" asks_to_be_loaded "$WHET_PLUGIN"
check "and preloaded by its name" asks_to_be_loaded "$(basename "$WHET_PLUGIN")"
keeps_the_users_own() {
    GGML_BACKEND_PATH=/elsewhere.so preloaded "$WHET_PLUGIN" bash -c 'echo "$GGML_BACKEND_PATH"' && [ "$(cat "$SCRATCH/out")" = /elsewhere.so ]
}
check "a backend that the user chose stays" keeps_the_users_own
tells_that_there_is_none() {
    WHET_POLICY=adaptive preloaded "$WHET_PLUGIN" bash -c true && grep -q 'no ggml found (is it linked statically?)$' "$SCRATCH/err"
}
check "a program without ggml says so at its end" tells_that_there_is_none
finds_one_linked_in() {
    preloaded "$WHET_PLUGIN" "$WHET_OTHER_HOST" "$WHET_PLUGIN" operations &&
        [ "$(grep -c 'leaving its attention unchanged' "$SCRATCH/err")" = 2 ] && grep -q 'unknown struct layout' "$SCRATCH/err"
}
check "a ggml that is linked in and exports its functions is found before main" finds_one_linked_in
finds_a_late_one() {
    preloaded "$WHET_PLUGIN" "$WHET_LLAMA_LATE_HOST" "$WHET_LLAMA_LATE_LIBRARY" tensors &&
        ! grep -q 'no ggml found' "$SCRATCH/err" && grep -q 'unknown struct layout (ggml 9.8.7); leaving its attention' "$SCRATCH/err"
}
check "a ggml that a program loads later is found, and still works when refused" finds_a_late_one
refuses_settings_there_too() {
    WHET_POLICY=adaptve preloaded "$WHET_PLUGIN" "$WHET_LLAMA_LATE_HOST" "$WHET_LLAMA_LATE_LIBRARY" tensors && grep -q 'whet: WHET_POLICY=adaptve: ' "$SCRATCH/err"
}
check "and its settings are checked" refuses_settings_there_too
finish
