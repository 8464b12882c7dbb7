#!/usr/bin/env bash
# Runs the plug-in's tests, and those of `whet probe`, in older versions of llama.cpp.
#
#     tools/test-hosts.sh [VERSION ...]     versions of npm's node-llama-cpp (default: those of llama/versions.txt)
#
# Each is fetched into build/llama.cpp-VERSION (tools/fetch-llama.sh; 30 MB each) and tested in build/hosts, where only files
# that depend on the host are compiled again. Prints a line per version with its count, or why it was not tested. The status
# is 0 if nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 1

tests='^plugin/llama/(declarations|models|operations|recorded|tiny_model)$|^(cli|lab/model)/probe$'
targets=(whet ggml_whet whet_llama_driver test_plugin_llama_{declarations,operations,recorded,tiny_model} test_lab_model_probe)

test_host() { # version folder; prints the count, the rest is in build/hosts-VERSION.log
    local log=build/hosts-$1.log
    if ! { cmake --preset release -B build/hosts -DLLAMA_CPP_DIR="$2" && cmake --build build/hosts --target "${targets[@]}"; } >"$log" 2>&1; then
        echo "build failed, see $log"
        return 1
    fi
    tools/run-tests.sh build/hosts -R "$tests" >>"$log" 2>&1
    local status=$?
    [ $status -eq 0 ] || grep -A 3 -E 'FAIL|failed' "$log" >&2
    tail -n 1 "$log"
    return $status
}

for version; do
    if ! grep -v '^#' llama/versions.txt | grep -q "^${version//./\\.} "; then
        echo "test-hosts: $version is not in llama/versions.txt" >&2
        exit 2
    fi
done

failed=0
while read -r version build _ layout; do
    [ $# -eq 0 ] || [[ " $* " == *" $version "* ]] || continue
    folder=$PWD/build/llama.cpp-$version
    if ! result=$(tools/fetch-llama.sh "$folder" "$version"); then
        # A version without checksums is a mistake in the list; a network that fails is not.
        case $result in
        *"unknown version"*) result="FAILED: $result" failed=1 ;;
        *) result="skipped: $result" ;;
        esac
    elif ! result=$(WHET_LLAMA_LAYOUT=$layout test_host "$version" "$folder"); then
        result="FAILED: $result"
        failed=1
    fi
    printf '%-8s %-7s %-22s %s\n' "$version" "$build" "$layout" "$result"
done < <(grep -v "^#" llama/versions.txt)
exit $failed
