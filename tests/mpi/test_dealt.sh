#!/usr/bin/env bash
# Experiments dealt to ranks: the same results as by one process, also where the job is killed on the way and done by another
# number of ranks. Arguments: openmpi|mpich MPIRUN.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/mpi/ranks.sh
. "$WHET_SOURCE_DIR/tests/mpi/ranks.sh"

mpi=$1 mpirun=$2
league=(league --task max --policy 'ssmax,adaptive-inference' --positions none --steps 40 --batch 8 --count 8
    --multiples 1..2:x2 --width 16 --num-heads 2 --num-layers 1 --num-seeds 2 --rates '0.001,0.004' --quiet --threads 1)
report=(reproduce --num-seeds 3 --steps 40 --count 8 --threads 1 --quiet --yes --only 'table1,beyond,figure6')
models=(reproduce --only clrs --lm-steps 1 --lm-count 1 --threads 1 --quiet --yes)

if ! "$WHET_BIN" "${league[@]}" -o "$SCRATCH/league" --json "$SCRATCH/league.json" >"$SCRATCH/out" 2>&1; then
    if grep -q 'no BLAS' "$SCRATCH/out"; then
        skip "all of it" "needs libopenblas0"
    else
        fail "a league of one process runs" "$(cat "$SCRATCH/out")"
    fi
    finish
    exit
fi

# What a league found out: everything but times.
results_of() { # folder
    (cd "$1" && find . -name result.json | sort | xargs grep -hv -e seconds_per_million_tokens)
}
same_league() { # folder
    diff <(results_of "$SCRATCH/league") <(results_of "$1")
}
deals_league() { # ranks
    run "$1" "${league[@]}" -o "$SCRATCH/league-$1" --json "$SCRATCH/league-$1.json" >"$SCRATCH/out" &&
        [ "$(grep -c '^ssmax ' "$SCRATCH/out")" = "$(grep -c '^ssmax ' <("$WHET_BIN" "${league[@]}" -o "$SCRATCH/league" --report))" ] &&
        same_league "$SCRATCH/league-$1"
}
for ranks in 2 3; do
    check "league: $ranks ranks have the models of one process, at rates that the first seed chose" deals_league $ranks
done

# Kills a rank once there is a file, and waits for the job to end.
killed_at() { # file result command ...
    local file=$1 result=$2 pid
    shift 2
    run 3 "$@" -o "$result" >"$SCRATCH/killed.log" 2>&1 &
    local job=$!
    for _ in $(seq 600); do
        compgen -G "$file" >/dev/null && break
        sleep 0.05
    done
    pid=$(ranks_of "$result" | tail -n 1)
    [ -n "$pid" ] || { echo "no rank to kill"; cat "$SCRATCH/killed.log"; return 1; }
    kill -9 "$pid"
    if wait "$job"; then
        echo "the job ended well without one of its ranks"
        return 1
    fi
}
# Name, inode and time of the results so far.
finished() { (cd "$1" && find . -name "$2" -exec stat -c '%n %i %y' {} + | sort); }

league_is_resumed() {
    local folder=$SCRATCH/league-killed
    killed_at "$folder/max/none/*/*/result.json" "$folder" "${league[@]}" --steps 200 || return 1
    finished "$folder" result.json >"$SCRATCH/before"
    [ -s "$SCRATCH/before" ] || { echo "nothing was finished"; return 1; }
    run 2 "${league[@]}" --steps 200 -o "$folder" >/dev/null || return 1
    finished "$folder" result.json >"$SCRATCH/after"
    [ "$(wc -l <"$SCRATCH/after")" -gt "$(wc -l <"$SCRATCH/before")" ] && [ -z "$(comm -23 "$SCRATCH/before" "$SCRATCH/after")" ]
}
check "league: what was finished before a rank was killed stays, and the rest is done" league_is_resumed

# Results of a report, by name.
same_report() { # folder folder
    local name
    for name in "$1"/results/*.json; do
        cmp "$name" "$2/results/${name##*/}" || return 1
    done
}
deals_report() { # ranks
    run "$1" "${report[@]}" -o "$SCRATCH/report-$1" >"$SCRATCH/out" || { cat "$SCRATCH/out"; return 1; }
    [ "$(grep -c '^The report is in' "$SCRATCH/out")" = 1 ] && same_report "$SCRATCH/report" "$SCRATCH/report-$1"
}
if command -v gnuplot >/dev/null; then
    "$WHET_BIN" "${report[@]}" -o "$SCRATCH/report" >/dev/null
    for ranks in 2 4; do
        check "reproduce: $ranks ranks have the results of one process" deals_report $ranks
    done
else
    skip "reproduce" "needs gnuplot-nox"
fi

report_is_resumed() {
    local folder=$SCRATCH/report-killed
    killed_at "$folder/runs/*/seed-*.ckpt" "$folder" "${report[@]}" --steps 300 --count 4 || return 1
    finished "$folder" 'seed-*.ckpt' >"$SCRATCH/before"
    run 2 "${report[@]}" --steps 300 --count 4 -o "$folder" >/dev/null || return 1
    "$WHET_BIN" "${report[@]}" --steps 300 --count 4 -o "$SCRATCH/report-whole" >/dev/null &&
        same_report "$SCRATCH/report-whole" "$folder"
}
command -v gnuplot >/dev/null && check "reproduce: a job that is killed continues with fewer ranks, to the same results" report_is_resumed

deals_models() {
    run 3 "${models[@]}" -o "$SCRATCH/models-3" >/dev/null && same_report "$SCRATCH/models" "$SCRATCH/models-3"
}
if command -v gnuplot >/dev/null; then
    "$WHET_BIN" "${models[@]}" -o "$SCRATCH/models" >/dev/null
    check "reproduce: language models and the questions to them are dealt" deals_models
fi

# ---- tune ----

model=${WHET_MODELS:-}/stories260K-f32.gguf
if [ ! -f "$model" ]; then
    skip "tune" "WHET_MODELS names no folder of models"
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
    check "tune: $ranks ranks find what one process finds" tunes $ranks -o "$SCRATCH/tuned-$ranks.json"
    check "tune: and leave nothing else" [ "$(cd "$SCRATCH" && echo tuned-$ranks*)" = "tuned-$ranks.json" ]
done

deals_task() {
    local task=(--context 96 --task copy --limit 50%) status
    "$WHET_BIN" "${tune[@]}" "${task[@]}" -o "$SCRATCH/task.json" --json "$SCRATCH/task-all.json" >/dev/null
    status=$?
    run 3 "${tune[@]}" "${task[@]}" -o "$SCRATCH/task-3.json" --json "$SCRATCH/task-3-all.json" >/dev/null 2>&1
    [ $? = "$status" ] && cmp "$SCRATCH/task-all.json" "$SCRATCH/task-3-all.json"
}
check "tune: so are the examples of a task" deals_task

tune_is_resumed() { # ranks; 0: without MPI
    local out=$SCRATCH/resumed-$1.json
    killed_at "$out.partial-1" "$out" "${tune[@]}" --steps 400 || return 1
    # what another rank than the first had is made use of: damaged, it is noticed
    cp "$out.partial-1" "$SCRATCH/part" || return 1
    sed -i '/"entries"/,$ s/[1-9]/7/' "$out.partial-1"
    "$WHET_BIN" "${tune[@]}" --steps 400 -o "$out" >/dev/null 2>"$SCRATCH/err" && return 1
    grep -q "partial-1: not the state of a run, or damaged" "$SCRATCH/err" || { cat "$SCRATCH/err"; return 1; }
    cp "$SCRATCH/part" "$out.partial-1"
    if [ "$1" = 0 ]; then tunes_alone --steps 400 -o "$out"; else tunes "$1" --steps 400 -o "$out"; fi || return 1
    [ "$(cd "$SCRATCH" && echo "resumed-$1"*)" = "resumed-$1.json" ] && cmp "$SCRATCH/long.json" "$out"
}
tunes_alone --steps 400 -o "$SCRATCH/long.json"
for ranks in 2 0; do
    check "tune: a killed job continues, with $ranks ranks (0: without MPI), to the same file" tune_is_resumed $ranks
done

fails_once() { # message option ...
    local message=$1 output
    shift
    output=$(run 3 "${tune[@]}" "$@" 2>&1) && return 1
    echo "$output"
    [ "$(grep -c -- "$message" <<<"$output")" = 1 ]
}
check "tune: what the first rank cannot write ends all, with one message" \
    fails_once 'cannot write: No such file or directory' -o "$SCRATCH/nowhere/tuned.json"
check "tune: so does what all find wrong" fails_once 'the model takes 512 tokens, not 4000' --context 4000 -o "$SCRATCH/x.json"
finish
