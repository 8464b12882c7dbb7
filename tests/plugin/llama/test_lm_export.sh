#!/usr/bin/env bash
# Models that `whet lm export` writes as GGUF, loaded by an unmodified llama.cpp: it must say what `whet lm generate` says.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
unset WHET_POLICY WHET_CONFIG WHET_STATS WHET_STATS_ROWS WHET_STRENGTH WHET_LAYERS WHET_HEADS WHET_VERBOSE GGML_BACKEND_PATH

small=(--layers 2 --width 32 --batch 8 --context 256 --steps 60 --loss all --rate 0.005 --warm-up 5 --algorithm 'minimum,insertion_sort' --quiet)
train() { "$WHET_BIN" lm train "${small[@]}" "$@" >/dev/null 2>"$SCRATCH/err"; }
if ! train --heads 2 --out "$SCRATCH/gelu" && grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "exported models in llama.cpp" "needs libopenblas0"
    finish
fi
train --heads 4 --key-heads 2 --gate swiglu --out "$SCRATCH/silu"
train --heads 4 --head-dim 16 --gate swiglu --untied --rope-base 500 --out "$SCRATCH/untied"

question=$'minimum:\nkey: [0.5 0.'
says_the_same() { # model type
    local file=$SCRATCH/$1-$2.gguf ours theirs
    "$WHET_BIN" lm export "$SCRATCH/$1/model.ckpt" "$file" --type "$2" >/dev/null || return 1
    ours=$("$WHET_BIN" lm generate "$file" --prompt "$question" --steps 40) || return 1
    theirs=$question$("$WHET_LLAMA_DRIVER" "$file" greedy "$question" --tokens 40 --cache f32 --fa off --threads 1) || return 1
    printf 'whet: %s\nllama.cpp: %s\n' "$ours" "$theirs"
    [ ${#ours} -gt $((${#question} + 20)) ] && [ "$ours" = "$theirs" ]
}
for model in gelu silu untied; do
    check "llama.cpp goes on as whet does with the model $model" says_the_same $model f32
done
goes_on() { # type: llama.cpp rounds differently there, so that single tokens may differ
    "$WHET_BIN" lm export "$SCRATCH/silu/model.ckpt" "$SCRATCH/silu.gguf" --type "$1" >/dev/null &&
        "$WHET_LLAMA_DRIVER" "$SCRATCH/silu.gguf" greedy "$question" --tokens 40 --threads 1 | grep -q '0\.[0-9]'
}
for type in f16 bf16 q8_0; do
    check "it also loads matrices of $type" goes_on $type
done

refuses_learnt() {
    train --heads 2 --policy adaptive --learn-policy head --out "$SCRATCH/learnt" || return 1
    ! "$WHET_BIN" lm export "$SCRATCH/learnt/model.ckpt" "$SCRATCH/learnt.gguf" && [ ! -e "$SCRATCH/learnt.gguf" ]
}
check "what llama.cpp could not compute is not exported" refuses_learnt
finish
