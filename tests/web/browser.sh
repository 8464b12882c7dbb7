# shellcheck shell=bash
# For tests that drive Chromium from Node.

need_browser() { # what
    if ! command -v chromium >/dev/null || [ ! -d "$WHET_SOURCE_DIR/build/playwright/node_modules/playwright-core" ]; then
        skip "$1" "needs chromium and playwright-core (make setup-all)"
        finish
    fi
}
