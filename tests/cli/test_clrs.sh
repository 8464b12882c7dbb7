# `whet clrs` as a program: its records, what it refuses, data sets that are written whole, gone on with and left alone, and
# scores.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

# ---- generate ------------------------------------------------------------------------------------------------------------

answers "a sample is a line of JSON" '' \
    '{"algo": "minimum", "length": 4, "seed": 0, "index": 0, "use_hints": false, "question": "minimum:\\nkey: [0.548 0.715 0.602 0.544]\\nmin:\\n", "answer": "3\\n\\n"}\n' \
    clrs generate --algo minimum --length 4 --seed 0
answers "a sample is text" '' \
    'binary_search:\nkey: [0.423 0.544 0.548 0.602 0.715], target: 0.645, initial_trace: (0, 4)\ntrace | (low, high):\n(3, 4) | (4, 4)\n\n' \
    clrs generate --algo binary_search --length 5 --seed 0 --hints --format text
answers "unusual decimals and ties are mentioned" '' \
    '{"algo": "minimum", "length": 2, "seed": 0, "index": 0, "decimals": null, "ties": "simd", "use_hints": false, "question": "minimum:\\nkey: [0.5488135039273248 0.7151893663724195]\\nmin:\\n", "answer": "0\\n\\n"}\n' \
    clrs generate --algo minimum --length 2 --seed 0 --decimals none --ties simd
answers "no samples are no lines" '' '' clrs generate --algo minimum --length 2 --count 0

"$WHET_BIN" clrs generate --algo dijkstra --length 12 --seed 4294967295 --count 8 --hints >"$SCRATCH/all"
"$WHET_BIN" clrs generate --algo dijkstra --length 12 --seed 4294967295 --count 3 --start 5 --hints >"$SCRATCH/part"
check "a stream can be taken up anywhere" cmp "$SCRATCH/part" <(tail -n 3 "$SCRATCH/all")
check "decimals 0 and none are the same" cmp <("$WHET_BIN" clrs generate --algo bfs --length 5 --decimals 0) \
    <("$WHET_BIN" clrs generate --algo bfs --length 5 --decimals none)

refuses "an unknown algorithm is answered with the nearest" '' '' \
    "whet clrs generate: unknown algorithm 'quick_sort'; did you mean 'quicksort'?\n" clrs generate --algo quick_sort --length 4
refuses "part of a name is enough for that" '' '' \
    "whet clrs generate: unknown algorithm 'kruskal'; did you mean 'mst_kruskal'?\n" clrs generate --algo kruskal --length 4
refuses "a length that is too small is refused" '' '' \
    "whet clrs generate: --length: 3 is out of range (4 to 16,777,216 for strongly_connected_components)\n" \
    clrs generate --algo strongly_connected_components --length 3
refuses "a length beyond all measure is refused" '' '' \
    "whet clrs generate: --length: 18,446,744,073,709,551,614 is out of range (2 to 16,777,216 for bfs)\n" \
    clrs generate --algo bfs --length 18446744073709551614
refuses "a negative length is refused" '' '' \
    "whet clrs generate: --length: -3 is out of range (2 to 16,777,216 for bfs)\n" clrs generate --algo bfs --length -3
refuses "a length that is no number is refused" '' '' \
    "whet clrs generate: --length: '4x' is not a whole number\n" clrs generate --algo bfs --length 4x
refuses "a name that is near to none is answered without one" '' '' \
    "whet clrs generate: unknown algorithm 'nope'; 'whet clrs list' lists them\n" clrs generate --algo nope --length 4
refuses "a start that would take for ever is refused" '' '' \
    "whet clrs generate: --start: 18,446,744,073,709,551,615 is out of range (0 to 4,294,967,295)\n" \
    clrs generate --algo bfs --length 4 --start 18446744073709551615
refuses "a seed out of range is refused" '' '' \
    "whet clrs generate: --seed: 4,294,967,296 is out of range (0 to 4,294,967,295)\n" \
    clrs generate --algo bfs --length 4 --seed 4294967296
refuses "too many decimals are refused" '' '' \
    "whet clrs generate: --decimals: 20 is out of range (0 to 19, or none)\n" \
    clrs generate --algo bfs --length 4 --decimals 20
refuses "negative decimals are refused" '' '' \
    "whet clrs generate: --decimals: -1 is out of range (0 to 19, or none)\n" \
    clrs generate --algo bfs --length 4 --decimals -1
refuses "unknown ties are refused" '' '' "whet clrs generate: --ties: 'stable' is not scalar or simd\n" \
    clrs generate --algo bfs --length 4 --ties stable
refuses "an unknown format is refused" '' '' "whet clrs generate: --format: 'csv' is not jsonl or text\n" \
    clrs generate --algo bfs --length 4 --format csv
refuses "an algorithm is needed" '' '' "whet clrs generate: missing --algo NAME\n" clrs generate --length 4
refuses "points that cannot be had are refused" '' '' \
    'whet clrs generate: jarvis_march: a thousand consecutive sets of points had three on a line: too many points for this few decimals\n' \
    clrs generate --algo jarvis_march --length 200 --decimals 1
refuses "a verb is needed" '' '' "whet clrs: missing subcommand (generate, mix, export, score or list)\n" clrs
refuses "an unknown verb is answered with the nearest" '' '' \
    "whet clrs: unknown subcommand 'genrate'; did you mean 'generate'?\n" clrs genrate

stops_with_its_reader() {
    "$WHET_BIN" clrs generate --algo bfs --length 8 --count 18446744073709551615 | head -n 2 >"$SCRATCH/out"
    [ "$(wc -l <"$SCRATCH/out")" -eq 2 ]
}
check "an endless stream ends with its reader" stops_with_its_reader

in_little_memory() { # a stream of 50,000 samples, 60 MB, within 40 MB of address space
    (
        ulimit -v 40000
        "$WHET_BIN" clrs generate --algo bubble_sort --length 8 --hints --count 50000 >/dev/null
    )
}
if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "a long stream takes little memory" "an instrumented build takes more"
else
    check "a long stream takes little memory" in_little_memory
fi

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "a length too large for any memory is reported" "an instrumented build ends there"
else
    whet_given '' clrs generate --algo bfs --length 16777216
    ended_with "a length too large for any memory is reported" 1 '' \
        'whet clrs generate: out of memory for bfs of length 16777216; try a shorter length\n'
fi

# ---- mix -----------------------------------------------------------------------------------------------------------------

echo '{"insertion_sort": [5, 7], "bfs": [4, 6], "graham_scan": [5]}' >"$SCRATCH/spec.json"
echo '{"algos_and_lengths": {"insertion_sort": [5, 7], "bfs": [4, 6], "graham_scan": [5]}}' >"$SCRATCH/wrapped.json"
"$WHET_BIN" clrs mix --spec "$SCRATCH/spec.json" --seed 0 --count 20 >"$SCRATCH/mix"
check "a mix has as many samples as asked for" [ "$(wc -l <"$SCRATCH/mix")" -eq 20 ]
check "a mix begins as the reference does" grep -q \
    '^{"n": 0, "algo": "bfs", "length": 6, "seed": 0, "index": 0, "use_hints": false, "question": "bfs:\\ns: 0, A: \[\[1 0 1 1 0 0\]' \
    "$SCRATCH/mix"
check "a wrapped specification is the same" cmp "$SCRATCH/mix" \
    <("$WHET_BIN" clrs mix --spec "$SCRATCH/wrapped.json" --seed 0 --count 20)
spec_refused() { # specification message
    printf '%s' "$1" >"$SCRATCH/bad.json"
    whet_given '' clrs mix --spec "$SCRATCH/bad.json"
    [ "$status" -eq 2 ] && [ ! -s "$SCRATCH/out" ] && grep -qF "$2" "$SCRATCH/err"
}
check "a specification that is no JSON is refused" spec_refused '{"bfs": [4' "$SCRATCH/bad.json:1: not JSON"
check "a specification that is no object is refused" spec_refused '[4]' 'bad.json: not an object of algorithms'
check "a specification without lengths is refused" spec_refused '{"bfs": []}' 'bad.json: no lengths'
check "an unknown algorithm in it is answered with the nearest" spec_refused '{"bsf": [4]}' "did you mean 'bfs'?"
check "a length in it that is too small is refused" spec_refused '{"bfs": [4, 1]}' 'bfs takes lengths from 2'
check "a length in it that is no number is refused" spec_refused '{"bfs": ["4"]}' 'a length of bfs is not a whole number'
check "lengths that are no list are refused" spec_refused '{"bfs": 4}' 'are not an array'
check "a name given twice is refused" spec_refused '{"bfs": [4], "bfs": [5]}' 'duplicate'
refuses "a specification that is not there is refused" '' '' \
    "whet clrs mix: $SCRATCH/none.json: no such file\n" clrs mix --spec "$SCRATCH/none.json"

# ---- export --------------------------------------------------------------------------------------------------------------

exports() { # folder [argument ...]
    local folder=$1
    shift
    "$WHET_BIN" clrs export --split val --out "$folder" --algo bfs,dfs --lengths 4,6..7 --seeds 3 --seeds 14 --count 5 "$@"
}
check "a data set is written" exports "$SCRATCH/set/new"
check "its folder holds nothing else" [ "$(cd "$SCRATCH/set/new" && find . -type f | sort | tr '\n' ' ')" = './val/bfs.json ./val/dfs.json ' ]
check "it has all its samples" [ "$(grep -c '"prompt"' "$SCRATCH/set/new/val/bfs.json")" -eq 30 ]
whet_given '' clrs export --split val --out "$SCRATCH/set/new" --algo bfs,dfs --lengths 4,6..7 --seeds 3,14 --count 5
ended_with "asked for again, it is complete" 0 '' "whet clrs export: $SCRATCH/set/new/val: already complete\n"
refuses "other options find something else there" '' '' \
    "whet clrs export: $SCRATCH/set/new/val/bfs.json: exists and differs from what these options give; use another folder\n" \
    clrs export --split val --out "$SCRATCH/set/new" --algo bfs,dfs --lengths 4,6..7 --seeds 3,14 --count 4
refuses "fewer algorithms find too much there" '' '' \
    "whet clrs export: $SCRATCH/set/new/val: not empty; use a new or an empty folder\n" \
    clrs export --split val --out "$SCRATCH/set/new" --algo bfs
refuses "more algorithms find another export there" '' '' \
    "whet clrs export: $SCRATCH/set/new/val: holds another export; use a new or an empty folder\n" \
    clrs export --split val --out "$SCRATCH/set/new" --algo bfs,dfs,minimum
mkdir -p "$SCRATCH/set/full" && echo mine >"$SCRATCH/set/full/notes.txt"
refuses "a folder that is not empty is left alone" '' '' \
    "whet clrs export: $SCRATCH/set/full: not empty; use a new or an empty folder\n" \
    clrs export --split val --out "$SCRATCH/set/full" --algo bfs
check "both splits share a folder" "$WHET_BIN" clrs export --split train --out "$SCRATCH/set/new" --algo bfs --lengths 4 --seeds 1 --count 2
check "it then holds both" [ "$(cd "$SCRATCH/set/new" && find . -type f | sort | tr '\n' ' ')" = './train/bfs.json ./val/bfs.json ./val/dfs.json ' ]
rm -r "$SCRATCH/set/new/train"
in_use() {
    mkdir -p "$SCRATCH/set/busy"
    exec 9<"$SCRATCH/set/busy"
    flock -x 9
    exports "$SCRATCH/set/busy" 2>"$SCRATCH/err"
    local status=$?
    exec 9<&-
    [ $status -eq 1 ] && grep -qF "$SCRATCH/set/busy: in use" "$SCRATCH/err" && [ -z "$(ls -A "$SCRATCH/set/busy")" ]
}
if have flock; then
    check "a folder in which another run works is left to it" in_use
else
    skip "a folder in which another run works is left to it" "needs flock"
fi

# One file done, one half done, as a run that was killed leaves them.
mkdir -p "$SCRATCH/set/cut"
exports "$SCRATCH/set/cut"
rm "$SCRATCH/set/cut/val/dfs.json"
touch "$SCRATCH/set/cut/val/dfs.json.123-0.tmp"
cat >"$SCRATCH/set/cut/.whet-clrs-export-val" <<'NOTE'
An unfinished export of `whet clrs export`: the same command continues it.
split val, decimals 0, hints 0, ties 0, count 5
seeds 3 14
bfs 4 6 7
dfs 4 6 7
NOTE
touch -d '2001-01-01' "$SCRATCH/set/cut/val/bfs.json"
check "other options do not go on with it" eval '! exports "$SCRATCH/set/cut" --hints'
check "the same options do" exports "$SCRATCH/set/cut"
check "what was complete is kept" [ "$SCRATCH/set/cut/val/bfs.json" -ot "$SCRATCH/set/cut/val/dfs.json" ]
check "what was missing is as it would have been" diff -r "$SCRATCH/set/new" "$SCRATCH/set/cut"

is_interrupted() {
    "$WHET_BIN" clrs export --split train --out "$SCRATCH/set/stopped" --algo bfs,minimum >/dev/null 2>"$SCRATCH/err" &
    local job=$!
    for _ in {1..200}; do
        [ ! -e "$SCRATCH/set/stopped/train" ] || break
        sleep 0.02
    done
    kill -TERM "$job"
    wait "$job"
    local status=$?
    [ "$status" -eq 143 ] && [ -e "$SCRATCH/set/stopped/.whet-clrs-export-train" ] &&
        [ -z "$(find "$SCRATCH/set/stopped" -name '*.tmp')" ] && grep -q 'continues from here' "$SCRATCH/err"
}
check "an export that is interrupted says how to go on" is_interrupted

export_refused() { # message [argument ...]
    local message=$1
    shift
    whet_given '' clrs export "$@"
    [ "$status" -eq 2 ] && [ ! -s "$SCRATCH/out" ] && grep -qF -- "$message" "$SCRATCH/err" && [ ! -e "$SCRATCH/set/not" ]
}
check "a split is needed" export_refused 'missing --split NAME' --out "$SCRATCH/set/not"
check "an unknown split is refused" export_refused "'test' is not train or val" --split test --out "$SCRATCH/set/not"
check "an unknown algorithm is refused" export_refused "did you mean 'bfs'?" --split val --out "$SCRATCH/set/not" --algo dfs,bsf
check "a length too small for one of them is refused" export_refused 'kmp_matcher takes lengths from 3' \
    --split val --out "$SCRATCH/set/not" --algo bfs,kmp_matcher --lengths 2
check "lengths that are no list are refused" export_refused 'is not a list of whole numbers' \
    --split val --out "$SCRATCH/set/not" --lengths 4,,5
check "a seed that the files cannot hold is refused" export_refused '(0 to 2,147,483,647)' \
    --split val --out "$SCRATCH/set/not" --seeds 2147483648
check "no samples are refused" export_refused '--count: 0 is out of range (1 to 1,000,000,000)' --split val --out "$SCRATCH/set/not" --count 0

fails_on_a_full_disk() {
    [ -w /dev/full ] || return 0
    "$WHET_BIN" clrs generate --algo bfs --length 64 --count 1000 >/dev/full 2>"$SCRATCH/err"
    [ $? -eq 1 ] && grep -q 'standard output: cannot write' "$SCRATCH/err"
}
check "a full disk is reported" fails_on_a_full_disk

# ---- score ---------------------------------------------------------------------------------------------------------------

cat >"$SCRATCH/predictions" <<'END'
{"algo": "minimum", "length": 4, "seed": 0, "index": 0, "prediction": "3\n"}
{"algo": "minimum", "length": 4, "seed": 0, "index": 0, "prediction": "2"}
{"algo": "binary_search", "length": 5, "prediction": "(3, 4) | (4, 4)", "reference": "(3, 4), (4, 4) | (4, 4)\n\n"}

{"algo": "binary_search", "length": 5, "seed": 0, "index": 0, "use_hints": true, "prediction": " (3, 4) | (4, 4)"}
{"algo": "bfs", "length": 4, "prediction": "[0 1 2 3]", "answer": "[0 1 2 3]\n\n"}
END
whet_given '' clrs score "$SCRATCH/predictions"
ended_with "scores are a table" 0 'algorithm      length  samples   exact   final   steps
bfs                 4        1  1.0000  1.0000       -
binary_search       5        2  0.5000  1.0000  0.7500
minimum             4        2  0.5000  0.5000       -
all                 -        5  0.6000  0.8000  0.7500
' ''
whet_given "$(sed 's/\\/\\\\/g' "$SCRATCH/predictions")" clrs score --json
ended_with "scores are JSON" 0 '{"results": [
  {"algo": "bfs", "length": 4, "samples": 1, "exact": 1, "final": 1, "steps": null},
  {"algo": "binary_search", "length": 5, "samples": 2, "exact": 0.5, "final": 1, "steps": 0.75},
  {"algo": "minimum", "length": 4, "samples": 2, "exact": 0.5, "final": 0.5, "steps": null}
], "all": {"samples": 5, "exact": 0.59999999999999998, "final": 0.80000000000000004, "steps": 0.75}}
' ''
scores_itself() { # generate options: the records' answers as predictions, references made again
    "$WHET_BIN" clrs generate --algo task_scheduling --length 20 --count 50 "$@" |
        sed 's/, "question": .*, "answer": /, "prediction": /' | "$WHET_BIN" clrs score --json >"$SCRATCH/out" &&
        grep -q '"samples": 50, "exact": 1, "final": 1' "$SCRATCH/out"
}
huge='{"algo": "insertion_sort", "length": 5, "seed": 1, "index": 2147483648, "prediction": "x"}'
refuses "an index that would take hours is refused" "$huge" '' "whet clrs score: <stdin>:1: \"index\" is above 10,000,000, and \
all samples before it would have to be drawn; give the \"reference\" instead\n" clrs score
refuses "so are traces of a length that fits no memory" '' '' "whet clrs generate: lengths with hints go up to 4096, not 1000000\n" \
    clrs generate --algo insertion_sort --length 1000000 --hints
check "answers are their own references" scores_itself
check "answers with hints are" scores_itself --hints
check "answers with other ties and decimals are" scores_itself --hints --ties simd --decimals none --seed 9 --start 4
line_refused() { # line message
    whet_given "$1\n" clrs score
    [ "$status" -eq 2 ] && [ ! -s "$SCRATCH/out" ] && grep -qF "$2" "$SCRATCH/err" && return
    cat "$SCRATCH/err"
    return 1
}
check "a line that is no JSON is refused" line_refused '{"algo": ' '<stdin>:1: not JSON'
data_set_refused() {
    whet_given '' clrs score "$SCRATCH/set/new/val/bfs.json"
    [ "$status" -eq 2 ] && grep -qF "as 'whet clrs export' writes its data sets" "$SCRATCH/err"
}
check "a data set is distinguished from predictions" data_set_refused
check "an index that would take for ever is refused" line_refused \
    '{"algo": "bfs", "length": 4, "prediction": "", "seed": 0, "index": 4294967296}' 'above 10,000,000'
check "a line that is no object is refused" line_refused '[3]' '<stdin>:1: not a JSON object'
check "a line without a prediction is refused" line_refused '{"algo": "bfs", "length": 4}' '"prediction" is missing'
check "a line without a reference is refused" line_refused '{"algo": "bfs", "length": 4, "prediction": ""}' 'missing "reference"'
check "a line without a length is refused" line_refused '{"algo": "bfs", "prediction": "", "reference": ""}' '"length" is missing'
check "an unknown algorithm is refused" line_refused '{"algo": "bsf", "length": 4, "prediction": ""}' "did you mean 'bfs'?"
check "a seed out of range is refused" line_refused \
    '{"algo": "bfs", "length": 4, "prediction": "", "seed": 4294967296, "index": 0}' 'seeds are from 0'
check "a length out of range is refused" line_refused \
    '{"algo": "bfs", "length": 1, "prediction": "", "seed": 0, "index": 0}' 'bfs takes lengths from 2'
check "a negative index is refused" line_refused \
    '{"algo": "bfs", "length": 4, "prediction": "", "seed": 0, "index": -1}' '"index" is not a whole number'
refuses "a file that is not there is refused" '' '' \
    "whet clrs score: $SCRATCH/none: no such file\n" clrs score "$SCRATCH/none"

# ---- list and bench ------------------------------------------------------------------------------------------------------

whet_given '' clrs list
check "thirty algorithms are listed" [ "$(wc -l <"$SCRATCH/out")" -eq 31 ]
check "the list has their lengths" grep -Eq '^jarvis_march +2 +4 5 10 11 12 +4-13$' "$SCRATCH/out"
check "all thirty names are listed" [ "$("$WHET_BIN" clrs list --names | sort -u | wc -l)" -eq 30 ]
check "the benchmark measures all" [ "$("$WHET_BIN" bench clrs --quick --json | grep -c '"algo"')" -eq 31 ]
check "the benchmark shows its bars" eval '[ "$("$WHET_BIN" bench clrs --quick | grep -c "^bar: ")" -eq 2 ]'
for verb in '' generate mix export score list; do
    # shellcheck disable=SC2086 # no verb is no word
    check "the help of 'clrs $verb' fits a terminal" [ -z "$("$WHET_BIN" clrs $verb --help | awk 'length > 80')" ]
done
refuses "a device without an end is no file of predictions" '' '' \
    'whet clrs score: /dev/zero: not a text file (NUL byte at offset 0)\n' clrs score /dev/zero
refuses "control characters of a line do not reach the terminal" '{\0033: 1}\n' '' \
    "whet clrs score: <stdin>:1: not JSON: string or '}' expected near '?'\n" clrs score
refuses "too long a line is refused" '{"algo": "bfs"}\n' '' \
    'whet clrs score: <stdin>:1: line longer than 9 bytes; --max-line sets the limit\n' clrs score --max-line 9
refuses "nor is it a specification" '' '' 'whet clrs mix: /dev/zero: not a text file (NUL byte at offset 0)\n' clrs mix --spec /dev/zero
finish
