#!/usr/bin/env bash
# `whet tune` over ranks: the same results as by one process, also where the job is killed on the way and continued by another
# number of ranks. Arguments: openmpi|mpich MPIRUN.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/mpi/ranks.sh
. "$WHET_SOURCE_DIR/tests/mpi/ranks.sh"

mpi=$1 mpirun=$2
model=${WHET_MODELS:-}/stories260K-f32.gguf
if [ ! -f "$model" ]; then
    skip "all of it" "WHET_MODELS names no folder of models"
    finish
    exit
fi
if ! "$WHET_BIN" lm train --num-layers 1 --width 16 --num-heads 2 --batch 1 --steps 1 --yes --quiet -o "$SCRATCH/lm" >"$SCRATCH/out" 2>&1; then
    skip "all of it" "training does not start: $(cat "$SCRATCH/out")"
    finish
    exit
fi
mkdir "$SCRATCH/learn" "$SCRATCH/judge"
for _ in 1 2 3 4 5 6 7 8; do cat "$WHET_SOURCE_DIR/tests/plugin/story.txt"; done | tr 'aeiou' 'eioua' >"$SCRATCH/learn/1.txt"
cp "$WHET_SOURCE_DIR/docs/embedding.md" "$SCRATCH/learn/2.md"
cp "$WHET_SOURCE_DIR/docs/INSTALL.md" "$SCRATCH/judge"
tune=(tune "$model" --text "$SCRATCH"/learn/* --check "$SCRATCH"/judge/* --context 64 --count 8 --validation-count 4 --check-count 8
    --steps 6 --num-seeds 2 --threads 1 --quiet)
tunes_alone() { "$WHET_BIN" "${tune[@]}" --json "$SCRATCH/tune.json" "$@" >"$SCRATCH/out"; }
tunes() { # ranks option ...
    local ranks=$1
    shift
    run "$ranks" "${tune[@]}" --json "$SCRATCH/tune-$ranks.json" "$@" >"$SCRATCH/out" || { cat "$SCRATCH/out"; return 1; }
    [ "$(grep -c 'confirm the gain. Use it' "$SCRATCH/out")" = 1 ] && cmp "$SCRATCH/tune.json" "$SCRATCH/tune-$ranks.json"
}
tunes_alone -o "$SCRATCH/tuned.json"
for ranks in 2 5; do
    check "$ranks ranks find what one process finds" tunes $ranks -o "$SCRATCH/tuned-$ranks.json"
    check "and leave nothing else" [ "$(cd "$SCRATCH" && echo tuned-$ranks*)" = "tuned-$ranks.json" ]
done

deals() { # name option ...; whatever the exit status is
    local name=$1 status
    shift
    "$WHET_BIN" "${tune[@]}" "$@" -o "$SCRATCH/$name.json" --json "$SCRATCH/$name-all.json" >/dev/null
    status=$?
    run 3 "${tune[@]}" "$@" -o "$SCRATCH/$name-3.json" --json "$SCRATCH/$name-3-all.json" >/dev/null 2>&1
    [ $? = "$status" ] && cmp "$SCRATCH/$name-all.json" "$SCRATCH/$name-3-all.json"
}
check "the examples of a task are dealt" deals task --context 96 --task copy --limit 50%
if [ -n "${WHET_LLAMA_LIB:-}" ]; then
    export WHET_LLAMA=$WHET_LLAMA_LIB
    check "so are the passes of a search by llama.cpp" deals forward --forward --passes 64 --layers 1,3-4 --limit 100%
else
    skip "a search by llama.cpp" "needs a llama.cpp"
fi

tune_is_resumed() { # ranks; 0: without MPI
    local out=$SCRATCH/resumed-$1.json
    killed_at "$out.partial-1" "$out" "${tune[@]}" --steps 200 || return 1
    # what another rank than the first had is made use of: damaged, it is noticed
    cp "$out.partial-1" "$SCRATCH/part" || return 1
    sed -i '/"entries"/,$ s/[1-9]/7/' "$out.partial-1"
    "$WHET_BIN" "${tune[@]}" --steps 200 -o "$out" >/dev/null 2>"$SCRATCH/err" && return 1
    grep -q "partial-1: not the state of a run, or damaged" "$SCRATCH/err" || { cat "$SCRATCH/err"; return 1; }
    cp "$SCRATCH/part" "$out.partial-1"
    if [ "$1" = 0 ]; then tunes_alone --steps 200 -o "$out"; else tunes "$1" --steps 200 -o "$out"; fi || return 1
    [ "$(cd "$SCRATCH" && echo "resumed-$1"*)" = "resumed-$1.json" ] && cmp "$SCRATCH/long.json" "$out"
}
tunes_alone --steps 200 -o "$SCRATCH/long.json"
for ranks in 2 0; do
    check "a killed job continues, with $ranks ranks (0: without MPI), to the same file" tune_is_resumed $ranks
done

fails_once() { # message option ...
    local message=$1 output
    shift
    output=$(run 3 "${tune[@]}" "$@" 2>&1) && return 1
    echo "$output"
    [ "$(grep -c -- "$message" <<<"$output")" = 1 ]
}
check "what the first rank cannot write ends all, with one message" \
    fails_once 'cannot write: No such file or directory' -o "$SCRATCH/nowhere/tuned.json"
check "so does what all find wrong" fails_once 'the model takes 512 tokens, not 4000' --context 4000 -o "$SCRATCH/x.json"
finish
