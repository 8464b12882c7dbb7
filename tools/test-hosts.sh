#!/usr/bin/env bash
# Runs the plug-in's tests, and those of `whet probe`, in older versions of llama.cpp.
#
#     tools/test-hosts.sh [VERSION ...]     versions of npm's node-llama-cpp; those below unless some are named
#
# Each is fetched into build/llama.cpp-VERSION (tools/fetch-llama.sh; 30 MB each) and tested in the folder build/hosts, where only
# what depends on the host is compiled again. The end lists every version with what came out, or why it was not tested; the
# status is 0 if nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 1

# Version, what is in it, and which layout of a backend the plug-in has to find there.
hosts="
3.12.1 b6133 before September 2025
3.13.0 b6431 before April 2026
3.14.5 b7347 before April 2026
3.18.0 b8352 before April 2026
3.19.1 b10068 since April 2026
3.21.1 v0.4.0 since April 2026
"
tests='^plugin/llama/(declarations|models|operations|recorded|tiny_model)$|^(cli|lab/model)/probe$'
targets=(whet ggml_whet whet_llama_driver test_plugin_llama_{declarations,operations,recorded,tiny_model} test_lab_model_probe)

test_host() { # version folder; says what came out in one line, the rest is in build/hosts-VERSION.log
    local log=build/hosts-$1.log
    if ! { cmake --preset release -B build/hosts -DLLAMA_CPP_DIR="$2" && cmake --build build/hosts --target "${targets[@]}"; } >"$log" 2>&1; then
        echo "could not be built with, see $log"
        return 1
    fi
    tools/run-tests.sh build/hosts -R "$tests" >>"$log" 2>&1
    local status=$?
    [ $status -eq 0 ] || grep -A 3 -E 'FAIL|failed' "$log" >&2
    tail -n 1 "$log"
    return $status
}

failed=0
while read -r version build layout; do
    [ -n "$version" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $version "* ]] || continue
    folder=$PWD/build/llama.cpp-$version
    if ! result=$(tools/fetch-llama.sh "$folder" "$version"); then
        result="skipped: $result"
    elif ! result=$(WHET_LLAMA_LAYOUT=$layout test_host "$version" "$folder"); then
        result="FAILED: $result"
        failed=1
    fi
    printf '%-8s %-7s %-22s %s\n' "$version" "$build" "$layout" "$result"
done <<<"$hosts"
exit $failed
