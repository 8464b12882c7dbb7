# whet reproduce: a small report; results used again, runs that are stopped and gone on with, and disks that fail.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "an unknown part has a suggestion" '' '' "whet reproduce: --only: unknown part 'figure22'; did you mean 'figure2'?\n" \
    reproduce --only table1,figure22
refuses "no part is none" '' '' "whet reproduce: --only: missing part names; 'whet reproduce --help' lists them\n" reproduce --only ''
refuses "only the published figures can be compared with" '' '' "whet reproduce: --compare: 'mine' is not 'published'\n" \
    reproduce --compare mine
refuses "an unknown one that is near to none is answered with all" '' '' \
    "whet reproduce: --only: unknown part 'foo' ($("$WHET_BIN" reproduce --help | sed -n '/^parts/,/^$/ s/^  \([a-z0-9-]*\).*/\1/p' | paste -sd, | sed 's/,/, /g'))\n" \
    reproduce --only foo
check "the help marks what a run leaves out" eval '"$WHET_BIN" reproduce --help | grep -q "^  beyond *\*"'
refuses "too many seeds are refused" '' '' "whet reproduce: --num-seeds: 1,001 is out of range (1 to 1,000)\n" \
    reproduce --seeds 1001
refuses "no steps are refused" '' '' "whet reproduce: --steps: 0 is out of range (1 to 1,000,000,000)\n" \
    reproduce --steps 0
refuses "no sets are refused" '' '' "whet reproduce: --count: 0 is out of range (1 to 10,000,000)\n" reproduce --sets 0
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
check "and compared with the published one" grep -q 'differ from the published ones by more than two standard errors' "$SCRATCH/out"
check "the report is named" grep -q "The report is in $report/index.html." "$SCRATCH/out"
for part in figure1 figure2 figure5 figure6 figure7 ties policies accuracy accuracy-f32 entropy sharpness; do
    check "$part is there as SVG and PNG" [ -s "$report/figures/$part.svg" ] && [ -s "$report/figures/$part.png" ]
    check "the page has $part" grep -q "<section id=\"$part\">" "$report/index.html"
done
check "maps other than softmax have a panel of their own" [ "$(grep -oE '>(temperatures|other maps|sparsemax|adaptive:hold)<' \
    "$report/figures/accuracy.svg" | tr -d '<>' | uniq | paste -sd,)" = 'adaptive:hold,temperatures,sparsemax,other maps' ]
check "the page has Table 1" grep -q '<section id="table1">' "$report/index.html"
check "the page says what differs" grep -q '<section id="differs">' "$report/index.html"
check "the page asks for nothing from elsewhere" [ "$(grep -oE '(src|href)="[^"]*"' "$report/index.html" |
    grep -cvE '="(#|data:|data/|figures/)')" -eq 0 ]
links_lead_somewhere() {
    local link
    for link in $(grep -oE 'href="(data|figures)/[^"]*"' "$report/index.html" | cut -d'"' -f2); do
        [ -s "$report/$link" ] || { echo "     $link"; return 1; }
    done
}
check "every link leads to a file" links_lead_somewhere
check "every part has its numbers" [ "$(grep -c 'href="data/' "$report/index.html")" -eq "$(grep -c '<section id="[a-z0-9-]*">' "$report/index.html" |
    awk '{ print $1 - 3 }')" ]
check "the verdict comes first on the page" [ "$(grep -oE '<section id="[a-z0-9]*"' "$report/index.html" | head -1)" = '<section id="verdict"' ]
check "then the contents, with every part" [ "$(sed -n '/<nav/,/<\/nav>/p' "$report/index.html" | grep -c '<li>')" -eq \
    "$(($(grep -c '<section id=' "$report/index.html") - 1))" ]
check "the page tells run time, machine and version" [ "$(grep -cE '<dt>(run time|machine|version)</dt>' "$report/index.html")" -eq 3 ]
check "the verdict is printed last" [ "$(tail -n 13 "$SCRATCH/out" | head -1)" = Verdict ]
check "a head of 40 steps reproduces no table" grep -Eq '^  Table 1 +not reproduced' "$SCRATCH/out"
check "what needs no head is reproduced" grep -Eq '^  Figure 5 +reproduced' "$SCRATCH/out"
check "the page says the same" grep -q '<a href="#table1">Table 1</a></th><td class="no">not reproduced</td>' "$report/index.html"
check "what takes long is left out" [ ! -e "$report/results/beyond.json" ]
check "which is printed" grep -q '^Left out because it takes long: beyond;' "$SCRATCH/out"
check "the manifest says that it is complete" grep -q '"complete": true' "$report/manifest.json"
check "results are JSON" python3 -c 'import json, sys; [json.load(open(f)) for f in sys.argv[1:]]' "$report"/results/*.json

# Results are used again: without checkpoints a run that trained would write them anew.
cp "$report/results/table1.json" "$SCRATCH/kept.json"
rm -r "$report/runs"
whet_given '' "${tiny[@]}" --out "$report"
check "the same command ends well again" [ "$status" -eq 0 ]
check "and trains nothing" [ ! -e "$report/runs" ]
check "Table 1 is what it was" cmp "$report/results/table1.json" "$SCRATCH/kept.json"
rm "$report/figures/figure1.svg" "$report/figures/figure5.svg"
check "some parts can be asked for" "$WHET_BIN" "${tiny[@]}" --out "$report" --only figure5
check "without a league its page has no link to one" [ -z "$(grep league/index.html "$report/index.html")" ]
mkdir "$report/league" && echo page >"$report/league/index.html"
"$WHET_BIN" "${tiny[@]}" --out "$report" --only figure5 >/dev/null
check "a league in its folder is linked" grep -q '<a href="league/index.html">The league' "$report/index.html"
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
    check "and a message that says how to go on" grep -q 'stopped; the same command continues from here' "$SCRATCH/err"
check "there is no table yet" [ ! -e "$SCRATCH/stopped/results/table1.json" ]
lines=$(wc -l <"$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl")
cp "$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl" "$SCRATCH/log"
check "the same command completes it" "$WHET_BIN" "${long[@]}"
check "going on where it was" cmp "$SCRATCH/log" <(head -n "$lines" "$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl")
check "to the end" [ "$(wc -l <"$SCRATCH/stopped/runs/bf16-products-4000/seed-0.jsonl")" -eq 41 ]

# The heads of the program, and one that is trained to show how.
own=$SCRATCH/own
whet_given '' reproduce --fresh-steps 200 --sets 2 --threads 1 --quiet --out "$own"
check "a report on the program's own heads is made" [ "$status" -eq 0 ]
check "of ten of them" grep -q '^Ours: mean of 10 heads' "$SCRATCH/out"
check "and only the fresh head is trained" [ "$(ls "$own/runs")" = fresh-200 ]
check "which is shown" grep -q '<section id="training">' "$own/index.html"
check "with its seed and steps" grep -q 'seed 10, 200 steps, trained here' "$own/index.html"
check "two sets are too few for a verdict on the table" grep -Eq '^  Table 1 +(in part|not reproduced)' "$SCRATCH/out"

# Work of more than 15 minutes is not begun without being asked for.
asked=(reproduce --full --out "$SCRATCH/long" --threads 1)
whet_given '' "${asked[@]}"
check "hours of work are refused where nobody can be asked" [ "$status" -eq 2 ]
check "with a sentence that names the time and the way out" grep -Eq \
    '^whet reproduce: this takes about ([0-9]+ h [0-9]+ min|[0-9]+ days) on this machine \(.*\); add --yes to start it$' "$SCRATCH/err"
check "and nothing is begun" [ ! -e "$SCRATCH/long" ]
"$WHET_BIN" "${asked[@]}" --yes --quiet >/dev/null 2>"$SCRATCH/err" &
process=$!
for _ in $(seq 600); do
    [ ! -e "$SCRATCH/long/manifest.json" ] || break
    sleep 0.05
done
kill -INT $process
wait $process
check "with --yes it is begun" [ -e "$SCRATCH/long/manifest.json" ]
if have script; then
    answer() { # y or n; a terminal asks
        rm -rf "$SCRATCH/asked"
        echo "$1" | timeout 20 script -qec "'$WHET_BIN' figure 8 --from '$SCRATCH/asked' --threads 1 --out '$SCRATCH/8.svg'" /dev/null >"$SCRATCH/out"
    }
    answer n
    check "a terminal is asked" grep -q 'Start? \[y/N\]' "$SCRATCH/out"
    check "and no is no" eval 'grep -q "whet figure: not started" "$SCRATCH/out" && [ ! -e "$SCRATCH/asked/runs" ]'
    answer y
    check "yes begins" [ -e "$SCRATCH/asked/runs" ]
    script -qec "'$WHET_BIN' reproduce --steps 60 --sets 32 --threads 1 --only table1,figure6 --out '$SCRATCH/parts'" /dev/null >"$SCRATCH/out"
    parts_told() { # of training and evaluation in bf16, of both in f32, and drawing
        grep -oE 'part [0-9] of [0-9], [^ ]+ (s|min).* left in all' "$SCRATCH/out" >/dev/null &&
            [ "$(grep -oE 'part [0-9] of [0-9]' "$SCRATCH/out" | sort -u | head -4 | paste -sd,)" = \
                'part 1 of 5,part 2 of 5,part 3 of 5,part 4 of 5' ]
    }
    check "progress is that of the whole, part by part" parts_told
else
    skip "a terminal is asked" "needs script"
fi

# Two runs in one folder.
in_use() {
    exec 9<"$report"
    flock -x 9
    "$WHET_BIN" "${tiny[@]}" --out "$report" --only figure5 >"$SCRATCH/out" 2>"$SCRATCH/err"
    local status=$?
    exec 9<&-
    [ $status -eq 1 ] && grep -qF "$report: in use by another run" "$SCRATCH/err"
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
