#!/usr/bin/env bash
# Lists the tests that took longest in the last run of a build folder, in seconds, and the sum over all.
#
#     tools/slowest-tests.sh [BUILD_DIR [COUNT]]     default: build/release 20
set -eu
sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) \.*\**[A-Za-z ]* *\([0-9.]*\) sec$/\2 \1/p' "${1:-build/release}/tests.log" |
    sort -rn | awk -v count="${2:-20}" '{ sum += $1 } NR <= count { printf "%8.1f  %s\n", $1, $2 } END { printf "%8.1f  all %d\n", sum, NR }'
