# shellcheck shell=bash
# Pages in headless Chromium, for tests that source check.sh first.

browse() { # [option ...] page; what the page says on its console goes to $SCRATCH/console
    timeout 240 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$SCRATCH/profile" --enable-logging=stderr --virtual-time-budget=10000 "$@" 2>"$SCRATCH/browser"
    local status=$?
    grep CONSOLE "$SCRATCH/browser" >"$SCRATCH/console"
    return $status
}

# What $SCRATCH/page.html, a page that looks at itself, writes into its <output>.
sees() { # [option ...]
    browse --dump-dom "$@" "file://$SCRATCH/page.html" | sed -n 's/.*<output>\(.*\)<\/output>.*/\1/p'
}

# The same at 380 pixels. Windows of a browser without a screen are at least 500 pixels wide; a frame can be narrower.
sees_narrow() {
    cp "$SCRATCH/page.html" "$SCRATCH/framed.html"
    cat >"$SCRATCH/frame.html" <<'PAGE'
<iframe src="framed.html" style="width:380px;height:900px;border:0" onload="setTimeout(() => {
    document.body.insertAdjacentHTML('beforeend', this.contentDocument.querySelector('output').outerHTML); }, 500)"></iframe>
PAGE
    browse --allow-file-access-from-files --dump-dom --window-size=800,900 "file://$SCRATCH/frame.html" |
        sed -n 's/.*<output>\(.*\)<\/output>.*/\1/p'
}
