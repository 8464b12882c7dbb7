#!/usr/bin/env bash
# The interface that compiled programs rely on is the one recorded for this version. To change it on purpose, raise the minor
# version in whet.h (the major one from 1.0 on) and record it with `make abi`.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

recorded=$WHET_SOURCE_DIR/tests/abi/recorded.txt
header=$WHET_SOURCE_DIR/include/whet.h
cc=$(sed -n 's/^CMAKE_C_COMPILER:[^=]*=//p' "$WHET_BUILD_DIR/CMakeCache.txt")

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "symbols, structs and constants are those recorded" "this build is instrumented ($WHET_INSTRUMENTED)"
    finish
fi
if grep -q '^CMAKE_SYSTEM_NAME:' "$WHET_BUILD_DIR/CMakeCache.txt"; then
    skip "symbols, structs and constants are those recorded" "this is a cross build"
    finish
fi

is_as_recorded() {
    "$WHET_SOURCE_DIR/tools/abi.sh" "$header" "$WHET_LIB" "$cc" >"$SCRATCH/now.txt" || return 1
    diff -u "$recorded" "$SCRATCH/now.txt" && return 0
    if [ "$(head -n 1 "$recorded")" = "$(head -n 1 "$SCRATCH/now.txt")" ]; then
        echo "The ABI has changed without a new version: raise WHET_VERSION_MINOR in whet.h unless it is unreleased, then run make abi."
    else
        echo "There is a new version: record its ABI with make abi."
    fi
    return 1
}
check "symbols, structs and constants are those recorded" is_as_recorded

# The check itself must notice a moved field, a missing symbol and a renumbered constant.
notices() { # sed-script
    sed "$1" "$header" >"$SCRATCH/whet.h"
    cmp -s "$header" "$SCRATCH/whet.h" && { echo "the header was not changed by $1" && return 1; }
    "$WHET_SOURCE_DIR/tools/abi.sh" "$SCRATCH/whet.h" "$WHET_LIB" "$cc" >"$SCRATCH/changed.txt" || return 1
    ! cmp -s "$SCRATCH/now.txt" "$SCRATCH/changed.txt"
}
check "a larger struct is noticed" notices 's/^    size_t stats_stride;$/    size_t stats_stride, another;/'
check "fields that change places are noticed" notices 's/^    ptrdiff_t in_stride;$/    ptrdiff_t was_in_stride;/'
check "another constant is noticed" notices 's/WHET_ERROR_MEMORY = 7/WHET_ERROR_MEMORY = 9/'
# Without comments, everything from WHET_API to the bracket ends in a name.
declared() {
    grep -v '^#' "$header" | tr '\n' ' ' | sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/||g' | grep -o 'WHET_API [^;]*;' |
        sed 's/(.*//' | grep -o 'whet_[a-z0-9_]*$' | LC_ALL=C sort
}
every_function_is_a_symbol() {
    sed -n 's/^symbol //p' "$SCRATCH/now.txt" >"$SCRATCH/symbols.txt"
    declared | diff - "$SCRATCH/symbols.txt"
}
check "every function of the header is a symbol, and no other" every_function_is_a_symbol
finish
