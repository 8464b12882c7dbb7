#!/usr/bin/env bash
# tools/compare-builds on one build against itself: output, exit status and refusals. The
# ratios themselves are not tested.
. "${WHET_SOURCE_DIR:-$(dirname "$0")/../..}/tests/support/check.sh"

tool=$WHET_SOURCE_DIR/tools/compare-builds
build=$WHET_BUILD_DIR

refuses() { # message, arguments: status 2, the message on standard error, and nothing on standard output
    local message=$1
    shift
    "$tool" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
    local status=$?
    [ "$status" -eq 2 ] && [ ! -s "$SCRATCH/out" ] && grep -q "^compare-builds: $message" "$SCRATCH/err" && return
    echo "status $status"
    cat "$SCRATCH/out" "$SCRATCH/err"
    return 1
}

check "one build is not enough" refuses "expected two build folders" "$build"
check "three builds are too many" refuses "expected two build folders" "$build" "$build" "$build"
check "an unknown option is refused" refuses "unknown option --fast" --fast "$build" "$build"
check "an option without its value is refused" refuses "--only: missing value" "$build" "$build" --only
check "a folder that does not exist is refused" refuses "$SCRATCH/none: no such build folder" "$SCRATCH/none" "$build"
check "a folder without the module is refused" refuses "$SCRATCH: no bench/libwhet_cases.so" "$build" "$SCRATCH"
check "the message says what to build" grep -q "cmake --build $SCRATCH --target whet_cases" "$SCRATCH/err"
check "a bar that is not a number is refused" refuses "--bar: 'x' is not a number" "$build" "$build" --bar x
check "zero seconds are refused" refuses "--seconds: '0' is not a number above 0" "$build" "$build" --seconds 0
check "a name without a case is refused" refuses "--only: no case of both builds contains 'rows n=16 nothing'" \
    "$build" "$build" --only "rows n=16 nothing" --seconds 0.1
mkdir -p "$SCRATCH/wrong/bench" && cp "$WHET_LIB" "$SCRATCH/wrong/bench/libwhet_cases.so"
check "a library that is not a module is refused" refuses ".*: not a module of benchmark cases" "$SCRATCH/wrong" "$build"

helps() {
    "$tool" --help >"$SCRATCH/help" && grep -q '^usage: tools/compare-builds' "$SCRATCH/help"
}
check "--help prints the usage" helps

compare() { # status expected, arguments
    local expected=$1
    shift
    "$tool" "$build" "$build" --seconds 0.1 "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
    local status=$?
    [ "$status" -eq "$expected" ] && return
    echo "status $status"
    cat "$SCRATCH/out" "$SCRATCH/err"
    return 1
}

row='^rows n=16 plain +[0-9.]+ +[0-9.]+ +[0-9.]+  [0-9.]+ to [0-9.]+ +[0-9]+'
check "a case is compared" compare 0 --only "rows n=16 plain" --bar 1000
check "its row has both times, the ratio, the interval and the pairs" grep -Eq "$row\$" "$SCRATCH/out"
check "no other case is compared" [ "$(grep -c ' to ' "$SCRATCH/out")" -eq 1 ]
check "the last line counts the cases" [ "$(tail -n 1 "$SCRATCH/out")" = "0 of 1 cases lie entirely above 1000" ]
check "a case above the bar gives status 1" compare 1 --only "rows n=16 plain" --bar 0.001
check "a case above the bar is marked" grep -Eq "$row  SLOWER\$" "$SCRATCH/out"
check "a case above the bar is counted" [ "$(tail -n 1 "$SCRATCH/out")" = "1 of 1 cases lies entirely above 0.001" ]
check "results are written as JSON" compare 0 --only "rows n=16" --bar 1000 --json "$SCRATCH/results.json"
check "the table is printed beside the JSON" grep -Eq "$row" "$SCRATCH/out"
check "the JSON has both cases" [ "$(grep -c '"case": "rows n=16 ' "$SCRATCH/results.json")" -eq 2 ]
check "JSON goes to standard output" compare 0 --only "rows n=16 plain" --bar=1000 --json -
check "nothing else goes to standard output" [ "$(head -c 1 "$SCRATCH/out")" = "{" ]

by_library() {
    "$tool" "$WHET_LIB" "$build/" --only "rows n=16 plain" --seconds 0.1 --bar 1000
}
check "a build can be given by its library" by_library

finish
