# whet demo: the table, the chart, the picture.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

whet_given '' demo
cp "$SCRATCH/out" "$SCRATCH/plain"
check "the demo runs" [ "$status" -eq 0 ]
check "the demo complains of nothing" [ ! -s "$SCRATCH/err" ]
check "no line is wider than 80 columns" awk 'length > 80 { exit 1 }' "$SCRATCH/plain"
check "no line ends in blanks" awk '/ $/ { exit 1 }' "$SCRATCH/plain"
only_ascii() { ! LC_ALL=C grep -q '[^ -~]' "$1"; }
check "without UTF-8 it is plain ASCII" only_ascii "$SCRATCH/plain"
for n in 16 32 64 128 256 512 1,024 2,048 4,096 8,192 16,384 32,768 65,536 131,072; do
    check "the table has n = $n" grep -Eq "^ *$n +[0-9.]+( +[0-9.]+)+$" "$SCRATCH/plain"
done
for policy in softmax adaptive adaptive:hold length:16 exp:0.5 target:0.5 topk:8; do
    check "the legend has $policy" grep -q "[A-Z] $policy" "$SCRATCH/plain"
done
check "it says over how many sets figures are means" grep -q 'means over random sets: 512 for n = 16, 16 for n = 131,072' "$SCRATCH/plain"
disperses() {
    awk '$1 == "16" && NF > 4 && !first { first = 1; sharp = $2 < 1 && $3 > 80 }
         $1 == "131,072" && NF > 4 { washed_out = $2 > 6 && $3 < 1; kept = $8 > 50 }
         END { exit !(sharp && washed_out && kept) }' "$SCRATCH/plain"
}
check "the head is sharp at 16 and washed out at 131,072, where target keeps it" disperses

whet_given '' demo
check "the demo is the same every time" cmp "$SCRATCH/out" "$SCRATCH/plain"
whet_given '' demo --seed=2
check "another seed draws other sets" [ "$status" -eq 0 ]
differs() { ! cmp -s "$SCRATCH/out" "$SCRATCH/plain"; }
check "another seed shows other figures" differs

if locale -a 2>/dev/null | grep -qi '^C\.utf-\?8$'; then
    LC_ALL=C.UTF-8 whet_given '' demo
    check "with UTF-8 curves are drawn in braille" grep -q "$(printf '\342\240')" "$SCRATCH/out"
    fits() {
        local line LC_ALL=C.UTF-8 # in which ${#line} counts characters
        while IFS= read -r line; do
            [ ${#line} -le 80 ] || return 1
        done <"$SCRATCH/out"
    }
    check "with UTF-8 no line is wider than 80 columns" fits
else
    skip "with UTF-8 curves are drawn in braille" "needs the locale C.UTF-8"
fi

escape=$(printf '\033')
if have script && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    on_terminal() { # environment assignments and arguments, as one shell command
        script -qec "$1" /dev/null </dev/null >"$SCRATCH/out" 2>&1
    }
    has_color() { grep -q "$escape\[3" "$SCRATCH/out"; }
    has_no_color() { ! grep -q "$escape" "$SCRATCH/out"; }
    on_terminal "TERM=xterm '$WHET_BIN' demo"
    check "a terminal gets colours" has_color
    on_terminal "stty cols 60; TERM=dumb '$WHET_BIN' demo"
    has_no_chart() { ! grep -q 'logarithmic' "$SCRATCH/out" && grep -q 'chart needs a terminal' "$SCRATCH/out"; }
    check "a narrow terminal gets no chart and a note" has_no_chart
    on_terminal "stty cols 80; TERM=dumb '$WHET_BIN' demo"
    check "a terminal of 80 columns gets the chart" grep -q 'logarithmic' "$SCRATCH/out"
    on_terminal "TERM=xterm '$WHET_BIN' demo --no-color"
    check "--no-color takes colours away" has_no_color
    on_terminal "TERM=xterm NO_COLOR=1 '$WHET_BIN' demo"
    check "NO_COLOR takes colours away" has_no_color
    on_terminal "TERM=xterm NO_COLOR= '$WHET_BIN' demo"
    check "an empty NO_COLOR does not" has_color
    on_terminal "TERM=dumb '$WHET_BIN' demo"
    check "a dumb terminal gets no colours" has_no_color
else
    skip "a terminal gets colours" "needs script"
fi

# Many policies, with long names: several tables, still no wider.
arguments=()
while read -r name; do
    arguments+=(--policy "$name")
done < <("$WHET_BIN" policies --names)
whet_given '' demo "${arguments[@]}"
check "all policies together are shown" [ "$status" -eq 0 ]
check "all policies together fit 80 columns" awk 'length > 80 { exit 1 }' "$SCRATCH/out"
check "one policy alone is shown" "$WHET_BIN" demo --policy hardmax
whet_given '' demo --policy softmax --policy adaptive+entmax15 --policy length:16+topk:8
check "compositions are shown" [ "$status" -eq 0 ]
check "names of compositions are broken before the plus and not cut" grep -q '^ *+entmax15 *:16$' "$SCRATCH/out"
check "the legend names compositions" grep -q 'B adaptive+entmax15' "$SCRATCH/out"
long=poly:0.00000000001/0.0000000002/0.0000000003/0.000004:threshold=0.123456:floor=1.0:hold=4.123456789012345
whet_given '' demo --policy "$long"
check "a very long name fits too" awk 'length > 125 || (!/^ *A poly/ && length > 80) { exit 1 }' "$SCRATCH/out"

# The picture.
picture=$SCRATCH/picture.svg
whet_given '' demo --svg "$picture"
ended_with "--svg prints nothing" 0 '' ''
check "the picture is complete" grep -q '^</svg>$' "$picture"
if have python3; then
    check "the picture is well-formed XML" python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$picture"
else
    skip "the picture is well-formed XML" "needs python3"
fi
if have rsvg-convert; then
    check "the picture can be rendered" rsvg-convert -o "$SCRATCH/picture.png" "$picture"
else
    skip "the picture can be rendered" "needs rsvg-convert"
fi
whet_given '' demo --svg -
check "a dash writes the picture to standard output" cmp "$SCRATCH/out" "$picture"
whet_given '' demo --svg "$SCRATCH/all.svg" "${arguments[@]}"
check "a picture of all policies is complete" grep -q '^</svg>$' "$SCRATCH/all.svg"
left_over() { find "$SCRATCH" -name '*.tmp'; }
check "no temporary file is left" [ -z "$(left_over)" ]

chmod 640 "$picture"
echo old >"$picture"
ln -s picture.svg "$SCRATCH/link.svg"
whet_given '' demo --svg "$SCRATCH/link.svg"
check "a link is followed and stays" [ -L "$SCRATCH/link.svg" ]
check "what the link points to is replaced" grep -q '^</svg>$' "$picture"
check "its permissions stay" [ "$(stat -c %a "$picture" 2>/dev/null || stat -f %Lp "$picture")" = 640 ]

whet_given '' demo --policy softmax --svg "$SCRATCH/none/picture.svg"
ended_with "a folder that is not there is reported" 1 '' "whet demo: $SCRATCH/none/picture.svg: cannot write: No such file or directory\n"
mkdir "$SCRATCH/folder.svg"
whet_given '' demo --policy softmax --svg "$SCRATCH/folder.svg"
ended_with "a folder is no place for a picture" 1 '' "whet demo: $SCRATCH/folder.svg: cannot write: Is a directory\n"
for file in chart.gif chart .svg; do
    refuses "'$file' is no name of an SVG picture" '' '' "whet demo: $file: charts are written as .svg\n" demo --out "$file"
done
ln -s /dev/null "$SCRATCH/device.svg"
whet_given '' demo --policy softmax --svg "$SCRATCH/device.svg"
check "a device is not replaced" [ -c /dev/null ]
check "a device is refused" [ "$status" -eq 1 ]
echo precious >"$SCRATCH/precious.svg"
(
    ulimit -f 1 # blocks of 512 or 1024 bytes: less than a picture
    "$WHET_BIN" demo --policy softmax --policy hardmax --svg "$SCRATCH/precious.svg" 2>"$SCRATCH/err"
)
status=$?
check "a picture that cannot be written whole is an error" [ "$status" -eq 1 ]
check "the reason is printed" grep -q "^whet demo: $SCRATCH/precious.svg: cannot write: File too large" "$SCRATCH/err"
check "the old picture is still there" grep -qx precious "$SCRATCH/precious.svg"
check "the attempt leaves no temporary file" [ -z "$(left_over)" ]
finish
