# whet league: a tiny one is run, stopped, resumed, shared by processes, and reported.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "an unknown task" '' '' "whet league: --task: unknown task 'sorting'; 'whet league --list' lists them\n" league --task sorting
refuses "an unknown policy" '' '' \
    "whet league: --policy: 'nope' is neither a policy nor a league arm; see 'whet league --list'\n" league --policy nope
refuses "unknown positions" '' '' "whet league: --positions: 'sine' is not one of rope, none, alibi or mix\n" league --positions sine
refuses "a share that is none" '' '' "whet league: --rank: '4/4' is not a share such as 0/4\n" league --rank 4/4
refuses "rates that are none" '' '' "whet league: --rates: 'x' is not a list of up to 8 numbers such as 0.0005,0.002\n" league --rates 0.1,x
refuses "both scales" '' '' "whet league: --quick cannot be combined with --full\n" league --quick --full
refuses "a width that heads do not divide" '' '' "whet league: --width: 36 is not a multiple of twice --num-heads, 4\n" league --width 36
refuses "no models at all" '' '' "whet league: --num-seeds: 0 is out of range (1 to 64)\n" league --num-seeds 0
refuses "seeds from 0" '' '' "whet league: --first-seed: 0 is out of range (1 to 1,000,000)\n" league --first-seed 0
refuses "a share without an end" '' '' "whet league: --rank: '0/4x' is not a share such as 0/4\n" league --rank 0/4x
check "tasks and policies are listed" grep -q '^  asentmax  *ASEntmax' <("$WHET_BIN" league --list)

tiny=(league --task max --task copy --policy ssmax,adaptive-inference --positions none --steps 60 --batch 8 --count 16
    --multiples 1..4:x2 --width 16 --num-heads 2 --num-layers 1 --num-seeds 2 --quiet)
if ! "$WHET_BIN" "${tiny[@]}" --out-dir "$SCRATCH/whole" --json "$SCRATCH/whole.json" --csv "$SCRATCH/whole.csv" \
    >"$SCRATCH/out" 2>"$SCRATCH/err" && grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "a league is run" "needs libopenblas0"
    finish
fi
check "a tiny league prints a ranking" grep -q '^ssmax  *none  *4 ' "$SCRATCH/out"
check "and shares of right answers by task" grep -q '^copy, positions: none' "$SCRATCH/out"
check "arms that run other arms' models are in it" grep -q '^adaptive-inference  *none  *4 ' "$SCRATCH/out"

values() { # file: what does not depend on time
    python3 - "$1" <<'PROGRAM'
import json, sys
league = json.load(open(sys.argv[1]))
assert league["models"] == league["expected"] == 8, league["models"]
assert len(league["entries"]) == 2 * 3 * 3
assert all(0 <= e["right"]["low"] <= e["right"]["mean"] <= e["right"]["high"] <= 1 and e["seeds"] == 2 for e in league["entries"])
assert {e["arm"] for e in league["entries"]} == {"softmax", "ssmax", "adaptive-inference"}
assert any(e["arm"] == "ssmax" and e["beta"] != 1 for e in league["entries"])
print(json.dumps(league["entries"], sort_keys=True))
PROGRAM
}
check "its JSON has every entry" values "$SCRATCH/whole.json"
check "its CSV too" [ "$(wc -l <"$SCRATCH/whole.csv")" -eq 19 ]
check "a page is written beside it" grep -q '<h2>Ranking</h2>' "$SCRATCH/whole/index.html"
check "which is well-formed" python3 -c "
import sys, xml.dom.minidom as dom
page = open(sys.argv[1]).read().split('\n', 1)[1]
dom.parseString(page)" "$SCRATCH/whole/index.html"
check "a chart alone, too" "$WHET_BIN" "${tiny[@]}" --out-dir "$SCRATCH/whole" --report --svg "$SCRATCH/whole.svg"
check "with a curve for each policy" [ "$(grep -c '<path class="curve .*d="M[0-9. ]*L' "$SCRATCH/whole.svg")" -eq 3 ]
check "which is well-formed, too" python3 -c "import sys, xml.dom.minidom as dom; dom.parse(sys.argv[1])" "$SCRATCH/whole.svg"
sections() { # page, title: how often an arm is named in the curves of a section
    sed -n "/<h2>$2/,/<\/section>/p" "$1" | grep -c '>stick-breaking<'
}
gates=(league --task max --policy stick-breaking --positions none --steps 20 --batch 8 --count 8 --multiples 1,2 --width 16
    --num-heads 2 --num-layers 1 --quiet --out-dir "$SCRATCH/gates")
check "a map without an entropy is run" "$WHET_BIN" "${gates[@]}"
check "it has a curve of right answers" [ "$(sections "$SCRATCH/gates/index.html" 'Right answers')" -eq 1 ]
check "and none of entropies" [ "$(sections "$SCRATCH/gates/index.html" 'Entropy of heads')" -eq 0 ]
check "checkpoints of finished models are removed" [ -z "$(find "$SCRATCH/whole" -name '*.ckpt')" ]

same_as_whole() { # folder
    "$WHET_BIN" "${tiny[@]}" --out-dir "$1" --json "$SCRATCH/other.json" >/dev/null &&
        [ "$(values "$SCRATCH/whole.json")" = "$(values "$SCRATCH/other.json")" ]
}
stopped_at INT "$SCRATCH/part/max/none/ssmax/seed-1-rate-0.002" "${tiny[@]}" --out-dir "$SCRATCH/part"
check "a league is stopped" [ "$status $(cat "$SCRATCH/err")" = "130 whet league: stopped; the same command continues from here" ]
stopped_at KILL "$SCRATCH/part/copy/none/softmax/seed-1-rate-0.002" "${tiny[@]}" --out-dir "$SCRATCH/part"
check "and killed" [ "$status" -eq 137 ]
check "what is done is reported" "$WHET_BIN" "${tiny[@]}" --out-dir "$SCRATCH/part" --report --html "$SCRATCH/part.html"
check "the rest is run with the same results" same_as_whole "$SCRATCH/part"

"$WHET_BIN" "${tiny[@]}" --out-dir "$SCRATCH/shared" --rank 0/2 --threads 1 >/dev/null 2>&1 &
process=$!
check "two processes share a league" "$WHET_BIN" "${tiny[@]}" --out-dir "$SCRATCH/shared" --rank 1/2 --threads 1
wait $process
check "and agree with one" same_as_whole "$SCRATCH/shared"
refuses "a report of nothing" '' '' "whet league: $SCRATCH/none: holds no league\n" league --report --out-dir "$SCRATCH/none"
check "which leaves nothing behind" [ ! -e "$SCRATCH/none" ]
whet_given '' "${tiny[@]}" --out-dir "$SCRATCH/whole" --steps 61 --report
check "a report has its folder's scale" [ "$status $(grep -c 'another scale' "$SCRATCH/err")" = "2 1" ]
whet_given '' "${tiny[@]}" --out-dir "$SCRATCH/whole" --steps 61
check "another scale needs another folder" \
    [ "$status $(cat "$SCRATCH/err")" = "2 whet league: $SCRATCH/whole: holds a league of another scale (see its manifest.json); choose another --out-dir" ]
check "seeds are added" [ "$("$WHET_BIN" "${tiny[@]}" --out-dir "$SCRATCH/whole" --seeds 3 | grep -c '^softmax  *none  *6 ')" -eq 1 ]
others=("${tiny[@]}" --out-dir "$SCRATCH/whole" --first-seed 3 --seeds 2)
check "other seeds make a rerun" "$WHET_BIN" "${others[@]}" --json "$SCRATCH/others.json"
check "of the seeds that were named" [ "$(ls "$SCRATCH/whole/max/none/softmax")" = "$(printf 'seed-%d-rate-0.002\n' 1 2 3 4)" ]
check "with other results" python3 -c "
import json, sys
ours, others = (json.load(open(path)) for path in sys.argv[1:])
assert others['first_seed'] == 3 and others['seeds'] == 2 and others['models'] == 8
assert [e['right'] for e in ours['entries']] != [e['right'] for e in others['entries']]" \
    "$SCRATCH/whole.json" "$SCRATCH/others.json"
finish
