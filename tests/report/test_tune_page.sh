# The page of `whet tune --html` in a browser: well-formed, whole, and readable in wide and narrow windows, light and dark.
#
# WHET_KEEP_SCREENSHOTS=FOLDER keeps the page for people to look at.
. "${WHET_SOURCE_DIR:?}/tests/support/check.sh"
. "$WHET_SOURCE_DIR/tests/support/browse.sh"

have() { command -v "$1" >/dev/null 2>&1; }
if ! "${WHET_BIN:?}" lm train --layers 2 --width 16 --heads 2 --batch 8 --context 128 --algorithm minimum --steps 20 --quiet \
    --out "$SCRATCH/run" >/dev/null 2>"$SCRATCH/err" && grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "the page of whet tune" "needs libopenblas0"
    finish
fi

# Names that HTML would read as its own.
mkdir "$SCRATCH/learn" "$SCRATCH/<b>\"check"
for i in {1..400}; do echo "bfs $i: $((i * i % 97)) $((i * 7 % 31))"; done >"$SCRATCH/learn/it's.txt"
for i in {1..300}; do echo "minimum $i: $((i * i % 89)) $((i * 5 % 37))"; done >"$SCRATCH/<b>\"check/text.txt"
"$WHET_BIN" lm export "$SCRATCH/run" "$SCRATCH/model.gguf" >/dev/null
page=$SCRATCH/tuned.html
tune() { # [option ...]
    "$WHET_BIN" tune "$SCRATCH/model.gguf" --text "$SCRATCH/learn/it's.txt" --check "$SCRATCH/<b>\"check/text.txt" --context 256 \
        --rope linear:2 --seeds 2 --steps 6 --count 4 --check-count 6 --validation-count 4 --quiet --out "$SCRATCH/tuned.json" "$@"
}
tune --task copy --task-length 100 --html "$page" >"$SCRATCH/out" 2>"$SCRATCH/err"
status=$?
check "a page is written, whatever was found" [ $status -eq 0 -o $status -eq 3 ] || cat "$SCRATCH/err"
while IFS= read -r arm; do
    check "it has the arm '$arm'" grep -q "<th scope=\"row\">$arm<" "$page"
done <<<"$(sed -n '/^arm /,/^$/{/^arm /d;s/  .*//;s/, mean of.*//;/./p}' "$SCRATCH/out" | sort -u)"
check "with small print for repetitions" grep -q '<small>mean of 5</small>' "$page"
check "names are escaped" eval 'grep -q "&lt;b>&quot;check" "$page" && ! grep -q "<b>\"check" "$page"'
if have xmllint; then
    check "it is well-formed" xmllint --noout "$page"
else
    skip "it is well-formed" "needs libxml2-utils"
fi
check "a page goes to standard output, and nothing else" eval 'tune --html - >"$SCRATCH/-" 2>/dev/null; head -1 "$SCRATCH/-" | grep -q DOCTYPE'
tune --html "$SCRATCH/none/page.html" >/dev/null 2>"$SCRATCH/err"
check "a page that cannot be written is found out before any work" grep -q "none/page.html: cannot write" "$SCRATCH/err"

if ! have chromium; then
    skip "the page is shown by a browser" "needs chromium"
    finish
fi
cat >"$SCRATCH/look.js" <<'SCRIPT'
<script>function overlaps(figure) { // labels that lie over one another
    const boxes = [...figure.querySelectorAll('text')].map(text => text.getBoundingClientRect());
    return boxes.filter((a, i) => boxes.some((b, j) => j > i && a.left < b.right - 1 && b.left < a.right - 1 &&
        a.top < b.bottom - 5 && b.top < a.bottom - 5)).length;
}
addEventListener('load', () => {
    const figures = [...document.querySelectorAll('figure svg')];
    const rgb = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    document.body.insertAdjacentHTML('beforeend', '<output>figures ' + figures.length +
        ', shown ' + figures.filter(f => f.clientWidth > 700 && f.getBBox().width > 300).length +
        ', described ' + figures.filter(f => f.getAttribute('aria-label')).length +
        ', overlapping labels ' + figures.reduce((sum, f) => sum + overlaps(f), 0) +
        ', outside ' + figures.filter(f => { const b = f.getBBox(); return b.x < 0 || b.x + b.width > 821; }).length +
        ', requests ' + performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length +
        ', wider than the window ' + (document.documentElement.scrollWidth > innerWidth) +
        ', background ' + (rgb[0] + rgb[1] + rgb[2] > 384 ? 'light' : 'dark') + '</output>');
});</script>
SCRIPT
cat "$page" "$SCRATCH/look.js" >"$SCRATCH/page.html"
all='figures 5, shown 5, described 5, overlapping labels 0, outside 0, requests 0, wider than the window false'
seen=$(sees --window-size=1300,900)
check "every figure is shown, and nothing asked of others" [ "$seen" = "$all, background light" ] || echo "     $seen"
check "nothing is printed on the console" [ ! -s "$SCRATCH/console" ]
seen=$(sees --window-size=1300,900 --blink-settings=preferredColorScheme=0)
check "the page has a dark side" [ "$seen" = "$all, background dark" ] || echo "     $seen"
seen=$(sees --window-size=800,900)
check "it fits 800 pixels" [ "$seen" = "$all, background light" ] || echo "     $seen"
seen=$(sees_narrow)
check "and 380" [ "$seen" = "$all, background light" ] || echo "     $seen"

# That these checks would notice.
sed '0,/<\/svg>/s//<text x="300" y="200">one<\/text><text x="305" y="203">another<\/text><\/svg>/' "$page" | cat - "$SCRATCH/look.js" >"$SCRATCH/page.html"
seen=$(sees)
check "labels that overlap are noticed" grep -q 'overlapping labels 1' <<<"$seen" || echo "     $seen"
if [ -n "${WHET_KEEP_SCREENSHOTS:-}" ]; then
    cp "$page" "$WHET_KEEP_SCREENSHOTS/tune.html"
fi
finish
