#!/usr/bin/env bash
# Runs the tests of a build folder and counts their cases.
#
#     tools/run-tests.sh build/release [further arguments for ctest, such as -R row]
#
# Every test program prints one line per case and a count at its end. This script prints the whole output of programs that
# failed and a list of skipped cases with reasons, and ends with the sum over all programs, alone on the last line. A program
# that crashed, timed out, could not be started or did not print its count adds one failure. The status is 0 only if nothing
# failed and something ran.
set -u

if [ $# -lt 1 ]; then
    echo "usage: $0 BUILD_DIR [ctest arguments]" >&2
    exit 2
fi
build=$1
shift
log=$build/tests.log

jobs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
runner=()
if grep -qs '^WHET_SANITIZE:.*=.*thread' "$build/CMakeCache.txt" && setarch -R true 2>/dev/null; then
    # ThreadSanitizer cannot place its shadow memory if the kernel randomises addresses widely.
    runner=(setarch -R)
fi

# -V prefixes every line of a program with its number, which tells programs that run at the same time apart.
${runner[@]+"${runner[@]}"} ctest --test-dir "$build" -V -j "$jobs" --no-tests=error "$@" </dev/null 2>&1 |
    tee "$log" | awk 'sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, "") { print; fflush() }'
ctest_status=${PIPESTATUS[0]}

awk -v ctest_status="$ctest_status" '
    /^test [0-9]+$/ { next }
    # A line of a program: "12: text".
    match($0, /^[0-9]+: /) {
        number = substr($0, 1, RLENGTH - 2)
        text = substr($0, RLENGTH + 1)
        if (text ~ /^(Test command|Working Directory|Environment variables|Test timeout computed to be):/) { next }
        if (text ~ /^ [A-Z_]+=/ && !(number in output)) { next }
        output[number] = output[number] "    " text "\n"
        if (text ~ /^skip /) { skips[number] = skips[number] "    " substr(text, 6) "\n" }
        if (text ~ /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/) {
            split(text, part, /[ ,]+/)
            passed[number] = part[1]; failed[number] = part[3]; skipped[number] = part[5]
            counted[number] = 1
        }
        next
    }
    # The end of a program: "3/9 Test #12: folder/name ....   Passed    0.01 sec".
    match($0, /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /) {
        number = $0
        sub(/^[^#]*#/, "", number)
        sub(/:.*/, "", number)
        rest = substr($0, RLENGTH + 1)
        split(rest, word, " ")
        name[number] = word[1]
        order[++n_programs] = number
        verdict[number] = rest ~ / Passed +[0-9.]+ sec$/ ? "" : rest
        sub(/^[^ ]+ \.*/, "", verdict[number])
        sub(/^\*+/, "", verdict[number])
        sub(/(\*\*\*Exception:)? *[0-9.]* sec$/, "", verdict[number])
        next
    }
    END {
        for (i = 1; i <= n_programs; i++) {
            number = order[i]
            reason = ""
            if (verdict[number] != "" && !(counted[number] && failed[number] > 0)) { reason = verdict[number] }
            else if (!counted[number]) { reason = "ended without its count" }
            if (reason != "") { failed[number]++ }
            total_passed += passed[number]; total_failed += failed[number]; total_skipped += skipped[number]
            if (failed[number] > 0) {
                printf "\n%s failed%s\n%s", name[number], reason == "" ? ":" : " (" reason "):", output[number]
            }
            if (number in skips) { all_skips = all_skips "  " name[number] "\n" skips[number] }
        }
        if (all_skips != "") { printf "\nskipped:\n%s", all_skips }
        status = total_failed > 0 || total_passed == 0
        if (!status && ctest_status != 0) {
            print "\nctest itself failed with status " ctest_status
            total_failed++
            status = 1
        }
        if (total_passed + total_failed == 0) { print "\nno test ran" }
        printf "\n%d passed, %d failed, %d skipped\n", total_passed, total_failed, total_skipped
        exit status
    }
' "$log"
