# whet tune: what is refused, printed and kept; stopping and resuming; a model without any gain.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

usage='whet tune: missing MODEL; usage: whet tune [OPTION]... MODEL.gguf\n'
refuses "a model is needed" '' '' "$usage" tune
refuses "also behind texts, which take all words up to the next option" '' '' "$usage" tune --text a b c model.gguf
refuses "but only one" '' '' "whet tune: two models given: 'a.gguf' and 'b.gguf'\n" tune -m a.gguf b.gguf
refuses "texts to learn from" '' '' "whet tune: missing --text FILE; temperatures are learned on --text and judged on --check\n" \
    tune x.gguf --check a.txt
refuses "texts to check on" '' '' "whet tune: missing --check FILE; temperatures are learned on --text and judged on --check\n" \
    tune x.gguf --text a.txt
refuses "an option without texts" '' '' "whet tune: option '--text' needs a value: --text FILE...\n" tune x.gguf --text --check a
for limit in '' x 5x -1 101 1e2 '%'; do
    refuses "a limit of '$limit'" '' '' "whet tune: --limit: '$limit' is not a percentage such as 0.5%\n" \
        tune x.gguf --text a --check b --limit "$limit"
done
refuses "another sharing" '' '' "whet tune: --by: 'heads' is not one of all, layer or head\n" tune x.gguf --by heads
refuses "layers that are none" '' '' "whet tune: --layers: '3-1' is not a list such as 0-3,7\n" tune x.gguf --text a --check b --layers 3-1
refuses "heads that are none" '' '' "whet tune: --heads: 'all' is not a list such as 0-3,7\n" tune x.gguf --text a --check b --heads all
refuses "a rate of 0" '' '' "whet tune: --rate: 0 is out of range (above 0, up to 1)\n" tune x.gguf --text a --check b --rate 0
refuses "heads by forward passes" '' '' \
    "whet tune: --by head: forward passes find one set of parameters for all heads or for each layer; use --by layer, add --gradients or leave out --forward\n" \
    tune x.gguf --text a --check b --forward --by head
refuses "gradients where there are only gradients" '' '' \
    "whet tune: --gradients: they are used anyway; the option is for runs with --forward\n" tune x.gguf --text a --check b --gradients
refuses "a model that is not there" '' '' 'whet tune: /nowhere.gguf: no such file\n' tune /nowhere.gguf --text a --check b
whet_given '' tune x.gguf --text a --check b --out /nowhere/tuned.json
check "where --out cannot be written is reported first" \
    [ "$status $(cat "$SCRATCH/err")" = "1 whet tune: /nowhere/tuned.json: cannot write: No such file or directory" ]

model=${WHET_MODELS:-}/stories260K-f32.gguf
if [ ! -f "$model" ]; then
    skip "a model is tuned" "WHET_MODELS names no folder of models"
    finish
fi

story=$WHET_SOURCE_DIR/tests/plugin/story.txt
mkdir "$SCRATCH/learn" "$SCRATCH/judge"
for i in 1 2 3 4 5 6 7 8; do cat "$story"; done | tr 'aeiou' 'eioua' >"$SCRATCH/learn/1.txt"
cat "$WHET_SOURCE_DIR/docs/embedding.md" >"$SCRATCH/learn/2.txt"
cat "$WHET_SOURCE_DIR/docs/INSTALL.md" "$WHET_SOURCE_DIR/docs/TESTING.md" >"$SCRATCH/judge/3.txt"
cp "$SCRATCH/learn/2.txt" "$SCRATCH/judge/again.txt"
printf 'text \0 with a zero' >"$SCRATCH/zero.txt"
: >"$SCRATCH/empty.txt"
tune=(tune "$model" --text "$SCRATCH"/learn/*.txt --context 64 --count 8 --validation-count 4 --check-count 8 --steps 6 --seeds 1 --yes)

refuses "a text in two places" '' '' \
    "whet tune: $SCRATCH/learn/2.txt of --text is the same text as $SCRATCH/judge/again.txt of --check; keep them apart\n" \
    "${tune[@]}" --check "$SCRATCH"/judge/*.txt
refuses "a text given twice" '' '' "whet tune: $SCRATCH/judge/3.txt and $SCRATCH/judge/3.txt are the same text; leave one out\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" "$SCRATCH/judge/3.txt"
refuses "a text with a zero byte" '' '' "whet tune: $SCRATCH/zero.txt: not a text file (NUL byte at offset 5)\n" \
    "${tune[@]}" --check "$SCRATCH/zero.txt"
refuses "an empty text" '' '' "whet tune: $SCRATCH/empty.txt: no text in it\n" "${tune[@]}" --check "$SCRATCH/empty.txt"
refuses "a context beyond the model" '' '' \
    "whet tune: --context: the model takes 512 tokens, not 1024; stretch it by --rope, such as --rope yarn:2\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --context 1024
refuses "sequences to learn from that are longer than others" '' '' "whet tune: --learn-context: 65 is out of range (16 to 64)\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --learn-context 65
refuses "a layer that is not there" '' '' "whet tune: --layers: 5 is out of range; the model has layers 0 to 4\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --layers 0,5
refuses "a head that is not there" '' '' "whet tune: --heads: 9 is out of range; the model has heads 0 to 7\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --heads 3-9
refuses "a folder in place of a text" '' '' "whet tune: $SCRATCH/judge: cannot read: Is a directory\n" "${tune[@]}" --check "$SCRATCH/judge"
refuses "a text that is not there" '' '' "whet tune: $SCRATCH/nowhere.txt: no such file\n" "${tune[@]}" --check "$SCRATCH/nowhere.txt"
head -c 100 "$SCRATCH/judge/3.txt" >"$SCRATCH/short.txt"
refuses "a text shorter than the context" '' '' \
    "whet tune: --check: the files in folder '$(basename "$SCRATCH")' have 65 tokens; 2 sequences of 64 are needed; give more text or a shorter --context\n" \
    "${tune[@]}" --check "$SCRATCH/short.txt"
printf ' \n\t\n' >"$SCRATCH/blank.txt"
refuses "a text of blanks" '' '' \
    "whet tune: --text: the files in folder '$(basename "$SCRATCH")' have 5 tokens; 1 sequence of 64 is needed; give more text or a shorter --context\n" \
    tune "$model" --text "$SCRATCH/blank.txt" --validate "$SCRATCH/learn/1.txt" --check "$SCRATCH/judge/3.txt" --context 64
sed 's/$/\r/' "$SCRATCH/learn/2.txt" >"$SCRATCH/judge/windows.txt"
refuses "a text in two places with other line ends" '' '' \
    "whet tune: $SCRATCH/learn/2.txt of --text is the same text as $SCRATCH/judge/windows.txt of --check; keep them apart\n" \
    "${tune[@]}" --check "$SCRATCH/judge/windows.txt"

refuses "the text that whet brings along" '' '' \
    "whet tune: $WHET_SOURCE_DIR/include/whet.h of --check is the same text as whet.h of --validate; keep them apart\n" \
    "${tune[@]}" --check "$WHET_SOURCE_DIR/include/whet.h"

# Results take the place of nothing that is read, nor of each other.
cp "$SCRATCH/learn/1.txt" "$SCRATCH/task.jsonl"
taken="is an input and would be overwritten; choose another output file\n"
for option in --out --json --html; do
    for file in learn/1.txt judge/3.txt empty.txt task.jsonl; do
        refuses "$option in the place of $file" '' '' "whet tune: $SCRATCH/./$file: $taken" "${tune[@]}" --check "$SCRATCH/judge/3.txt" \
            --validate "$SCRATCH/empty.txt" --task "$SCRATCH/task.jsonl" $option "$SCRATCH/./$file"
    done
done
refuses "$option in the place of the model" '' '' "whet tune: $model: $taken" "${tune[@]}" --check "$SCRATCH/judge/3.txt" --html "$model"
refuses "two results in one file" '' '' "whet tune: $SCRATCH/./new: two results cannot go to the same file\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$SCRATCH/new" --json "$SCRATCH/./new"
refuses "a result in the place of the state" '' '' \
    "whet tune: $SCRATCH/./new.partial: the state of the run is kept there; choose another file\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$SCRATCH/new" --html "$SCRATCH/./new.partial"
refuses "two results on standard output" '' '' "whet tune: only one result can go to '-', standard output\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out - --json -
refuses "a task that is none" '' '' "whet tune: --task: 'sing' is neither copy, keys or needle nor an existing file\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --task sing

run_tune() { # out [argument ...]; leaves $status
    local out=$1
    shift
    "$WHET_BIN" "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$out" --quiet "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=$?
}
run_tune "$SCRATCH/tuned.json"
check "foreign text is gained on" [ "$status" = 0 ]
check "the report has all arms" grep -qE '^permuted, mean of 5 ' "$SCRATCH/out"
check "and what was chosen" grep -qF "Use it: WHET_CONFIG=$SCRATCH/tuned.json" "$SCRATCH/out"
check "nothing else is left behind" [ ! -e "$SCRATCH/tuned.json.partial" ]
is_as_said() {
    python3 - "$SCRATCH/tuned.json" <<'END'
import json, sys
config = json.load(open(sys.argv[1]))
about = config["about"]
assert config["policy"] == "softmax" and len(config["rules"]) == 40, len(config["rules"])
assert about["chosen"]["confirmed"] is True
arms = {arm["name"]: arm for arm in about["arms"]}
chosen, base = arms["chosen"]["check"][0]["all"], arms["softmax"]["check"][0]["all"]
assert chosen["high"] < 0 and chosen["perplexity"] < base["perplexity"]
assert all(len(f["sha256"]) == 64 for d in about["text"] for f in d["files"])
END
}
check "the file has a rule for each head, the texts' hashes and the gain" is_as_said
run_tune "$SCRATCH/threads.json" --threads 1
check "one thread gives the same file" cmp "$SCRATCH/tuned.json" "$SCRATCH/threads.json"

run_tune "$SCRATCH/short.json" --learn-context 32
check "short sequences to learn from are judged on long ones" [ "$status" = 0 ]
shorter() {
    python3 - "$SCRATCH/short.json" "$SCRATCH/tuned.json" <<'END'
import json, sys
short, tuned = (json.load(open(path))["about"] for path in sys.argv[1:])
assert (short["options"]["context"], short["options"]["learn_context"], tuned["options"]["learn_context"]) == (64, 32, 64)
bases = [next(a for a in about["arms"] if a["name"] == "softmax") for about in (short, tuned)]
assert bases[0] == bases[1] and short["chosen"]["a"] != tuned["chosen"]["a"]
END
}
check "the same as without the option" shorter
check "and the report says how long they are" grep -qE '; learned on 8 sequences of 32$' "$SCRATCH/out"

# A task from a file: half of the lines to learn from, a quarter to choose by and a quarter to judge by.
for i in 1 2 3 4 5 6 7 8 9; do
    printf '{"prompt": "Tim %s had a red ball and Sue %s had a", "answer": " red ball"}\n' "$i" "$i"
done >"$SCRATCH/task.jsonl"
printf '{"prompt": "%s", "answer": " end"}\n' "$(printf 'far %.0s' $(seq 200))" >>"$SCRATCH/task.jsonl"
run_tune "$SCRATCH/task.json" --task "$SCRATCH/task.jsonl" --limit 50%
check "a file of examples is a task" grep -q "^Task $SCRATCH/task.jsonl: 2 examples; " "$SCRATCH/out"
check "examples that are too long are counted" grep -qx "1 of the file's examples are longer than 64 tokens and were left out." "$SCRATCH/out"
head -1 "$SCRATCH/task.jsonl" >>"$SCRATCH/task.jsonl"
refuses "an example that is there twice" '' '' "whet tune: $SCRATCH/task.jsonl:11: the same prompt and answer as in line 1; leave one out\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$SCRATCH/task.json" --quiet --task "$SCRATCH/task.jsonl"

run_tune - --steps 1
check "settings on standard output, and nothing else" python3 -m json.tool "$SCRATCH/out" "$SCRATCH/pretty"

# Ctrl-C, then the same command again.
stopped_at INT "$SCRATCH/stopped.json.partial" "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$SCRATCH/stopped.json" --quiet
check "Ctrl-C has an exit status of its own" [ "$status" -eq 130 ] &&
    check "and one message, which says how to go on" [ "$(cat "$SCRATCH/err")" = "whet tune: stopped; the same command continues from $SCRATCH/stopped.json.partial" ]
run_tune "$SCRATCH/stopped.json"
check "the same command continues with the same bits" cmp "$SCRATCH/tuned.json" "$SCRATCH/stopped.json"

# Killed while it works, then continued.
"$WHET_BIN" "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$SCRATCH/killed.json" --quiet --num-seeds 2 >/dev/null 2>&1 &
process=$!
appears "$SCRATCH/killed.json.partial"
kill -9 $process
wait $process 2>/dev/null
check "a killed run leaves what it had" [ -e "$SCRATCH/killed.json.partial" ]
refuses "which other options do not continue" '' '' \
    "whet tune: $SCRATCH/killed.json.partial: state of a run with other options or texts; remove it, or choose another --out\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$SCRATCH/killed.json" --quiet --seeds 2 --rate 0.02
cp "$SCRATCH/killed.json.partial" "$SCRATCH/damaged.json.partial"
sed -i '/"entries"/,$ s/[1-9]/7/' "$SCRATCH/damaged.json.partial"
refuses "nor does anything continue a damaged one" '' '' \
    "whet tune: $SCRATCH/damaged.json.partial: not the state of a run, or damaged; remove it, or choose another --out\n" \
    "${tune[@]}" --check "$SCRATCH/judge/3.txt" --out "$SCRATCH/damaged.json" --quiet --seeds 2
run_tune "$SCRATCH/killed.json" --num-seeds 2
run_tune "$SCRATCH/whole.json" --seeds 2
check "the same command ends with the same bits" cmp "$SCRATCH/killed.json" "$SCRATCH/whole.json"

# Numbers that hardly move gain next to nothing, which is nothing.
run_tune "$SCRATCH/nothing.json" --rate 0.0001 --steps 2
check "where nothing is gained the status is 3" [ "$status" = 3 ]
check "and the report says so" grep -q '^Nothing found: ' "$SCRATCH/out"
check "and beta is 1" python3 -c "
import json
config = json.load(open('$SCRATCH/nothing.json'))
assert config['policy'] == 'softmax' and 'rules' not in config"
finish
