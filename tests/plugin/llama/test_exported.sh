#!/usr/bin/env bash
# Models that `whet lm export` wrote, in an unmodified llama.cpp: it loads them, tokenizes texts in the same way and gives the
# same text. Small models made here, with silu in their gates (llama) and with gelu (gemma), and real ones if available.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/plugin/environment.sh
. "$WHET_SOURCE_DIR/tests/plugin/environment.sh"

if [ -z "$WHET_BIN" ]; then
    skip "exported models in llama.cpp" "needs the program, which was not built"
    finish
fi

question=$'minimum:\nkey: [0.548 0.715 0.602 0.544 0.423 0.645]\nmin:\n'

# The continuations of both; a mark after the final newline keeps the shell from removing it.
theirs() { "$WHET_LLAMA_DRIVER" "$1" greedy "$2" --tokens "$3" --context 256 --threads 1 --fa off --cache f32 && printf .; }
ours() { "$WHET_BIN" lm generate "$1" --prompt "$2" --steps "$3" --rope "$4" --threads 1 && printf .; }
says_the_same() { # exported original prompt tokens [rope]
    local a b
    a=$(theirs "$1" "$3" "$4") && b=$(ours "$2" "$3" "$4" "${5:-none}") || return 1
    b=${b#"$3"}
    printf '%s\n' "llama.cpp: $a" "whet: $b"
    [ ${#a} -gt 2 ] && [ "$a" = "$b" ]
}

for gate in swiglu geglu; do
    "$WHET_BIN" lm train --layers 2 --width 32 --heads 4 --key-heads 2 --gate $gate --steps 100 --batch 16 --context 256 --rate 0.005 \
        --quiet --out "$SCRATCH/$gate" >/dev/null 2>"$SCRATCH/err" || break
    "$WHET_BIN" lm export "$SCRATCH/$gate/model.ckpt" "$SCRATCH/$gate.gguf" >/dev/null
    check "a model with $gate says the same in llama.cpp" says_the_same "$SCRATCH/$gate.gguf" "$SCRATCH/$gate/model.ckpt" "$question" 12
done
if grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "models of CLRS-Text in llama.cpp" "needs libopenblas0"
fi

story=${WHET_MODELS:-}/stories260K.bin
chat=${WHET_MODELS:-}/minimind2-small-q8_0.gguf
if [ -r "$story" ]; then
    "$WHET_BIN" lm export "$story" "$SCRATCH/story.gguf" >/dev/null
    check "a model of llama2.c tells its story there" says_the_same "$SCRATCH/story.gguf" "$story" "Lily and Tom went to the park" 60
    for rope in linear:2 ntk:2 yarn:4; do
        "$WHET_BIN" lm export "$story" "$SCRATCH/scaled.gguf" --rope $rope >/dev/null
        check "with $rope too" says_the_same "$SCRATCH/scaled.gguf" "$story" "Lily and Tom went to the park" 60 $rope
    done
else
    skip "a model of llama2.c tells its story there" "WHET_MODELS names no folder with it"
fi
if [ -r "$chat" ]; then
    "$WHET_BIN" lm export "$chat" "$SCRATCH/chat.gguf" --type q8_0 >/dev/null
    check "a model with byte pairs answers there" says_the_same "$SCRATCH/chat.gguf" "$chat" \
        $'<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n' 20
else
    skip "a model with byte pairs answers there" "WHET_MODELS names no folder with it"
fi
finish
