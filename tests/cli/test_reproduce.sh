# whet reproduce: a small report; results used again, runs that are stopped and gone on with, and disks that fail.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "an unknown part has a suggestion" '' '' "whet reproduce: --only: no part 'figure22'; did you mean 'figure2'?\n" \
    reproduce --only table1,figure22
refuses "no part is none" '' '' "whet reproduce: --only: which parts? 'whet reproduce --help' lists them\n" reproduce --only ''
refuses "only the published can be checked" '' '' "whet reproduce: --check: 'mine' cannot be checked; 'published' can\n" \
    reproduce --check mine
refuses "an unknown one that is near to none is answered with all" '' '' \
    "whet reproduce: --only: no part 'foo'; there are $("$WHET_BIN" reproduce --help | sed -n '/^parts/,$ s/^  \([a-z0-9-]*\).*/\1/p' | paste -sd, | sed 's/,/, /g')\n" \
    reproduce --only foo
check "the help marks what a run leaves out" eval '"$WHET_BIN" reproduce --help | grep -q "^  beyond *\*"'
try='Try '\''whet reproduce --help'\''.\n'
refuses "too many seeds are refused" '' '' "whet reproduce: --seeds: '1001' is not a whole number from 1 to 1000\n$try" \
    reproduce --seeds 1001
refuses "no steps are refused" '' '' "whet reproduce: --steps: '0' is not a whole number from 1 to 1000000000\n$try" \
    reproduce --steps 0
refuses "no sets are refused" '' '' "whet reproduce: --sets: '0' is not a whole number from 1 to 10000000\n$try" reproduce --sets 0
check "which leaves no folder behind" [ ! -e report/manifest.json ]

if ! have gnuplot; then
    skip "everything that draws" "needs gnuplot-nox"
    finish
fi
if ! "$WHET_BIN" retrieval train --steps 1 --width 16 --batch 8 --quiet --out "$SCRATCH/probe" >/dev/null 2>"$SCRATCH/err" &&
    grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "everything that trains" "needs libopenblas0"
    finish
fi

report=$SCRATCH/report
tiny=(reproduce --steps 40 --sets 4 --threads 1 --quiet)
whet_given '' "${tiny[@]}" --out "$report" --check published
check "a report is made" [ "$status" -eq 0 ]
check "Table 1 is printed" grep -q '^adaptive, ours' "$SCRATCH/out"
check "and compared with the published one" grep -q 'leave the published ones by more than two standard errors' "$SCRATCH/out"
check "the report is named" grep -q "The report is in $report/index.html." "$SCRATCH/out"
for part in figure1 figure2 figure5 figure6 figure7 ties policies accuracy accuracy-f32 entropy sharpness; do
    check "$part is there as SVG and PNG" [ -s "$report/figures/$part.svg" ] && [ -s "$report/figures/$part.png" ]
    check "the page has $part" grep -q "<section id=\"$part\">" "$report/index.html"
done
check "the page has Table 1" grep -q '<section id="table1">' "$report/index.html"
check "the page says what differs" grep -q '<section id="differs">' "$report/index.html"
check "the page asks for nothing from elsewhere" [ "$(grep -cE '(src|href)="[^"d#]' "$report/index.html")" -eq 0 ]
check "what takes long is left out" [ ! -e "$report/results/beyond.json" ]
check "which is said" grep -q '^Left out, since it takes long: beyond\.' "$SCRATCH/out"
check "the manifest says that it is complete" grep -q '"complete": true' "$report/manifest.json"
check "results are JSON" python3 -c 'import json, sys; [json.load(open(f)) for f in sys.argv[1:]]' "$report"/results/*.json

# Results are used again: without checkpoints a run that trained would write them anew.
cp "$report/results/evaluation-bf16.json" "$SCRATCH/kept.json"
rm -r "$report/runs"
whet_given '' "${tiny[@]}" --out "$report"
check "the same command ends well again" [ "$status" -eq 0 ]
check "and trains nothing" [ ! -e "$report/runs" ]
check "Table 1 is what it was" cmp "$report/results/evaluation-bf16.json" "$SCRATCH/kept.json"
rm "$report/figures/figure1.svg" "$report/figures/figure5.svg"
check "some parts can be asked for" "$WHET_BIN" "${tiny[@]}" --out "$report" --only figure5
check "only they are made" [ ! -e "$report/figures/figure1.svg" ]
check "they are in the page" grep -q '<section id="figure5">' "$report/index.html"
check "with the table of before" grep -q '<section id="table1">' "$report/index.html"
echo '{"made_with": {}, "resu' >"$report/results/heads.json"
check "a result that is damaged is made again" "$WHET_BIN" "${tiny[@]}" --out "$report" --only figure2
check "and whole then" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$report/results/heads.json"
check "what goes beyond the paper is made when named" "$WHET_BIN" "${tiny[@]}" --out "$report" --only beyond
check "and kept" python3 - "$report/results/beyond.json" <<'PYTHON'
import json, sys
beyond = json.load(open(sys.argv[1]))["result"]
assert beyond["steps"] == 40 and len(beyond["recipes"]) >= 2
for recipe in beyond["recipes"]:
    assert recipe["path"] in ("a", "b") and recipe["change"]
    assert max(row["n"] for row in recipe["evaluation"]["rows"]) == 16384
PYTHON
check "and shown" grep -q '<section id="beyond">' "$report/index.html"

# Stopped while it trains, and gone on with.
long=(reproduce --steps 4000 --sets 2 --threads 1 --only table1 --quiet --out "$SCRATCH/stopped")
"$WHET_BIN" "${long[@]}" >/dev/null 2>"$SCRATCH/err" &
process=$!
for _ in $(seq 600); do
    [ ! -e "$SCRATCH/stopped/runs/bf16-products-4000/seed-0.ckpt" ] || break
    sleep 0.05
done
kill -INT $process
wait $process
status=$?
check "Ctrl-C has an exit status of its own" [ "$status" -eq 130 ] &&
    check "and a message that says how to go on" grep -q 'stopped; the same command goes on from here' "$SCRATCH/err"
check "there is no table yet" [ ! -e "$SCRATCH/stopped/results/evaluation-bf16.json" ]
lines=$(wc -l <"$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl")
cp "$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl" "$SCRATCH/log"
check "the same command completes it" "$WHET_BIN" "${long[@]}"
check "going on where it was" cmp "$SCRATCH/log" <(head -n "$lines" "$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl")
check "to the end" [ "$(wc -l <"$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl")" -eq 41 ]

# Two runs in one folder.
in_use() {
    exec 9<"$report"
    flock -x 9
    "$WHET_BIN" "${tiny[@]}" --out "$report" --only figure5 >"$SCRATCH/out" 2>"$SCRATCH/err"
    local status=$?
    exec 9<&-
    [ $status -eq 1 ] && grep -qF "$report is in use" "$SCRATCH/err"
}
if have flock; then
    check "a folder in which another run works is left to it" in_use
else
    skip "a folder in which another run works is left to it" "needs flock"
fi

# Disks that do not cooperate.
whet_given '' "${tiny[@]}" --out /dev/null/report
check "a folder that cannot be made is a failure" [ "$status" -eq 1 ]
check "that names it" grep -q '/dev/null/report' "$SCRATCH/err"
cp -r "$report" "$SCRATCH/before"
(
    trap '' XFSZ # so that writing beyond the limit fails as on a full disk
    ulimit -f 16
    "$WHET_BIN" reproduce --steps 41 --sets 4 --threads 1 --quiet --out "$report" >"$SCRATCH/out" 2>"$SCRATCH/err"
)
status=$?
check "a full disk is a failure" [ "$status" -eq 1 ]
check "with one line that says so" [ "$(grep -c 'cannot write' "$SCRATCH/err")" -eq 1 ]
check "results are what they were" diff -r "$SCRATCH/before/results" "$report/results"
check "and so is the page" cmp "$SCRATCH/before/index.html" "$report/index.html"
whole_pictures() {
    local file
    for file in "$report"/figures/*.svg; do
        tail -c 16 "$file" | grep -q '</svg>' || { echo "$file"; return 1; }
    done
}
check "every picture is whole" whole_pictures
check "nothing unfinished is left" [ -z "$(find "$report" -name '*.tmp*')" ]
finish
