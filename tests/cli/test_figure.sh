# whet figure: pictures that need no training, those that do, and what happens where gnuplot cannot help.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "a figure must be named" '' '' "whet figure: missing FIGURE; usage: whet figure [OPTION]... FIGURE\n" figure
refuses "an unknown one has a suggestion" '' '' "whet figure: unknown figure 'entrpy'; did you mean 'entropy'?\n" figure entrpy
refuses "a table is no figure" '' '' "whet figure: unknown figure 'table1'; 'whet figure --help' lists them\n" figure table1
refuses "figure 3 needs a model" '' '' "whet figure 3: missing MODEL; usage: whet figure 3 [OPTION]... MODEL.gguf\n" figure 3
whet_given '' figure 4
check "figure 4 is refused as a listing" grep -q 'figure 4 is a listing' "$SCRATCH/err"
refuses "pictures of other kinds are not made" '' '' \
    "whet figure: $SCRATCH/x.pdf: figures are written as .svg or .png\n" figure 5 --out "$SCRATCH/x.pdf"
refuses "too many seeds are refused" '' '' "whet figure: --num-seeds: 1,001 is out of range (1 to 1,000)\n" \
    figure 5 --seeds 1001

# Without gnuplot: a folder of programs that has none.
mkdir "$SCRATCH/bin"
(
    PATH=$SCRATCH/bin
    "$WHET_BIN" figure 5 --out "$SCRATCH/five.svg" >"$SCRATCH/out" 2>"$SCRATCH/err"
)
status=$?
ended_with "a missing gnuplot is a failure that names its package" 1 '' \
    'whet figure: gnuplot: cannot run: No such file or directory; install gnuplot-nox\n'
check "no picture is left then" [ -z "$(find "$SCRATCH" -name 'five*')" ]

# A gnuplot that fails, and one that leaves half a picture: what was there stays.
fake() { # what it does
    printf '#!/bin/sh\n%s\n' "$1" >"$SCRATCH/bin/gnuplot"
    chmod +x "$SCRATCH/bin/gnuplot"
}
echo before >"$SCRATCH/five.svg"
# shellcheck disable=SC2016 # for the script
fake 'echo "\"$1\" line 3: what is this?" >&2; exit 1'
(
    PATH=$SCRATCH/bin:$PATH
    "$WHET_BIN" figure 5 --out "$SCRATCH/five.svg" >"$SCRATCH/out" 2>"$SCRATCH/err"
)
status=$?
ended_with "what gnuplot complains of is passed on" 1 '' "whet figure: $SCRATCH/five.svg: cannot draw: gnuplot failed: line 3: what is this?\n"
fake 'echo "<svg>"'
(
    PATH=$SCRATCH/bin:$PATH
    "$WHET_BIN" figure 5 --out "$SCRATCH/five.svg" >"$SCRATCH/out" 2>"$SCRATCH/err"
)
status=$?
check "half a picture is a failure" [ "$status" -eq 1 ]
check "with a message that names the picture and nothing else" \
    [ "$(cat "$SCRATCH/err")" = "whet figure: $SCRATCH/five.svg: cannot write: gnuplot left it incomplete" ]
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
    check "with a title of its own" eval '! grep -q "<title>Gnuplot</title>" "$SCRATCH/$figure.svg" && grep -q "<title>" "$SCRATCH/$figure.svg"'
done
whet_given '' figure 5 --out "$SCRATCH/5.svg"
ended_with "what was drawn is printed" 0 "$SCRATCH/5.svg: Figure 5: entropy against temperature\n" ''
whet_given '' figure 5 --out "$SCRATCH/5.svg" --quiet
ended_with "unless that is not wanted" 0 '' ''
mkdir "$SCRATCH/linked" && echo before >"$SCRATCH/linked/five.svg"
ln -s "$SCRATCH/linked/five.svg" "$SCRATCH/link.svg"
check "a link is drawn to where it leads" "$WHET_BIN" figure 5 --quiet --out "$SCRATCH/link.svg"
check "and stays a link" [ -L "$SCRATCH/link.svg" ] && check "to a picture" is_svg "$SCRATCH/linked/five.svg"
ln -s "$SCRATCH/linked/new.svg" "$SCRATCH/dangling.svg"
check "a link to nothing is drawn to where it leads" "$WHET_BIN" figure 5 --quiet --out "$SCRATCH/dangling.svg"
check "and stays a link, too" [ -L "$SCRATCH/dangling.svg" ] && check "to a new picture" is_svg "$SCRATCH/linked/new.svg"
# Names and texts of files are never commands of gnuplot's or the shell's.
n=0
for name in "|touch run; cat >x #.svg" $'a\nsystem "touch run"\n#.svg' "it's \`touch run\`.svg" -x.svg; do
    n=$((n + 1))
    check "name $n that looks like a command is a name" "$WHET_BIN" figure 5 --quiet "--out=$name"
    check "of a picture" is_svg "./$name"
done
check "which runs nothing" [ ! -e run ]
check "a PNG is drawn too" "$WHET_BIN" figure 1 --out "$SCRATCH/one.png"
check "which is one" is_png "$SCRATCH/one.png"
check "of twice the size of the SVG" [ "$(python3 -c 'import struct, sys; print(*struct.unpack(">II", open(sys.argv[1], "rb").read()[16:24]))' \
    "$SCRATCH/one.png")" = '1600 1000' ]
check "an SVG has colours for dark windows" grep -q 'prefers-color-scheme:dark' "$SCRATCH/1.svg"
check "the usual name is that of the figure" "$WHET_BIN" figure 5
check "in the folder at hand" is_svg "$SCRATCH/figure5.svg"
check "no folder is made for what needs none" [ ! -e "$SCRATCH/report" ]
tiny=(--from "$SCRATCH/made" --steps 20 --sets 2 --threads 1 --quiet)
if "$WHET_BIN" figure 2 "${tiny[@]}" 2>"$SCRATCH/err" || ! grep -q 'no BLAS' "$SCRATCH/err"; then
    check "a figure of heads trains what it needs" is_svg "$SCRATCH/figure2.svg"
    check "its white cells are black in dark windows" grep -q 'g\[shape-rendering\]{filter:invert' "$SCRATCH/figure2.svg"
    check "those of other colours stay as they are" eval '! grep -q "filter:invert" "$SCRATCH/5.svg"'
    check "and keeps it" [ -e "$SCRATCH/made/runs/bf16-products-20/seed-0.ckpt" ]
    rm "$SCRATCH/made/runs/bf16-products-20/seed-0.ckpt"
    check "figure 7 is made from the same results" "$WHET_BIN" figure 7 "${tiny[@]}"
    check "without training again" [ ! -e "$SCRATCH/made/runs/bf16-products-20/seed-0.ckpt" ]
    # Figure 6 with shipped heads, whose best temperatures span four powers of ten.
    check "figure 6 is drawn" "$WHET_BIN" figure 6 --from "$SCRATCH/fitted" --sets 4 --threads 1 --quiet
    shows_every_set() { # a point for each, and one in the legend
        [ "$(grep -c "xlink:href='#gpPt6'" "$SCRATCH/figure6.svg")" -eq \
            "$(($(grep -o '"used": *true' "$SCRATCH/fitted/results/fit.json" | wc -l) + 1))" ]
    }
    check "no set lies outside its axes" shows_every_set
    # The options with which a report was made are those for what is drawn from it.
    "$WHET_BIN" reproduce --steps 30 --sets 3 --only table1 --threads 1 --quiet --out "$SCRATCH/made" >/dev/null
    check "a figure of a report is of its scale" "$WHET_BIN" figure accuracy --from "$SCRATCH/made" --quiet
    check "nothing else was trained" [ "$(ls "$SCRATCH/made/runs")" = "$(printf 'bf16-products-20\nbf16-products-30')" ]
    check "other options than the report's can be given" "$WHET_BIN" figure accuracy --from "$SCRATCH/made" --steps 10 --quiet
    check "and are used" [ -e "$SCRATCH/made/runs/bf16-products-10" ]
    # A report's results may be damaged or hostile.
    python3 - "$SCRATCH/made/results" <<'END'
import json, pathlib, sys
for path in pathlib.Path(sys.argv[1]).glob("*.json"):
    text = path.read_text().replace('"policy": "adaptive"', '"policy": ' + json.dumps("x'\nsystem \"touch run\"\n#"))
    path.write_text(text.replace("fixed:16", 'fixed:1\\nEND\\nsystem \\"touch run\\"\\n'))
END
    check "results that were changed are made again" "$WHET_BIN" figure accuracy --from "$SCRATCH/made" --quiet
    check "and say what they should" grep -q '"policy": "adaptive"' "$SCRATCH"/made/results/evaluation-*.json
    check "nothing in them is run" [ ! -e run ]
    echo '{"options": {"seeds": -4}}' >"$SCRATCH/made/manifest.json"
    refuses "a manifest that is none is refused" '' '' \
        "whet figure: $SCRATCH/made/manifest.json: not a manifest of 'whet reproduce'\n" \
        figure accuracy --from "$SCRATCH/made"
else
    skip "a figure of heads trains what it needs" "needs libopenblas0"
fi
whet_given '' figure 5 --out /dev/null/x.svg
check "a picture that cannot be written is a failure" [ "$status" -eq 1 ]
check "that names it, and no other" [ "$(cat "$SCRATCH/err")" = "whet figure: /dev/null/x.svg: cannot write: Not a directory" ]
finish
