# The report in a browser: a small one is made and shown by headless Chromium, in the light and in the dark.
#
# WHET_KEEP_SCREENSHOTS=FOLDER keeps the pictures of the page for people to look at.
. "${WHET_SOURCE_DIR:?}/tests/support/check.sh"

have() { command -v "$1" >/dev/null 2>&1; }
if ! have chromium || ! have gnuplot; then
    skip "the report is shown by a browser" "needs chromium and gnuplot-nox"
    finish
fi
report=$SCRATCH/report
if ! "${WHET_BIN:?}" reproduce --steps 40 --sets 4 --threads 1 --quiet --out "$report" >/dev/null 2>"$SCRATCH/err" &&
    grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "the report is shown by a browser" "needs libopenblas0"
    finish
fi
"$WHET_BIN" reproduce --steps 40 --sets 4 --threads 1 --quiet --only beyond --out "$report" >/dev/null

. "$WHET_SOURCE_DIR/tests/support/browse.sh"

# A copy of the page that looks at itself once everything is loaded, and writes down what it sees.
cat >"$SCRATCH/look.js" <<'SCRIPT'
<script>function rowNames() { // where they are once the table is scrolled to its right end
    const wide = document.querySelector('#table1 .wide'), name = wide.querySelector('tbody th');
    wide.scrollLeft = wide.scrollWidth;
    return name.getBoundingClientRect().left - wide.getBoundingClientRect().left < 5 ? 'fixed' : 'scroll away';
}
addEventListener('load', () => {
    const pictures = [...document.querySelectorAll('figure img, figure .drawn')]; // as they are, or drawn by the page's script
    const isShown = p => p.shadowRoot ? p.shadowRoot.querySelector('svg').clientWidth > 200 : p.complete && p.naturalWidth > 0;
    const rgb = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    document.body.insertAdjacentHTML('beforeend', '<output>pictures ' + pictures.length +
        ', shown ' + pictures.filter(p => isShown(p) && p.clientWidth > 200).length +
        ', described ' + pictures.filter(p => p.alt || p.ariaLabel).length +
        ', requests ' + performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length +
        ', wider than the window ' + (document.documentElement.scrollWidth > innerWidth) +
        ', pictures at least ' + Math.min(...pictures.map(p => p.clientWidth)) + ' wide' +
        ', text wrapped ' + [...document.querySelectorAll('pre')].some(p => getComputedStyle(p).whiteSpace !== 'pre') +
        ', hints ' + [...document.querySelectorAll('.hint')].filter(h => h.clientHeight > 0).length +
        ', row names ' + rowNames() +
        ', background ' + (rgb[0] + rgb[1] + rgb[2] > 384 ? 'light' : 'dark') + '</output>');
});</script>
SCRIPT
cat "$report/index.html" "$SCRATCH/look.js" >"$SCRATCH/page.html"
all='pictures 11, shown 11, described 11, requests 0, wider than the window false'
wide='text wrapped false, hints 0, row names fixed'
narrow='text wrapped false, hints 2, row names fixed'
seen=$(sees --window-size=1300,900)
check "every picture is shown, and nothing asked of others" \
    [ "$seen" = "$all, pictures at least 990 wide, $wide, background light" ] || echo "     $seen"
check "nothing is printed on the console" [ ! -s "$SCRATCH/console" ]
seen=$(sees --window-size=1300,900 --blink-settings=preferredColorScheme=0)
check "the page has a dark side" [ "$seen" = "$all, pictures at least 990 wide, $wide, background dark" ] || echo "     $seen"
seen=$(sees --window-size=800,900)
check "at 800 pixels pictures fill the window, and tables have a hint" \
    [ "$seen" = "$all, pictures at least 760 wide, $narrow, background light" ] || echo "     $seen"

seen=$(sees_narrow)
check "at 380 pixels the page does not scroll sideways, and pictures stay readable" \
    [ "$seen" = "$all, pictures at least 704 wide, $narrow, background light" ] || echo "     $seen"

# That these checks would notice.
sed 's/data:image\/svg+xml;base64,P/data:image\/svg+xml;base64,Q/' "$SCRATCH/page.html" >"$SCRATCH/broken.html"
echo '<script>undefined_function()</script>' >>"$SCRATCH/broken.html"
mv "$SCRATCH/broken.html" "$SCRATCH/page.html"
seen=$(sees)
check "a broken picture is noticed" grep -q 'pictures 11, shown 0' <<<"$seen" || echo "     $seen"
check "so is an error on the console" grep -q 'undefined_function is not defined' "$SCRATCH/console"

picture() { # name size [option ...]
    local name=$1 size=$2
    shift 2
    browse "$@" --window-size="$size" --screenshot="$SCRATCH/$name.png" "file://$report/index.html" &&
        [ "$(head -c 4 "$SCRATCH/$name.png" | tail -c 3)" = PNG ]
}
dark=--blink-settings=preferredColorScheme=0
check "a picture of the page is taken" picture light 1200,10500
check "and one in the dark" picture dark 1200,10500 $dark
check "which is another" [ "$(cmp "$SCRATCH/light.png" "$SCRATCH/dark.png" 2>&1 | wc -l)" -eq 1 ]
check "and both of a narrow window" eval 'picture narrow-light 420,12500 && picture narrow-dark 420,12500 $dark'
if [ -n "${WHET_KEEP_SCREENSHOTS:-}" ]; then
    cp "$SCRATCH"/{light,dark,narrow-light,narrow-dark}.png "$WHET_KEEP_SCREENSHOTS"
fi

if command -v node >/dev/null && [ -d "$WHET_SOURCE_DIR/build/playwright/node_modules/playwright-core" ]; then
    cd "$WHET_SOURCE_DIR" || exit 1
    run_counted node tests/web/report.mjs "$report"
else
    skip "hovering shows numbers" "needs playwright-core (make setup-all)"
fi
finish
