# whet figure: pictures that need no training, those that do, and what happens where gnuplot cannot help.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "a figure must be named" '' '' "whet: figure: which one? 'whet figure --help' lists them\n" figure
refuses "an unknown one has a suggestion" '' '' "whet: figure: no figure 'entrpy'; did you mean 'entropy'?\n" figure entrpy
refuses "a table is no figure" '' '' "whet: figure: no figure 'table1'; 'whet figure --help' lists them\n" figure table1
refuses "figure 3 needs a model" '' '' "whet: figure 3: which model? -m MODEL.gguf\nTry 'whet figure 3 --help'.\n" figure 3
for number in 8 figure9; do
    refuses "figure ${number#figure} tells which command" '' '' \
        "whet: figure: figures 8 and 9 are about CLRS-Text: 'whet reproduce --only clrs' will make them\n" figure $number
done
whet_given '' figure 4
check "figure 4 is told to be a listing" grep -q 'figure 4 is a listing' "$SCRATCH/err"
refuses "pictures of other kinds are not made" '' '' \
    "whet: figure: $SCRATCH/x.pdf: a figure is written as .svg or .png\n" figure 5 --out "$SCRATCH/x.pdf"
refuses "too many seeds are refused" '' '' 'whet: figure: --seeds must be from 1 to 1000\n' figure 5 --seeds 1001

# Without gnuplot: a folder of programs that has none.
mkdir "$SCRATCH/bin"
(
    PATH=$SCRATCH/bin
    "$WHET_BIN" figure 5 --out "$SCRATCH/five.svg" >"$SCRATCH/out" 2>"$SCRATCH/err"
)
status=$?
ended_with "a missing gnuplot is a failure that names its package" 1 '' \
    'whet: figure: cannot run gnuplot (No such file or directory); Debian'"'"'s package is gnuplot-nox\n'
check "no picture is left then" [ -z "$(find "$SCRATCH" -name 'five*')" ]

# A gnuplot that fails, and one that leaves half a picture: what was there stays.
fake() { # what it does
    printf '#!/bin/sh\n%s\n' "$1" >"$SCRATCH/bin/gnuplot"
    chmod +x "$SCRATCH/bin/gnuplot"
}
echo before >"$SCRATCH/five.svg"
fake 'echo "line 3: what is this?" >&2; exit 1'
(
    PATH=$SCRATCH/bin:$PATH
    "$WHET_BIN" figure 5 --out "$SCRATCH/five.svg" >"$SCRATCH/out" 2>"$SCRATCH/err"
)
status=$?
ended_with "what gnuplot complains of is passed on" 1 '' 'whet: figure: gnuplot failed: line 3: what is this?\n'
# shellcheck disable=SC2016 # for the script
fake 'output=$(sed -n "s/^set output .\(.*\).$/\1/p" "$1"); echo "<svg>" >"$output"'
(
    PATH=$SCRATCH/bin:$PATH
    "$WHET_BIN" figure 5 --out "$SCRATCH/five.svg" >"$SCRATCH/out" 2>"$SCRATCH/err"
)
status=$?
check "half a picture is a failure" [ "$status" -eq 1 ]
check "with a message" grep -q 'gnuplot left it incomplete' "$SCRATCH/err"
check "and the earlier one stays" [ "$(cat "$SCRATCH/five.svg")" = before ]
check "with nothing beside it" [ "$(find "$SCRATCH" -name 'five*' | wc -l)" -eq 1 ]

if ! have gnuplot; then
    skip "everything that draws" "needs gnuplot-nox"
    finish
fi
is_svg() { python3 -c 'import sys, xml.dom.minidom as dom; assert dom.parse(sys.argv[1]).documentElement.tagName == "svg"' "$1"; }
is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]; }
cd "$SCRATCH" || exit 1
for figure in 1 5 policies; do
    check "figure $figure is drawn without training" "$WHET_BIN" figure $figure --out "$SCRATCH/$figure.svg"
    check "as SVG that is whole" is_svg "$SCRATCH/$figure.svg"
done
check "a PNG is drawn too" "$WHET_BIN" figure 1 --out "$SCRATCH/one.png"
check "which is one" is_png "$SCRATCH/one.png"
check "the usual name is that of the figure" "$WHET_BIN" figure 5
check "in the folder at hand" is_svg "$SCRATCH/figure5.svg"
check "no folder is made for what needs none" [ ! -e "$SCRATCH/report" ]
tiny=(--from "$SCRATCH/made" --steps 20 --sets 2 --threads 1 --quiet)
if "$WHET_BIN" figure 2 "${tiny[@]}" 2>"$SCRATCH/err" || ! grep -q 'no BLAS' "$SCRATCH/err"; then
    check "a figure of heads trains what it needs" is_svg "$SCRATCH/figure2.svg"
    check "and keeps it" [ -e "$SCRATCH/made/runs/bf16-20/seed-0.ckpt" ]
    rm "$SCRATCH/made/runs/bf16-20/seed-0.ckpt"
    check "figure 7 is made from the same results" "$WHET_BIN" figure 7 "${tiny[@]}"
    check "without training again" [ ! -e "$SCRATCH/made/runs/bf16-20/seed-0.ckpt" ]
else
    skip "a figure of heads trains what it needs" "needs libopenblas0"
fi
whet_given '' figure 5 --out /dev/null/x.svg
check "a picture that cannot be written is a failure" [ "$status" -eq 1 ]
check "that names it" grep -q '/dev/null/x.svg' "$SCRATCH/err"
finish
