#!/usr/bin/env bash
# The examples build and do what their comments claim.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

examples=$WHET_BUILD_DIR/examples

minimal_sharpens() {
    local output
    output=$("$examples/minimal") || return 1
    echo "$output"
    # entropy falls, and the first query sees one key only
    echo "$output" | awk '/^row:/ { if ($5 + 0 < $3 + 0) fell = 1 } /query 0/ { if ($5 == "0.000" && $8 == "3.000") first = 1 }
        END { exit !(fell && first) }'
}
check "minimal sharpens a row and runs attention" minimal_sharpens

# With 256 keys the needle has most of the weight under a sharpening policy, but not under softmax.
finds_needle() { # program softmax-column adaptive-column
    local output
    output=$("$examples/$1") || return 1
    echo "$output"
    echo "$output" | awk -v plain="$2" -v sharp="$3" \
        '$1 == 256 { found = $sharp > 0.9 && (plain == 0 || $plain < 0.5) } END { exit !found }'
}
check "decode_loop finds the needle again" finds_needle decode_loop 2 3
check "decode_loop holds on to it at 4,096 keys with adaptive:hold" \
    bash -c "'$examples/decode_loop' | awk '\$1 == 4096 { held = \$4 > 5 * \$2 } END { exit !held }'"
check "host_threads gets the same result on its own threads" finds_needle host_threads 0 2

if [ -x "$examples/decode_loop_cpp" ]; then
    check "decode_loop_cpp finds the needle again" finds_needle decode_loop_cpp 2 3
else
    skip "decode_loop_cpp finds the needle again" "needs a C++ compiler"
fi
finish
