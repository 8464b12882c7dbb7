#!/usr/bin/env bash
# tools/llama-speed: results, what it adds to earlier ones, the picture, and wrong options. What it measures is not looked at.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/plugin/environment.sh
. "$WHET_SOURCE_DIR/tests/plugin/environment.sh"

model=${WHET_MODELS:-}/stories260K-f32.gguf
build=$(cd "$(dirname "$WHET_PLUGIN")/../.." && pwd)
speed() { "$WHET_SOURCE_DIR/tools/llama-speed" --build "$build" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"; }

refuses() { # message options ...
    local message=$1
    shift
    speed "$@"
    local status=$?
    cat "$SCRATCH/err"
    [ $status -ne 0 ] && grep -q -- "$message" "$SCRATCH/err" && ! grep -q Traceback "$SCRATCH/err"
}
check "--help names the options" eval 'speed --help && grep -q -- --quick "$SCRATCH/out" && grep -q -- --json "$SCRATCH/out"'
check "a list of something else is refused" refuses "'x' is not a list such as 0,2048" --depths x
check "no threads are refused" refuses "'0' has a number below 1" --threads 0
check "an unknown mode is refused" refuses "'perhaps' is not one of on, off" --flash perhaps
check "a model that is not there is refused" refuses "no such file" "$SCRATCH/none.gguf"
check "results that are not there are refused" refuses "nothing was measured" --no-measuring --json "$SCRATCH/none.json"
echo '{' >"$SCRATCH/broken.json"
check "a broken file of results is refused" refuses "broken.json: " --no-measuring --json "$SCRATCH/broken.json"
if [ ! -r "$model" ]; then
    skip "measuring stories260K" "WHET_MODELS names no folder with it"
    finish
fi
check "a file that is no model is refused" refuses "cannot load the model" "$WHET_SOURCE_DIR/README.md"

part=("$model" --depths 0,100 --caches f16 --threads 1 --seconds 0.01 --json "$SCRATCH/speed.json")
rows() { python3 -c "import json; print(len(json.load(open('$SCRATCH/speed.json'))['rows']))"; }
measures() { # rows options ...
    speed "${part[@]}" "${@:2}"
    local status=$?
    cat "$SCRATCH/err" "$SCRATCH/out"
    [ $status -eq 0 ] && [ "$(rows)" = "$1" ] && grep -q '^| f16 | 1 | 1 | 100 |' "$SCRATCH/out" && grep -q 'llama.cpp .*node-llama-cpp' "$SCRATCH/out"
}
check "a part is measured" measures 2 --flash on --sequences 1
check "another is added" measures 8 --flash on,off --sequences 1,4
check "the same again replaces it" measures 8 --flash off --sequences 1
draws() {
    speed --no-measuring --json "$SCRATCH/speed.json" --figure "$SCRATCH/speed.svg" || return 1
    python3 -c "import sys, xml.dom.minidom as x; sys.exit(len(x.parse('$SCRATCH/speed.svg').getElementsByTagName('polyline')) != 4)"
}
check "the picture has a line for every mode" draws
check "a picture that cannot be written is an error" refuses "none/speed.svg: " --no-measuring --json "$SCRATCH/speed.json" --figure "$SCRATCH/none/speed.svg"
finish
