#!/usr/bin/env bash
# Runs the tests that are too long for `make test`, one part after the other.
#
#     tools/test-long.sh [--until TIME] [PART ...]     default: all parts
#
# Ends with a line per part and the sum of all counts, alone on the last line. A part without a count of its own counts as
# one test. With --until (seconds since 1970) a part is skipped by name if it is not likely to end by that time. The output
# of each part goes to build/long/PART.log; what failed is printed. The status is 0 if nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 2

# Part and minutes on two cores, the build included.
parts="
check 8
arm 9
halves 2
scalar 3
wasm 5
mpi 6
packages 7
archive 18
hosts 8
fuzz 18
asan 25
tsan 30
"

build() { # preset; prints what failed
    local log
    log=build/long/build-$1.log
    if ! { cmake --preset "$1" && cmake --build --preset "$1"; } >"$log" 2>&1; then
        tail -n 40 "$log"
        return 1
    fi
}
long() { # regular expression of test names
    build release && tools/run-tests.sh build/release -L '^long$' -R "$1"
}
sanitized() { # preset
    build "$1" && tools/run-tests.sh "build/$1" -LE '^long$'
}
run_part() {
    case $1 in
    check) cmake --preset release >/dev/null && tools/check.sh build/release ;;
    arm) long '^arm/' ;;
    wasm) build wasm && tools/run-tests.sh build/wasm ;;
    mpi) long '^mpi/' ;;
    scalar) long '^attention/.*@scalar$' ;;
    halves)
        if grep -q '^WHET_HOST_HAS_AVX512:.*=1$' build/release/CMakeCache.txt; then
            long '@avx512-halves$'
        else
            echo "part of make test on a processor without AVX-512"
        fi
        ;;
    packages) long '^(install|packages)/' ;;
    archive) long '^source/archive$' ;;
    hosts) tools/test-hosts.sh ;;
    fuzz) build fuzz && tools/fuzz.sh build/fuzz 60 ;;
    asan | tsan) sanitized "$1" ;;
    esac
}

until=
if [ "${1:-}" = --until ]; then
    until=${2:?usage: $0 [--until TIME] [PART ...]}
    shift 2
fi
names=$(awk 'NF { print $1 }' <<<"$parts")
# shellcheck disable=SC2086 # one word per part
[ $# -gt 0 ] || set -- $names
for part; do
    if ! grep -qx -- "$part" <<<"$names"; then
        echo "test-long: unknown part '$part'; parts: $(paste -s -d ' ' <<<"$names")" >&2
        exit 2
    fi
done

mkdir -p build/long
summary=""
passed=0 failed=0 skipped=0
for part; do
    minutes=$(awk -v part="$part" '$1 == part { print $2 }' <<<"$parts")
    start=$(date +%s)
    log=build/long/$part.log
    if [ -n "$until" ] && [ $((start + 60 * minutes)) -gt "$until" ]; then
        skipped=$((skipped + 1))
        summary+=$(printf '%-10s skipped: takes about %d minutes, %d are left' "$part" "$minutes" $(((until > start ? until - start : 0) / 60)))$'\n'
        continue
    fi
    echo "$part: about $minutes minutes"
    run_part "$part" >"$log" 2>&1
    status=$?
    count=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    read -r -a number <<<"${count:-$((status == 0)) passed, 0 failed, 0 skipped}"
    if [ $status -ne 0 ]; then
        tail -n 60 "$log"
        # A part that failed without counting a failure is one.
        [ "${number[2]}" -gt 0 ] || number[2]=1
    fi
    passed=$((passed + number[0])) failed=$((failed + number[2])) skipped=$((skipped + number[4]))
    summary+=$(printf '%-10s %d passed, %d failed, %d skipped, %d s' "$part" "${number[0]}" "${number[2]}" "${number[4]}" \
        $(($(date +%s) - start)))$'\n'
done
printf '\n%s\n%d passed, %d failed, %d skipped\n' "$summary" "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
