# whet lm train: runs that are stopped and taken up again, and bad input of every kind.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

tiny=(--layers 2 --width 16 --heads 2 --batch 8 --context 256 --algorithm minimum,insertion_sort)
if ! "$WHET_BIN" lm train "${tiny[@]}" --steps 1 --quiet --out "$SCRATCH/probe" >/dev/null 2>"$SCRATCH/err" &&
    grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "everything about whet lm train" "needs libopenblas0"
    finish
fi

small=("${tiny[@]}" --policy adaptive --learn-policy head --steps 200 --checkpoint-every 10 --log-every 20)
train() { "$WHET_BIN" lm train "${small[@]}" --quiet "$@"; }
same() { cmp "$SCRATCH/$1" "$SCRATCH/$2"; }

# Whole runs.
check "a model is trained" train --out "$SCRATCH/whole"
check "the number of threads changes nothing" train --threads 1 --out "$SCRATCH/single"
check "not a bit" same whole/model.ckpt single/model.ckpt
check "the log has a line every twenty steps" [ "$(wc -l <"$SCRATCH/whole/log.jsonl")" -eq 10 ]
check "each is a JSON object" json_lines "$SCRATCH/whole/log.jsonl"
check "with the loss, tokens a second and what is exact" grep -q '"loss":.*"exact":.*"insertion_sort":.*"tokens_per_second":' \
    "$SCRATCH/whole/log.jsonl"
check "the manifest says that the run is complete" grep -q '"complete": true' "$SCRATCH/whole/manifest.json"
"$WHET_BIN" lm train "${tiny[@]}" --steps 2 --out "$SCRATCH/told" >"$SCRATCH/out" 2>"$SCRATCH/err"
check "memory is reported before training starts" grep -Eq '[0-9]+ parameters; training takes about [0-9]+ MB of memory' "$SCRATCH/err"
check "and how the algorithms fared at the end" grep -q 'insertion_sort .* % exact' "$SCRATCH/out"

# The log of a run that is taken up between two of its lines is that of one that was never stopped, apart from time.
uneven=("${small[@]}" --checkpoint-every 7 --log-every 50 --quiet)
check "a run whose checkpoints come between lines of its log" "$WHET_BIN" lm train "${uneven[@]}" --out "$SCRATCH/even"
stopped_at KILL "$SCRATCH/uneven/model.ckpt" lm train "${uneven[@]}" --out "$SCRATCH/uneven"
check "is killed and resumed" "$WHET_BIN" lm train "${uneven[@]}" --resume --out "$SCRATCH/uneven"
check "its log is that of an undisturbed run" same_log "$SCRATCH"/{even,uneven}/log.jsonl
check "in which time goes on" time_goes_on "$SCRATCH/uneven/log.jsonl"
check "and so are its weights" same even/model.ckpt uneven/model.ckpt

# Stopped, and taken up again.
stopped_by() { # signal folder: leaves $status
    stopped_at "$1" "$SCRATCH/$2/model.ckpt" lm train "${small[@]}" --quiet --out "$SCRATCH/$2"
}
stopped_by INT interrupted
check "Ctrl-C has an exit status of its own" [ "$status" -eq 130 ] &&
    check "and a message that says how to go on" grep -q -- 'continue with --resume' "$SCRATCH/err"
check "the run is resumed, without saying again what it was" "$WHET_BIN" lm train --resume --quiet --out "$SCRATCH/interrupted"
check "and ends with the weights of an undisturbed one" same whole/model.ckpt interrupted/model.ckpt
check "its log has each line once" [ "$(wc -l <"$SCRATCH/interrupted/log.jsonl")" -eq 10 ]
# timeout(1) sends its signal twice: to the program, and to its group.
twice_stopped() {
    timeout --preserve-status -s TERM 3 "$WHET_BIN" lm train "${small[@]}" --steps 1000000 --yes --checkpoint-every 0 --quiet \
        --out "$SCRATCH/twice" >/dev/null 2>"$SCRATCH/err"
    [ $? -eq 143 ] && grep -q -- 'continue with --resume' "$SCRATCH/err" && [ -e "$SCRATCH/twice/model.ckpt" ]
}
check "a signal that comes twice at once leaves a checkpoint, too" twice_stopped

# Runs of more than 15 minutes.
asks_for_yes() { # command ...: refused with the time it takes, and nothing started
    "$WHET_BIN" "$@" --out "$SCRATCH/long" </dev/null >/dev/null 2>"$SCRATCH/err"
    [ $? -eq 2 ] && grep -Eq "^whet $1 $2: this takes about ([0-9]+ h [0-9]+ min|[0-9]+ days) on this machine; add --yes to start it$" \
        "$SCRATCH/err" && [ ! -e "$SCRATCH/long" ]
}
check "hours of training are refused where nobody can be asked" asks_for_yes lm train --steps 10000000
check "a head's, too" asks_for_yes retrieval train --steps 100000000
refused "a folder that is taken is refused before the time is estimated" 2 'model.ckpt: already exists; use --resume' \
    train --steps 10000000 --out "$SCRATCH/whole"
rm "$SCRATCH/interrupted/model.ckpt"
check "a run that ended before its first checkpoint is begun again as it was" \
    "$WHET_BIN" lm train --resume --quiet --out "$SCRATCH/interrupted"
check "to the same weights" same whole/model.ckpt interrupted/model.ckpt
for round in first second third; do
    stopped_by KILL killed
    check "a run killed for the $round time leaves a whole checkpoint" "$WHET_BIN" lm generate "$SCRATCH/killed/model.ckpt" \
        --prompt 'x' --steps 1
    : >"$SCRATCH/killed/model.ckpt.1-0.tmp"
    small=("${small[@]}" --resume)
done
check "after that it is resumed" train --out "$SCRATCH/killed"
check "and ends with the same weights too" same whole/model.ckpt killed/model.ckpt
check "its log is whole" json_lines "$SCRATCH/killed/log.jsonl"
check "and nothing half written is left" [ -z "$(find "$SCRATCH/killed" -name '*.tmp')" ]

# Nothing earlier is lost.
cp "$SCRATCH/whole/model.ckpt" "$SCRATCH/before"
cp "$SCRATCH/whole/manifest.json" "$SCRATCH/manifest_before"
cp "$SCRATCH/whole/log.jsonl" "$SCRATCH/log_before"
check "a run may be resumed with its options given again" train --resume --out "$SCRATCH/single"
anew() { "$WHET_BIN" lm train "${tiny[@]}" --quiet "$@"; }
refused "an earlier run is not overwritten" 2 "already exists" anew --out "$SCRATCH/whole"
resumed_with() { # name run's-choice wanted-choice option ...: in one sentence
    local name=$1 found=$2 wanted=$3
    shift 3
    refused "$name" 2 "whole/model.ckpt: is of a run $found and cannot be resumed $wanted" \
        "$WHET_BIN" lm train --resume --quiet --out "$SCRATCH/whole" "$@"
}
resumed_with "a run of other options is not gone on with" "with --rate 0.001" "with --rate 0.01" --rate 0.01
resumed_with "nor one of another model" "with --num-layers 2" "with --num-layers 3" --layers 3
resumed_with "nor one of another policy" "with --policy adaptive" "with --policy adaptive:hold" --policy adaptive:hold
resumed_with "nor with more steps, which its rate follows" "with --steps 200" "with --steps 300" --steps 300
resumed_with "nor with other questions" "with --algo minimum,insertion_sort" "with --algo bfs" --algo bfs
resumed_with "nor with other lengths" "with --lengths 4-8" "with --lengths 4-9" --lengths 4..9
resumed_with "nor with a flag that it did not have" "without --untied" "with --untied" --untied
check "all of this leaves the checkpoint as it was" same whole/model.ckpt before
check "and the manifest" same whole/manifest.json manifest_before
check "and the log" same whole/log.jsonl log_before

# Checkpoints that are none.
damaged() { # what: from standard input into a folder to resume in
    mkdir -p "$SCRATCH/damaged"
    cat >"$SCRATCH/damaged/model.ckpt"
}
{ head -c 5000 "$SCRATCH/before"; printf x; tail -c +5002 "$SCRATCH/before"; } | damaged
refused "a damaged checkpoint is refused" 2 "wrong checksum" train --out "$SCRATCH/damaged"
head -c 3000 "$SCRATCH/before" | damaged
refused "so is one that was cut short" 2 "damaged" train --out "$SCRATCH/damaged"
head -c 20 "$SCRATCH/before" | damaged
refused "however short" 2 "cut short" train --out "$SCRATCH/damaged"
echo hello | damaged
refused "and a file of another kind" 2 "not a whet checkpoint" train --out "$SCRATCH/damaged"
check "which is not touched" [ "$(cat "$SCRATCH/damaged/model.ckpt")" = hello ]
"$WHET_BIN" retrieval train --steps 1 --width 16 --batch 8 --quiet --out "$SCRATCH/heads" >/dev/null
damaged <"$SCRATCH/heads/seed-1.ckpt"
refused "and a checkpoint of another kind of model" 2 "not a language model checkpoint" train --out "$SCRATCH/damaged"

# Command lines that make no sense.
for bad in "--width 0" "--layers 0" "--heads 3 --key-heads 2" "--batch 0" "--accumulate 0" "--lengths 8..4" "--lengths 0..4" \
    "--lengths 4,8" "--lengths 4..5000" "--lengths 4.." "--lengths 4..8x" "--lengths 4...8" "--lengths 99999999999..4" "--rate x" "--rate nan" "--loss some" "--weigh none" "--gate relu" "--positions sideways" "--policy none" \
    "--learn-policy neuron" "--learn-policy layer --policy softmax" "--rope-dims 3" "--curriculum 2" "--algorithm sort" \
    "--algorithm minimum,minimum" "--steps 1e3" "--context 0" "--context 8" "--context 200 --lengths 4..40 --curriculum 1" "--beta2 1" \
    "--width 15 --heads 4" "--width 12 --heads 4" "--head-dim 3"; do
    # shellcheck disable=SC2086 # option and value
    refused "train refuses $bad" 2 "whet lm train: " "$WHET_BIN" lm train --quiet $bad --out "$SCRATCH/never"
done
refused "parameters to learn without learning are refused" 2 "whet lm train: --learn-parameters needs --learn-policy" \
    "$WHET_BIN" lm train --policy ssmax --learn-parameters s --out "$SCRATCH/never"
check "and makes no folder then" [ ! -e "$SCRATCH/never" ]
for seed in 9223372036854775808 99999999999999999999; do
    refused "a seed beyond 64 bits has a message with its whole range" 2 \
        " is out of range (0 to 9,223,372,036,854,775,807)" anew --seed $seed --out "$SCRATCH/never"
done
refused "heads that do not divide the width are refused" 2 "--num-heads: 4 does not divide --width 15" anew --width 15 --heads 4
refused "and those of odd size" 2 "--head-dim: 3 is odd" anew --width 12 --heads 4
check "which may be had if asked for" anew --width 15 --heads 4 --head-dim 3 --rope-dims 2 --steps 1 --out "$SCRATCH/odd"
refused "lengths may be far apart" 2 "does not fit --context 256" anew --lengths 1900..2000 --out "$SCRATCH/far"
refused "samples longer than the context are refused" 2 "does not fit --context 30" anew --context 30 --out "$SCRATCH/short"
refused "a folder that cannot be made is named" 1 "/dev/null/run" anew --out /dev/null/run
refused "an unknown option has a suggestion" 2 "did you mean '--steps'" "$WHET_BIN" lm train --step 5
refused "an unknown verb too" 2 "did you mean 'train'" "$WHET_BIN" lm trian
finish
