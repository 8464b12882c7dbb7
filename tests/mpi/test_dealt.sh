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
finish
