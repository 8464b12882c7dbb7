#!/usr/bin/env bash
# Real models in an unmodified llama.cpp that loads the plug-in through GGML_BACKEND_PATH: the same model with softmax, another
# with a policy, recorded rows, and wrong settings that prevent any computation.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/plugin/environment.sh
. "$WHET_SOURCE_DIR/tests/plugin/environment.sh"

story=$WHET_SOURCE_DIR/tests/plugin/story.txt
small=${WHET_MODELS:-}/stories260K-f32.gguf
middle=${WHET_MODELS:-}/stories15M-q8_0.gguf
chat=${WHET_MODELS:-}/minimind2-small-q8_0.gguf
for model in "$small" "$middle" "$chat"; do
    if [ ! -r "$model" ]; then
        skip "$(basename "$model") through the plug-in" "WHET_MODELS names no folder with it"
    fi
done
[ -r "$small" ] || finish

stock() { "$WHET_LLAMA_DRIVER" "$@" --threads 1; }
whet() { GGML_BACKEND_PATH=$WHET_PLUGIN "$WHET_LLAMA_DRIVER" "$@" --threads 1 2>"$SCRATCH/messages"; }

# Whether two perplexities ("4.06 1054") are within a share of each other.
near() { # a b share
    echo "$1 and $2"
    awk -v a="${1%% *}" -v b="${2%% *}" -v share="$3" 'BEGIN { exit !(a > 0 && b > 0 && a - b <= share * b && b - a <= share * b) }'
}

same_perplexity() { # share model options ...
    local share=$1 a b
    shift
    a=$(stock "$1" text "$story" "${@:2}") && b=$(whet "$1" text "$story" "${@:2}") || return 1
    cat "$SCRATCH/messages"
    near "$a" "$b" "$share" && grep -q 'whet: [1-9][0-9]* attention operations handled, 0 of them with a policy$' "$SCRATCH/messages"
}
for fa in auto on off; do
    check "stories260K has the host's perplexity, flash attention $fa" same_perplexity 1e-4 "$small" --fa $fa
done
for cache in f32 bf16,f16; do
    check "stories260K has it with a cache of $cache" same_perplexity 1e-2 "$small" --fa on --cache $cache --batch 33
done

same_text() { # model prompt options ...
    local a b
    a=$(stock "$1" greedy "$2" "${@:3}") && b=$(whet "$1" greedy "$2" "${@:3}") || return 1
    printf '%s\n' "$a" "$b"
    [ ${#a} -gt 20 ] && [ "$a" = "$b" ]
}
check "stories260K tells the host's story" same_text "$small" "Lily and Tom went to the park" --tokens 60
check "it does so without flash attention" same_text "$small" "Lily and Tom went to the park" --tokens 60 --fa off
check "two sequences at once tell it, too" same_text "$small" "Lily and Tom went to the park" --tokens 30 --sequences 2
if [ -r "$middle" ]; then
    check "stories15M has the host's perplexity" same_perplexity 2e-3 "$middle" --fa on
    check "stories15M tells the host's story" same_text "$middle" "Once upon a time" --tokens 40
fi
if [ -r "$chat" ]; then
    question=$'<|im_start|>user\nWhat is the largest number of 3, 14 and 9?<|im_end|>\n<|im_start|>assistant\n'
    check "MiniMind2-small gives the host's answer" same_text "$chat" "$question" --tokens 10
fi

# ---- every operation compared with the same in double, computed from the host's inputs ----

printf '%s\n' 'Once upon a time' 'Lily and Tom went to the park' 'The little dog was very' 'One day, a big red ball rolled down the hill.' \
    >"$SCRATCH/prompts"
all_exact() { # model mode subject options ...
    whet "$@" --attention measured --fa on >"$SCRATCH/out" || return 1
    cat "$SCRATCH/messages"
    awk '/^attention: [1-9]/ { seen = $NF == "most" && $(NF - 2) ~ /^[0-9]/ && $(NF - 2) + 0 <= 1e-5 } END { exit !seen }' "$SCRATCH/messages" &&
        grep -q 'whet: [1-9][0-9]* attention operations handled' "$SCRATCH/messages"
}
for unified in 0 1; do
    check "several texts at once are exact, unified cache: $unified" all_exact "$small" answers "$SCRATCH/prompts" --tokens 20 --unified $unified
done
if [ -r "$chat" ]; then
    for cache in q8_0 q4_0 q8_0,q4_0; do
        check "MiniMind2-small is exact with a cache of $cache" all_exact "$chat" text "$story" --context 96 --batch 96 --cache $cache
    done
    check "and with several texts in one cache of q4_0" all_exact "$chat" answers "$SCRATCH/prompts" --tokens 10 --unified 1 --cache q4_0
fi

# ---- policies ----

plain=$(whet "$small" text "$story" --fa on)
policy_gives() { # condition on a (with) and b (without), settings ...
    local condition=$1 with
    shift
    with=$(env "$@" GGML_BACKEND_PATH="$WHET_PLUGIN" "$WHET_LLAMA_DRIVER" "$small" text "$story" --fa on --threads 1 2>"$SCRATCH/messages") || return 1
    cat "$SCRATCH/messages"
    echo "with: $with, without: $plain"
    awk -v a="${with%% *}" -v b="${plain%% *}" "BEGIN { exit !($condition) }"
}
handled_with_policy() { grep -q "whet: [0-9]* attention operations handled, $1 of them with a policy" "$SCRATCH/messages"; }
check "adaptive changes the model" policy_gives 'a > 1.05 * b' WHET_POLICY=adaptive
check "and all operations are counted" handled_with_policy '[1-9][0-9]*'
check "a strength of 0 changes nothing" policy_gives 'a - b < 1e-5 && b - a < 1e-5' WHET_POLICY=adaptive WHET_STRENGTH=0
check "a small strength changes little" policy_gives 'a != b && a < 1.1 * b && a > 0.9 * b' WHET_POLICY=adaptive WHET_STRENGTH=0.1
check "layers that do not exist change nothing" policy_gives 'a == b' WHET_POLICY=adaptive WHET_LAYERS=60-70
check "and the count is 0" handled_with_policy 0
names_what_is_missing() { grep -qxF "whet: $1; the policy had no effect there" "$SCRATCH/messages"; }
check "and they are reported with the variable" names_what_is_missing 'WHET_LAYERS: the model has no layers 60-70, only 0 to 4'
check "heads that do not exist change nothing" policy_gives 'a == b' WHET_POLICY=adaptive WHET_HEADS=40
check "and are reported" names_what_is_missing 'WHET_HEADS: the model has no head 40, only 0 to 7'
check "one head of one layer changes little" policy_gives 'a != b && a < 1.2 * b' WHET_POLICY=adaptive WHET_LAYERS=4 WHET_HEADS=2
echo '{"rules": [{"layers": "4", "heads": "2", "policy": "adaptive"}]}' >"$SCRATCH/config.json"
one_head=$(WHET_POLICY=adaptive WHET_LAYERS=4 WHET_HEADS=2 whet "$small" text "$story" --fa on)
from_file() { [ "$(WHET_CONFIG=$SCRATCH/config.json whet "$small" text "$story" --fa on)" = "$one_head" ]; }
check "a file says the same" from_file

# ---- recording ----

records() { # fa
    WHET_STATS=$SCRATCH/$1.csv whet "$small" text "$story" --fa "$1" --context 64 --batch 64 >"$SCRATCH/out" || return 1
    head -n 3 "$SCRATCH/$1.csv"
    # 1059 tokens in pieces of 64, each for 5 layers of 8 heads
    [ "$(wc -l <"$SCRATCH/$1.csv")" -eq $((1 + 1059 * 5 * 8)) ] && grep -q ' 42360 rows recorded$' "$SCRATCH/messages" &&
        awk -F , 'NR > 1 && ($5 != $4 + 1 || $6 < 0 || $6 > log($5) + 1e-6 || $7 != $6 || $8 != 1 || $9 <= 0 || $9 > 1 || $10 < 0) { exit 1 }' "$SCRATCH/$1.csv"
}
check "every row is recorded with flash attention" records on
check "every row is recorded without it" records off
agree() {
    paste -d , "$SCRATCH/on.csv" "$SCRATCH/off.csv" | awk -F , '
        function off(a, b) { return a > b ? a - b : b - a }
        NR > 1 && (off($6, $19) > 2e-2 || off($10, $23) > 2e-2 * (1 + $10) || $4 != $17) { print; bad = 1; exit } END { exit bad }'
}
check "both are the same" agree
last_rows() {
    WHET_STATS=$SCRATCH/last.csv WHET_STATS_ROWS=last WHET_POLICY=adaptive whet "$small" greedy "Once upon a time" --tokens 5 >"$SCRATCH/out" || return 1
    tail -n 2 "$SCRATCH/last.csv"
    [ "$(wc -l <"$SCRATCH/last.csv")" -eq $((1 + 5 * 5 * 8)) ] &&
        awk -F , 'NR > 1 && ($5 != $4 + 1 || $8 < 1 || $7 > $6 + 1e-6) { exit 1 } $8 > 1 { sharp++ } END { exit !(sharp > 10) }' "$SCRATCH/last.csv"
}
check "only the last rows are recorded, at their positions, before and after adaptive" last_rows

# ---- wrong settings ----

computes_nothing() { # message settings ...
    local message=$1
    shift
    env "$@" GGML_BACKEND_PATH="$WHET_PLUGIN" "$WHET_LLAMA_DRIVER" "$small" greedy "Once" --threads 1 >"$SCRATCH/out" 2>"$SCRATCH/messages"
    local status=$?
    cat "$SCRATCH/messages"
    [ "$status" -eq 1 ] && [ ! -s "$SCRATCH/out" ] && grep -q "whet: $message.*; refusing to compute until this is fixed" "$SCRATCH/messages"
}
check "an unknown policy prevents computation" computes_nothing 'WHET_POLICY=adaptve: ' WHET_POLICY=adaptve
check "so does a strength of 2" computes_nothing 'WHET_STRENGTH=2: out of range (0 to 1)' WHET_POLICY=adaptive WHET_STRENGTH=2
check "so do layers that go backwards" computes_nothing 'WHET_LAYERS=9-3: not a list' WHET_POLICY=adaptive WHET_LAYERS=9-3
check "so does a recording that cannot be written" computes_nothing 'WHET_STATS=/nowhere/rows.csv' WHET_STATS=/nowhere/rows.csv
check "so does a missing file" computes_nothing 'WHET_CONFIG=/nowhere/config.json: ' WHET_CONFIG=/nowhere/config.json

by_preload() {
    [ -z "${WHET_INSTRUMENTED:-}" ] || return 0
    LD_PRELOAD=$WHET_PLUGIN "$WHET_LLAMA_DRIVER" "$small" greedy "Once upon a time" --threads 1 --tokens 5 >"$SCRATCH/out" 2>"$SCRATCH/messages"
    cat "$SCRATCH/messages"
    grep -q 'whet: 25 attention operations handled' "$SCRATCH/messages"
}
check "LD_PRELOAD alone is enough" by_preload
tells_what_it_does() {
    WHET_VERBOSE=1 whet "$small" greedy "Once upon a time" --tokens 2 >"$SCRATCH/out"
    cat "$SCRATCH/messages"
    grep -q "whet: libwhet .*, ggml layout ${WHET_LLAMA_LAYOUT:-since April 2026}, policy softmax, 0 rules" "$SCRATCH/messages"
}
check "WHET_VERBOSE prints details" tells_what_it_does
finish
