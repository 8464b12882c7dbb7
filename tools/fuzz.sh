#!/usr/bin/env bash
# Runs every fuzz target of a build for a number of seconds, from the seeds in fuzz/corpus/<target> and the inputs that
# earlier runs found (BUILD_DIR/fuzz/corpus). An input that breaks a target is left in BUILD_DIR/fuzz; its command is printed.
set -u

build=$(cd "${1:?usage: $0 BUILD_DIR SECONDS}" && pwd)
seconds=${2:?usage: $0 BUILD_DIR SECONDS}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
status=0
n_targets=0
# Freed memory that waits in a large quarantine costs a page fault for every new page.
export ASAN_OPTIONS=${ASAN_OPTIONS-quarantine_size_mb=2:malloc_context_size=2}

# libFuzzer writes a file for every new input: in memory first, since creating them on a disk took up to a quarter of
# fuzz_attention's time.
memory=/dev/shm
[ -w $memory ] || memory=${TMPDIR:-/tmp}
fresh=$(mktemp -d -p "$memory" whet-fuzz.XXXXXX) || exit 1
keep_found() { # target
    find "$fresh/$1" -type f -exec mv -t "$build/fuzz/corpus/$1" {} +
}
name=
# shellcheck disable=SC2317 # called by trap
end() {
    [ ! -d "$fresh/$name" ] || [ -z "$name" ] || keep_found "$name"
    rm -rf "$fresh"
}
trap end EXIT
trap 'exit 130' INT TERM

for target in "$build"/fuzz/*; do
    if [ ! -f "$target" ] || [ ! -x "$target" ]; then
        continue
    fi
    name=$(basename "$target")
    n_targets=$((n_targets + 1))
    found=$build/fuzz/corpus/$name
    mkdir -p "$found" "$fresh/$name"
    seeds=()
    [ ! -d "$source/fuzz/corpus/$name" ] || seeds=("$source/fuzz/corpus/$name")
    echo "$name: $seconds s"
    # libFuzzer searches a list of all features that are rarer than this threshold (255 by default) for each one it sees.
    log=$build/fuzz/$name.log
    if (cd "$build/fuzz" && "$target" -max_total_time="$seconds" -artifact_prefix="$name-" -timeout=20 \
        -entropic_feature_frequency_threshold=8 "$fresh/$name" "$found" "${seeds[@]}" >"$log" 2>&1 </dev/null); then
        grep -E '^Done|DONE' "$log" | tail -n 1
    else
        tail -n 40 "$log"
        echo "FAIL $name"
        status=1
    fi
    keep_found "$name"
done
if [ $n_targets -eq 0 ]; then
    echo "fuzz: no target in $build/fuzz"
    exit 1
fi
exit $status
