#!/usr/bin/env bash
# Training under mpirun: the same weights for any number of ranks, also where one is killed on the way and the rest is
# trained with another number of them. Arguments: openmpi|mpich MPIRUN.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/mpi/ranks.sh
. "$WHET_SOURCE_DIR/tests/mpi/ranks.sh"

mpi=$1 mpirun=$2
lm=(lm train --num-layers 1 --width 16 --num-heads 2 --batch 24 --lengths 4-6 --context 256 --log-every 4 --yes --quiet)
retrieval=(retrieval train --batch 300 --width 16 --yes --quiet)

# Lines of a log but for the time they took.
log_of() { sed -E 's/"(seconds|tokens_per_second)":[0-9.e+-]+//g' "$1"; }

if ! "$WHET_BIN" "${lm[@]}" --steps 12 -o "$SCRATCH/alone" >"$SCRATCH/out" 2>&1; then
    skip "all of it" "training does not start: $(cat "$SCRATCH/out")"
    finish
    exit
fi
"$WHET_BIN" "${retrieval[@]}" --steps 12 --seeds 1..3 -o "$SCRATCH/heads" >/dev/null

same_model() { # ranks threads
    run "$1" "${lm[@]}" --steps 12 --threads "$2" -o "$SCRATCH/lm-$1" &&
        cmp "$SCRATCH/alone/model.ckpt" "$SCRATCH/lm-$1/model.ckpt" &&
        diff <(log_of "$SCRATCH/alone/log.jsonl") <(log_of "$SCRATCH/lm-$1/log.jsonl")
}
for ranks in 1 2 3 4 7; do
    check "lm train: $ranks ranks give the weights and the log of one process" same_model $ranks $((1 + ranks % 2))
done

same_heads() { # ranks
    run "$1" "${retrieval[@]}" --steps 12 --seeds 1..3 -o "$SCRATCH/heads-$1" &&
        run "$1" "${retrieval[@]}" --steps 12 -o "$SCRATCH/head-$1" &&
        cmp "$SCRATCH/heads/seed-1.ckpt" "$SCRATCH/head-$1/seed-1.ckpt" || return 1
    for seed in 1 2 3; do
        cmp "$SCRATCH/heads/seed-$seed.ckpt" "$SCRATCH/heads-$1/seed-$seed.ckpt" || return 1
    done
}
for ranks in 2 3; do
    check "retrieval train: $ranks ranks give the heads of one process, one seed or several" same_heads $ranks
done

killed_and_resumed() {
    local folder=$SCRATCH/killed steps=600 pid
    run 3 "${lm[@]}" --steps $steps --checkpoint-every 20 -o "$folder" >"$SCRATCH/killed.log" 2>&1 &
    local job=$!
    for _ in $(seq 600); do
        [ -e "$folder/model.ckpt" ] && break
        sleep 0.1
    done
    pid=$(ranks_of "$folder" | tail -n 1)
    [ -n "$pid" ] || { echo "no rank to kill"; cat "$SCRATCH/killed.log"; return 1; }
    kill -9 "$pid"
    if wait $job; then
        echo "the job ended well without one of its ranks"
        return 1
    fi
    [ -z "$(ranks_of "$folder")" ] || { echo "ranks are left"; return 1; }
    run 2 lm train --resume --yes --quiet --steps $steps -o "$folder" || return 1
    "$WHET_BIN" "${lm[@]}" --steps $steps --checkpoint-every 20 -o "$SCRATCH/whole" >/dev/null &&
        cmp "$SCRATCH/whole/model.ckpt" "$folder/model.ckpt"
}
check "a run that loses a rank ends, and resumes with fewer to the same weights" killed_and_resumed

# Ends when the first rank cannot write any more, with one message. Only that rank writes files.
reports_full_disk() { # option for the folder's log, then a command
    local log=$1 folder=$SCRATCH/full-$2 job pid
    shift
    rm -rf "$folder"
    run 3 "$@" --steps 100000 --log-every 1 --checkpoint-every 0 -o "$folder" >"$SCRATCH/full.log" 2>&1 &
    job=$!
    for _ in $(seq 600); do
        [ -s "$folder/$log" ] && break
        sleep 0.1
    done
    for pid in $(ranks_of "$folder"); do
        prlimit --pid "$pid" --fsize=1000 || { kill "$job"; return 1; }
    done
    wait "$job" && { echo "the job ended well"; return 1; }
    cat "$SCRATCH/full.log"
    [ -z "$(ranks_of "$folder")" ] && [ "$(grep -c 'File too large' "$SCRATCH/full.log")" = 1 ]
}
if command -v prlimit >/dev/null; then
    check "lm train: the first rank's full disk ends all, with one message" reports_full_disk log.jsonl "${lm[@]}"
    check "retrieval train: the same, one seed" reports_full_disk seed-1.jsonl "${retrieval[@]}"
else
    skip "a full disk" "needs prlimit"
fi

refuses_folder_in_use() {
    local output
    output=$(run 2 "${lm[@]}" --steps 12 -o "$SCRATCH/alone" 2>&1) && return 1
    echo "$output"
    [ "$(grep -c 'already exists; use --resume' <<<"$output")" = 1 ]
}
check "what the first rank refuses ends all, with one message" refuses_folder_in_use

names_missing_module() {
    local output
    output=$(WHET_MPI_MODULES=$SCRATCH/none "$WHET_BIN" "${lm[@]}" --steps 1 --mpi "$mpi" -o "$SCRATCH/x" 2>&1) && return 1
    echo "$output"
    grep -q "$mpi: no module for this MPI; --mpi none runs alone" <<<"$output"
}
check "a missing module is named" names_missing_module
check "--mpi none runs alone" env OMPI_COMM_WORLD_SIZE=2 PMI_RANK=0 "$WHET_BIN" "${lm[@]}" --steps 1 --mpi none -o "$SCRATCH/none"
finish
