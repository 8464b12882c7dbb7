#!/usr/bin/env bash
# Hosts that the plug-in does not know: it says so, changes nothing and crashes nowhere. And what it exports and needs.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
unset WHET_POLICY WHET_CONFIG WHET_STATS WHET_STATS_ROWS WHET_STRENGTH WHET_LAYERS WHET_HEADS WHET_VERBOSE

refuses() { # which message
    "$WHET_OTHER_HOST" "$WHET_PLUGIN" "$1" >"$SCRATCH/out" 2>&1
    local status=$?
    cat "$SCRATCH/out"
    [ $status -eq 0 ] && grep -q "whet: .*$2.*; its attention is left as it is" "$SCRATCH/out" &&
        grep -q 'whet: 0 attention operations handled.*nothing here went through whet' "$SCRATCH/out"
}
check "a host with larger tensors is refused" refuses tensors "lays out its structs in an unknown way"
check "a host that describes types otherwise is refused" refuses types "lays out its structs in an unknown way"
check "a host with other devices is refused" refuses devices "lays out its structs in an unknown way"
check "a host without the operations is refused" refuses operations "numbers its operations in an unknown way"
check "a host with two more functions to a backend is refused" refuses shifted "lays out its backends in an unknown way"
check "a host with one more function to a backend is refused" refuses unmarked "lays out its backends in an unknown way"
check "a host with the old layout and the new functions is refused" refuses old "lays out its backends in an unknown way"
check "a host whose custom operations are of another kind is refused" refuses params "does not call what was put in the place"
check "a host without a CPU backend is told so" refuses no-cpu "not loaded ggml's CPU backend yet"

refuses_settings_too() {
    WHET_POLICY=adaptve refuses shifted "lays out its backends in an unknown way" &&
        grep -q 'whet: policy "adaptve":' "$SCRATCH/out"
}
check "settings are looked at, whatever the host" refuses_settings_too

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "what it exports and needs" "this build is instrumented ($WHET_INSTRUMENTED)"
    finish
fi
exports_one_function() {
    nm -D --defined-only "$WHET_PLUGIN"
    [ "$(nm -D --defined-only "$WHET_PLUGIN" | awk '$2 != "A" { print $3 }')" = ggml_backend_init ]
}
check "it exports one function" exports_one_function
needs_nothing_of_the_host() {
    readelf -d "$WHET_PLUGIN" | grep NEEDED
    ! readelf -d "$WHET_PLUGIN" | grep NEEDED | grep -v -E 'lib(c|m|pthread|dl)\.so|ld-linux'
}
check "it needs libc and libm alone" needs_nothing_of_the_host
finish
