# whet lm eval, generate, import and export: a small model from training to GGUF and back, and bad input of every kind.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

tiny=(--layers 1 --width 16 --heads 2 --batch 8 --context 300 --algorithm minimum)
if ! "$WHET_BIN" lm train "${tiny[@]}" --steps 20 --quiet --out "$SCRATCH/run" >/dev/null 2>"$SCRATCH/err" &&
    grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "everything about whet lm" "needs libopenblas0"
    finish
fi
model=$SCRATCH/run/model.ckpt
question='minimum:\nkey: [0.5 0.25 0.75 0.1]\nmin:\n'
prompt=$SCRATCH/question
printf '%b' "$question" >"$prompt"

# Generation.
generate() { "$WHET_BIN" lm generate "$@" --prompt-file "$prompt" --steps 12; }
check "a model goes on with a prompt" generate "$model"
generate "$model" >"$SCRATCH/one"
check "the prompt comes first" cmp -n "$(wc -c <"$prompt")" "$prompt" "$SCRATCH/one"
generate "$model" --threads 1 >"$SCRATCH/two"
check "the number of threads changes nothing" cmp "$SCRATCH/one" "$SCRATCH/two"
generate "$model" --temperature 2 --seed 7 >"$SCRATCH/one"
generate "$model" --temperature 2 --seed 7 >"$SCRATCH/two"
generate "$model" --temperature 2 --seed 8 >"$SCRATCH/three"
check "a seed draws the same text again" cmp "$SCRATCH/one" "$SCRATCH/two"
check "another draws another" [ "$(cmp -s "$SCRATCH/one" "$SCRATCH/three"; echo $?)" -eq 1 ]
generate "$model" --policy adaptive --cache f16 --entropy --speed >"$SCRATCH/out" 2>"$SCRATCH/err"
check "entropies are printed head by head" grep -Eq '^0 +1 +[0-9.]+ +[0-9.]+ +[0-9]+$' "$SCRATCH/out"
check "and speed on standard error" grep -q 'tokens read at .* per second' "$SCRATCH/err"

# There and back.
check "a checkpoint becomes GGUF" "$WHET_BIN" lm export "$model" "$SCRATCH/model.gguf"
check "which becomes a checkpoint" "$WHET_BIN" lm import "$SCRATCH/model.gguf" "$SCRATCH/back.ckpt"
generate "$model" >"$SCRATCH/one"
for file in model.gguf back.ckpt; do
    generate "$SCRATCH/$file" >"$SCRATCH/two"
    check "$file says the same" cmp "$SCRATCH/one" "$SCRATCH/two"
done
for type in f16 bf16 q8_0; do
    check "there is GGUF of $type" "$WHET_BIN" lm export "$model" "$SCRATCH/model.gguf" --type $type --name tiny
    check "that can be read" generate "$SCRATCH/model.gguf"
done

# Evaluation.
evaluate() { "$WHET_BIN" lm eval "$model" --lengths 4,5,9 --samples 20 --quiet "$@"; }
evaluate --policy trained --policy softmax --policy adaptive --json "$SCRATCH/eval.json" --csv "$SCRATCH/eval.csv" \
    --heads-csv "$SCRATCH/heads.csv" \
    >"$SCRATCH/one" 2>"$SCRATCH/err"
check "a model is asked at each length" [ $? -eq 0 ]
check "those of training are marked" grep -Eq '^algorithm +policy +4\* +5\* +9$' "$SCRATCH/one"
own=$(awk '$2 == "trained"' "$SCRATCH/one") plain=$(awk '$2 == "softmax"' "$SCRATCH/one")
check "a model's own policy is the one it was trained with" [ "${own//trained/softmax}" = "$plain" ]
check "the CSV has a line for each cell" [ "$(wc -l <"$SCRATCH/eval.csv")" -eq 10 ]
check "and that of heads one for each of them" [ "$(wc -l <"$SCRATCH/heads.csv")" -eq 19 ]
check "with entropies" grep -Eq '^minimum,no,9,no,adaptive,20,0,1,[0-9.]+,[0-9.]+$' "$SCRATCH/heads.csv"
check "below each share is its interval" grep -Eq '^ +95 % +[0-9]+-[0-9]+ +[0-9]+-[0-9]+ +[0-9]+-[0-9]+$' "$SCRATCH/one"
check "the JSON has intervals and entropies" python3 - "$SCRATCH/eval.json" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
assert len(result["rows"]) == 9 and result["training"]["lengths"] == [4, 8]
for row in result["rows"]:
    assert row["samples"] == 20 and row["inside"] == (row["length"] <= 8)
    assert row["exact"]["low"] <= row["exact"]["mean"] <= row["exact"]["high"]
    assert len(row["entropy"]) == 1 and len(row["entropy"][0]) == 2
PY
evaluate --policy trained --policy softmax --policy adaptive --threads 1 >"$SCRATCH/two"
check "threads change nothing there" cmp "$SCRATCH/one" "$SCRATCH/two"
check "other algorithms may be asked for, with steps" evaluate --algorithm bfs:hints --samples 2 --lengths 4
evaluate --lengths 4,200 --samples 2 >"$SCRATCH/out"
check "what does not fit the context is left out" grep -Eq '^minimum +trained +[0-9.]+ +-$' "$SCRATCH/out"

# Folders.
same_answer() { # verb ...: with the folder of a run as with its checkpoint
    local verb=$1
    shift
    "$WHET_BIN" lm "$verb" "$model" "$@" >"$SCRATCH/one" && "$WHET_BIN" lm "$verb" "$SCRATCH/run" "$@" >"$SCRATCH/two" &&
        cmp "$SCRATCH/one" "$SCRATCH/two"
}
check "the folder of a run stands for its model when it is asked" same_answer eval --lengths 4 --samples 2 --quiet
check "when it writes" same_answer generate --steps 5 --prompt x
check "and when it is exported" same_answer export "$SCRATCH/folder.gguf"
cp "$model" "$SCRATCH/kept.ckpt"
whet_given '' lm export "$SCRATCH/run" "$model"
check "though not over its own checkpoint" [ "$status" -eq 2 ] && check "which is as it was" cmp "$model" "$SCRATCH/kept.ckpt"
mkdir "$SCRATCH/none" "$SCRATCH/others"
touch "$SCRATCH/others/notes.txt" "$SCRATCH/others/b.gguf" "$SCRATCH/others/a.gguf"
refuses "a folder without a model is reported" '' '' "whet lm eval: $SCRATCH/none: a folder without a model; name the file of one\n" \
    lm eval "$SCRATCH/none"
whet_given '' lm generate "$SCRATCH/others"
check "and what one may mean by another is named" grep -q "name the file of a model, such as $SCRATCH/others/a.gguf" "$SCRATCH/err"
check "with the status of bad input" [ "$status" -eq 2 ]

# Evaluation that is stopped in the middle of its questions.
"$WHET_BIN" lm train --width 256 --layers 4 --heads 4 --context 65536 --batch 1 --steps 1 --quiet --out "$SCRATCH/slow" >/dev/null
stops_soon "eval stops soon" "$WHET_BIN" lm eval "$SCRATCH/slow" --lengths 2000 --samples 64 --quiet --json "$SCRATCH/stopped.json"
check "and nothing is written then" [ ! -e "$SCRATCH/stopped.json" ]
"$WHET_BIN" clrs generate --algo minimum --length 4000 --format text >"$SCRATCH/long" 2>"$SCRATCH/err"
stops_soon "so does a model that reads a long prompt" "$WHET_BIN" lm generate "$SCRATCH/slow" --prompt-file "$SCRATCH/long"

# Bad input.
for verb in eval generate import export; do
    whet_given '' lm $verb
    check "$verb asks for a model" [ "$status" -eq 2 ]
    whet_given '' lm $verb "$SCRATCH/nowhere" "$SCRATCH/x" 2>/dev/null
    check "$verb refuses too much or what is not there" [ "$status" -eq 2 ]
done
refuses "a model that is not there" '' '' "whet lm generate: $SCRATCH/nowhere: no such file\n" \
    lm generate "$SCRATCH/nowhere"
printf 'nonsense' >"$SCRATCH/nonsense"
whet_given '' lm generate "$SCRATCH/nonsense"
check "nonsense is no model" grep -q "nonsense: not a whet checkpoint, GGUF or llama2.c model" "$SCRATCH/err"
head -c 5000 "$model" >"$SCRATCH/short.ckpt"
whet_given '' lm eval "$SCRATCH/short.ckpt"
check "half a checkpoint is refused" grep -q 'short.ckpt: damaged checkpoint' "$SCRATCH/err"
whet_given '' lm eval "$SCRATCH/model.gguf" --algorithm minimum --lengths 4 --samples 2 --quiet
check "a model that took the way over GGUF still speaks CLRS-Text" [ "$status" -eq 0 ]
sed 's/<pad>/<dap>/' "$SCRATCH/model.gguf" >"$SCRATCH/others.gguf"
whet_given '' lm eval "$SCRATCH/others.gguf" --algorithm minimum --lengths 4 --samples 2 --quiet
check "one of as many other tokens does not" grep -q 'others.gguf: not a CLRS-Text model (different vocabulary)' "$SCRATCH/err"
head -c 2000 "$SCRATCH/model.gguf" >"$SCRATCH/short.gguf"
whet_given '' lm import "$SCRATCH/short.gguf" "$SCRATCH/x.ckpt"
check "half a GGUF is refused" [ "$status" -eq 2 ] && check "and nothing written" [ ! -e "$SCRATCH/x.ckpt" ]
for bad in '--seed 1073741824' '--seed 99999999999999999999' '--count 0' '--count 99999999999999999999'; do
    # shellcheck disable=SC2086 # an option and its value
    refused "lm eval refuses $bad with the range it has" 2 "$([ "${bad%% *}" = --seed ] && echo '(0 to 1,073,741,823)' ||
        echo '(1 to 1,000,000)')" "$WHET_BIN" lm eval "$SCRATCH/run" $bad
done
"$WHET_BIN" retrieval train --steps 1 --width 16 --batch 8 --quiet --out "$SCRATCH/heads" >/dev/null 2>&1
whet_given '' lm generate "$(find "$SCRATCH/heads" -name '*.ckpt' | head -n 1)"
check "a max-retrieval head is not a language model" grep -q 'not a language model checkpoint' "$SCRATCH/err"
whet_given '' lm eval "$SCRATCH/back.ckpt"
check "algorithms must be named for a model that does not record them" grep -q 'name algorithms with --algo' "$SCRATCH/err"
whet_given '' lm eval "$model" --algorithm mimimum
check "an unknown algorithm is refused" grep -q "unknown algorithm 'mimimum'" "$SCRATCH/err"
whet_given '' lm eval "$model" --policy sharp
check "an unknown policy, too" [ "$status" -eq 2 ]
whet_given '' lm eval "$model" --lengths 1
check "a length that does not work, too" [ "$status" -eq 2 ]
whet_given '' lm eval "$model" --samples 0
check "no samples are none" [ "$status" -eq 2 ]
whet_given '' lm generate "$model" --prompt "$(printf '%0400d' 7)"
check "a prompt longer than the context is refused" grep -q "the prompt has 401 tokens, more than the model's context of 300" "$SCRATCH/err"
whet_given '' lm generate "$model" --cache f8
check "an unknown type of cache is refused" [ "$status" -eq 2 ]
refuses "a device without an end is no prompt" '' '' 'whet lm generate: /dev/zero: not a text file (NUL byte at offset 0)\n' \
    lm generate "$model" --prompt-file /dev/zero
whet_given '' lm generate "$model" --prompt x --prompt-file "$prompt"
check "one prompt is enough" [ "$status" -eq 2 ]
refuses "an unknown type is refused" '' '' "whet lm export: --type: 'q3' is not one of f32, f16, bf16 or q8_0\n" \
    lm export "$model" "$SCRATCH/x.gguf" --type q3
refuses "a model is not exported over itself" '' '' \
    "whet lm export: $model: is the model itself and would be overwritten; choose another output file\n" lm export "$model" "$model"
whet_given '' lm export "$model" "$SCRATCH/no/where.gguf"
check "a folder that is not there is reported" [ "$status" -ne 0 ] && check "by name" grep -q 'no/where.gguf' "$SCRATCH/err"

# Real models, where they are.
if [ -r "${WHET_MODELS:-/nowhere}/stories260K.bin" ]; then
    "$WHET_BIN" lm generate "$WHET_MODELS/stories260K.bin" --steps 40 >"$SCRATCH/story"
    check "the known story is generated" grep -q '^Once upon a time, there was a little girl named Lily. She loved to play outside in the park.' \
        "$SCRATCH/story"
    "$WHET_BIN" lm import "$WHET_MODELS/stories260K.bin" "$SCRATCH/story.ckpt" >/dev/null
    "$WHET_BIN" lm export "$SCRATCH/story.ckpt" "$SCRATCH/story.gguf" >/dev/null
    "$WHET_BIN" lm generate "$SCRATCH/story.gguf" --steps 40 >"$SCRATCH/again"
    check "also by way of a checkpoint and GGUF" cmp "$SCRATCH/story" "$SCRATCH/again"
else
    skip "the known story is generated" "WHET_MODELS is not set"
fi
finish
