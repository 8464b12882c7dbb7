# whet retrieval: runs that are stopped and taken up again, bad input of every kind, and what the verbs print.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

if ! "$WHET_BIN" retrieval train --steps 1 --width 16 --batch 8 --quiet --out "$SCRATCH/probe" >/dev/null 2>"$SCRATCH/err" &&
    grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "everything about whet retrieval" "needs libopenblas0"
    finish
fi

small=(--width 16 --batch 24 --steps 3000 --checkpoint-every 100 --log-every 100 --quiet)
train() { "$WHET_BIN" retrieval train "${small[@]}" "$@"; }
same() { cmp "$SCRATCH/$1" "$SCRATCH/$2"; }

# Whole runs.
check "two seeds are trained in one run" train --seed 1,2 --out "$SCRATCH/whole"
check "the number of threads changes nothing" train --seed 2 --threads 1 --out "$SCRATCH/single"
check "not a bit" same whole/seed-2.ckpt single/seed-2.ckpt
rounded() { train --precision bf16-products --batch 150 --steps 40 --seed 3 "$@"; }
check "so it is where products are rounded" rounded --threads 2 --out "$SCRATCH/rounded"
check "in one thread as in two" rounded --threads 1 --out "$SCRATCH/rounded-single"
check "to the last bit" same rounded/seed-3.ckpt rounded-single/seed-3.ckpt
check "the log has a line for the first step and every hundred" [ "$(wc -l <"$SCRATCH/whole/seed-1.jsonl")" -eq 31 ]
check "each is a JSON object" json_lines "$SCRATCH/whole/seed-1.jsonl"
check "the manifest is JSON and says that the run is complete" grep -q '"complete": true' "$SCRATCH/whole/manifest.json"

steps_in_log() { grep -o '"step":[0-9]*' "$SCRATCH/$1/seed-1.jsonl" | tr '\n' ' '; }
check "a short run is trained" train --seed 1 --steps 7 --out "$SCRATCH/short"
check "its log has the first step and the last" [ "$(steps_in_log short)" = '"step":1 "step":7 ' ]

# Stopped, and taken up again.
stopped_by() { # signal folder: leaves $status
    stopped_at "$1" "$SCRATCH/$2/seed-1.ckpt" retrieval train "${small[@]}" --seed 1 --out "$SCRATCH/$2"
}
stopped_by INT interrupted
check "Ctrl-C has an exit status of its own" [ "$status" -eq 130 ] &&
    check "and a message that says how to go on" grep -q -- 'continue with --resume' "$SCRATCH/err"
again() { "$WHET_BIN" retrieval train --resume --quiet "$@"; }
check "the run is resumed, without saying again what it was" again --out "$SCRATCH/interrupted"
check "and ends with the weights of an undisturbed one" same whole/seed-1.ckpt interrupted/seed-1.ckpt
check "its log has each line once" [ "$(wc -l <"$SCRATCH/interrupted/seed-1.jsonl")" -eq 31 ]
stopped_by KILL killed
check "a killed run is resumed" train --seed 1 --resume --out "$SCRATCH/killed"
check "and ends with the same weights too" same whole/seed-1.ckpt killed/seed-1.ckpt
check "its log is whole" json_lines "$SCRATCH/killed/seed-1.jsonl"

# The log of a run that is taken up between two of its lines is that of one that was never stopped, apart from time.
uneven=("${small[@]}" --checkpoint-every 70 --log-every 300 --seed 1)
train_unevenly() { "$WHET_BIN" retrieval train "${uneven[@]}" "$@"; }
check "a run whose checkpoints come between lines of its log" train_unevenly --out "$SCRATCH/even"
stopped_at KILL "$SCRATCH/uneven/seed-1.ckpt" retrieval train "${uneven[@]}" --out "$SCRATCH/uneven"
check "is killed and resumed" train_unevenly --resume --out "$SCRATCH/uneven"
check "its log is that of an undisturbed run" same_log "$SCRATCH"/{even,uneven}/seed-1.jsonl
check "in which time goes on" time_goes_on "$SCRATCH/uneven/seed-1.jsonl"
check "and so are its weights" same even/seed-1.ckpt uneven/seed-1.ckpt

# Two runs in one folder.
one_at_a_time() {
    "$WHET_BIN" retrieval train "${small[@]}" --steps 1000000 --yes --seed 1 --out "$SCRATCH/busy" >/dev/null 2>&1 &
    local first=$! second
    appears "$SCRATCH/busy/seed-1.ckpt"
    train --seed 2 --out "$SCRATCH/busy" >/dev/null 2>"$SCRATCH/err"
    second=$?
    kill -INT $first
    wait $first
    [ $second -eq 1 ] && grep -qF "$SCRATCH/busy: in use" "$SCRATCH/err" && [ ! -e "$SCRATCH/busy/seed-2.ckpt" ]
}
check "a folder in which a run is under way is left to it" one_at_a_time
check "and free again when that has ended" train --seed 2 --steps 5 --out "$SCRATCH/busy"

# Nothing earlier is lost.
cp "$SCRATCH/whole/seed-1.ckpt" "$SCRATCH/before"
eval_heads() { "$WHET_BIN" retrieval eval --quiet --sets 2 --sizes 16 "$@"; }
refused "an earlier run is not overwritten" 2 "already exists" train --out "$SCRATCH/whole"
resumed_with() { # name run's-choice wanted-choice option ...: in one sentence
    local name=$1 found=$2 wanted=$3
    shift 3
    refused "$name" 2 ": is of a run $found and cannot be resumed $wanted" again --out "$SCRATCH/whole" "$@"
}
resumed_with "a run of other options is not gone on with" "with --rate 0.001" "with --rate 0.01" --rate 0.01
resumed_with "nor one of another model" "with --depth 1" "with --depth 2" --depth 2
resumed_with "nor with other sets" "with --sizes 5-16" "with --sizes 5-17" --sizes 5..17
resumed_with "nor with a flag that it did not have" "without --blind-key" "with --blind-key" --blind-key
check "all of this leaves the checkpoint as it was" same whole/seed-1.ckpt before
check "a refused resumption leaves the manifest as it was" grep -q '"complete": true' "$SCRATCH/whole/manifest.json"
check "and the run to be resumed with its own options" again --out "$SCRATCH/whole"
check "for all of its seeds" grep -q '2 heads .* 3000 steps each' <(again --out "$SCRATCH/whole")
check "a run can be made longer" again --seed 2 --steps 3100 --out "$SCRATCH/single"
check "and is as long when taken up again" grep -q '1 head .* 3100 steps' <(again --out "$SCRATCH/single")

# Checkpoints that are none.
damaged=$SCRATCH/damaged.ckpt
cp "$SCRATCH/before" "$damaged"
printf 'x' | dd of="$damaged" bs=1 seek=5000 conv=notrunc 2>/dev/null
refused "a damaged checkpoint is refused" 2 "wrong checksum" eval_heads "$damaged"
head -c 3000 "$SCRATCH/before" >"$damaged"
refused "so is one that was cut short" 2 "damaged" eval_heads "$damaged"
head -c 20 "$SCRATCH/before" >"$damaged"
refused "however short" 2 "cut short" eval_heads "$damaged"
echo "hello" >"$damaged"
refused "and a file of another kind" 2 "not a whet checkpoint" eval_heads "$damaged"
mkdir "$SCRATCH/broken"
cp "$damaged" "$SCRATCH/broken/seed-1.ckpt"
refused "a damaged run is not resumed" 2 "not a whet checkpoint" train --resume --out "$SCRATCH/broken"
check "nor touched" cmp "$damaged" "$SCRATCH/broken/seed-1.ckpt"
refused "a path that leads nowhere is named" 2 "$SCRATCH/nowhere" eval_heads "$SCRATCH/nowhere"
mkdir "$SCRATCH/empty"
refused "a folder without heads is distinguished from one with" 2 "no checkpoint in this folder" eval_heads "$SCRATCH/empty"
refused "and so is having named none" 2 "missing HEADS" eval_heads

# Command lines that make no sense.
for bad in "--width 0" "--depth 9" "--batch 0" "--classes 1" "--sizes 16..5" "--sizes 0..4" "--sizes 5..9999" "--rate x" \
    "--rate nan" "--l2 huge" "--precision f64" "--policy none" "--seed -1" "--nearest 2" "--steps 1e3" "--precision bf16-products --leak 1"; do
    # shellcheck disable=SC2086 # option and value
    refused "train refuses $bad" 2 "whet retrieval train: " train $bad --out "$SCRATCH/never"
done
check "and makes no folder then" [ ! -e "$SCRATCH/never" ]
for bad in "--sizes 0" "--sizes 2000000" "--sizes 16.." "--sets 0" "--policy none"; do
    # shellcheck disable=SC2086
    refused "eval refuses $bad" 2 "whet retrieval eval: " "$WHET_BIN" retrieval eval $bad "$SCRATCH/whole"
done
refused "fit refuses a degree of 9" 2 "--degree" "$WHET_BIN" retrieval fit --degree 9 "$SCRATCH/whole"
refused "an unknown option has a suggestion" 2 "did you mean '--steps'" "$WHET_BIN" retrieval train --step 5
refused "an unknown verb too" 2 "did you mean 'train'" "$WHET_BIN" retrieval trian
refused "a verb is needed" 2 "missing subcommand (train, eval, fit or heads)" "$WHET_BIN" retrieval

# Disks that do not cooperate.
refused "a folder that cannot be made is named" 1 "/dev/null/run" train --out /dev/null/run
refused "a result that cannot be written too" 1 "/dev/null/x: cannot write" eval_heads --json /dev/null/x "$SCRATCH/whole"
limited() { # a file may have four blocks
    (
        ulimit -f 4
        "$@"
    )
}
cp -r "$SCRATCH/interrupted" "$SCRATCH/full"
refused "a full disk is a failure with a message" 1 "cannot write" limited train --seed 1 --steps 3500 --resume --out "$SCRATCH/full"
check "and the last checkpoint is as it was" same whole/seed-1.ckpt full/seed-1.ckpt
check "with nothing left beside it" [ -z "$(find "$SCRATCH/full" -name '*.tmp')" ]
if [ "$(id -u)" -eq 0 ] && mkdir "$SCRATCH/tiny" && mount -t tmpfs -o size=64k tmpfs "$SCRATCH/tiny" 2>/dev/null; then
    refused "so is a disk that is really full" 1 "No space left" train --width 128 --seed 1 --out "$SCRATCH/tiny/run"
    umount "$SCRATCH/tiny"
else
    skip "so is a disk that is really full" "needs to mount a small file system"
fi

# A folder that may be read and not be written to. Permissions mean nothing to root, to whom a file system can be read-only.
mkdir "$SCRATCH/fixed"
lock_folder() {
    if [ "$(id -u)" -eq 0 ]; then
        mount -t tmpfs -o size=1m tmpfs "$SCRATCH/fixed" 2>/dev/null && cp "$SCRATCH"/interrupted/* "$SCRATCH/fixed" &&
            mount -o remount,ro "$SCRATCH/fixed"
    else
        cp "$SCRATCH"/interrupted/* "$SCRATCH/fixed" && chmod -w "$SCRATCH/fixed"
    fi
}
if lock_folder; then
    refused "a folder that cannot be written to is named" 1 "$SCRATCH/fixed/" train --seed 1 --steps 3500 --resume --out "$SCRATCH/fixed"
    check "and what is in it is as it was" same whole/seed-1.ckpt fixed/seed-1.ckpt
    refused "nor is a result written there" 1 "$SCRATCH/fixed/x.json: cannot write" eval_heads --json "$SCRATCH/fixed/x.json" "$SCRATCH/whole"
    check "though heads are read from there" eval_heads "$SCRATCH/fixed"
    if [ "$(id -u)" -eq 0 ]; then umount "$SCRATCH/fixed"; else chmod +w "$SCRATCH/fixed"; fi
else
    skip "a folder that cannot be written to is named" "needs to mount a small file system"
fi

# Evaluation that is stopped in the middle of a set.
"$WHET_BIN" retrieval train --width 1024 --batch 1 --steps 1 --quiet --out "$SCRATCH/slow" >/dev/null
vast=(--sizes 1048576 --sets 64 --json "$SCRATCH/stopped.json")
stops_soon "eval stops soon" "$WHET_BIN" retrieval eval --quiet "${vast[@]}" "$SCRATCH/slow"
stops_soon "fit stops soon" "$WHET_BIN" retrieval fit --quiet "${vast[@]}" "$SCRATCH/slow"
stops_soon "heads stops soon" "$WHET_BIN" retrieval heads "${vast[@]}" "$SCRATCH/slow"
check "and nothing is written then" [ ! -e "$SCRATCH/stopped.json" ]

# What the verbs answer.
evaluate() { eval_heads --policy softmax --policy adaptive --policy hardmax "$@" "$SCRATCH/whole"; }
check "eval writes JSON and CSV" evaluate --sizes 16..64:x2 --sets 100 --json "$SCRATCH/a.json" --csv "$SCRATCH/a.csv"
check "which does not depend on threads" evaluate --sizes 16..64:x2 --sets 100 --threads 1 --json "$SCRATCH/b.json"
check "bit for bit" same a.json b.json
check "there are rows for all sizes, policies and measures" python3 - "$SCRATCH/a.json" <<'PYTHON'
import json, sys
result = json.load(open(sys.argv[1]))
assert result["sets"] == 100 and result["seeds"] == 2
assert [(r["policy"], r["n"]) for r in result["rows"]] == \
    [(p, n) for p in ("softmax", "adaptive", "hardmax") for n in (16, 32, 64)]
for row in result["rows"]:
    assert len(row["heads"]) == 2
    for measure in "accuracy", "cross_entropy", "entropy", "share_beta_1", "weight_on_maximum":
        if row[measure]["mean"] is not None:
            assert row[measure]["low"] <= row[measure]["mean"] <= row[measure]["high"], (row, measure)
    if row["policy"] == "softmax":
        assert row["share_beta_1"]["mean"] == 1
assert [p["n"] for p in result["adaptive_against_softmax"]] == [16, 32, 64]
PYTHON
check "the CSV has a line for each head, size and policy" [ "$(wc -l <"$SCRATCH/a.csv")" -eq 19 ]
fitted() {
    "$WHET_BIN" retrieval fit --quiet --sizes 16..64:x2 --sets 40 --json "$SCRATCH/fit.json" "$SCRATCH/whole" >"$SCRATCH/out"
}
check "fit finds curves" fitted
for policy in $(sed -n 's/^  //p' "$SCRATCH/out"); do
    check "which are policies: $policy" "$WHET_BIN" softmax --policy "$policy" /dev/null
done
check "two of them" [ "$(grep -c '^  poly:' "$SCRATCH/out")" -eq 2 ]
check "heads writes panels" "$WHET_BIN" retrieval heads --sizes 16,64 --json "$SCRATCH/heads.json" "$SCRATCH/whole"
check "of 32 sets and 16 items each" python3 - "$SCRATCH/heads.json" <<'PYTHON'
import json, sys
for policy in json.load(open(sys.argv[1])):
    for panel in policy["panels"]:
        assert len(panel["coefficients"]) == 32 and all(len(row) == 16 for row in panel["coefficients"])
        if panel["n"] == 16:
            assert all(abs(sum(row) - 1) < 1e-5 for row in panel["coefficients"])
PYTHON
finish
