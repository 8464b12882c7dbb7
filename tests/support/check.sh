# shellcheck shell=bash
# The harness of check.h for tests written in bash; sourced by them:
#
#     . "$WHET_SOURCE_DIR/tests/support/check.sh"
#     check "prints its version" [ "$("$WHET_BIN" --version)" = ... ]
#     skip "draws a page" "needs chromium"
#     finish
#
# A command's output is shown only where it fails. SCRATCH is a folder of the test's own, removed at the end.

n_passed=0 n_failed=0 n_skipped=0
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/whet-test.XXXXXX")
trap 'rm -rf "$SCRATCH"' EXIT

pass() {
    n_passed=$((n_passed + 1))
    printf 'ok   %s\n' "$1"
}

fail() { # name [details ...]
    n_failed=$((n_failed + 1))
    local name=$1
    shift
    [ $# -eq 0 ] || printf '%s\n' "$@" | sed 's/^/     /'
    printf 'FAIL %s\n' "$name"
}

skip() { # name reason
    n_skipped=$((n_skipped + 1))
    printf 'skip %s: %s\n' "$1" "$2"
}

check() { # name command [argument ...]; the status of check is that of the command
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        pass "$name"
    else
        fail "$name" "command: $*" "$output"
        return 1
    fi
}

finish() {
    printf '%d passed, %d failed, %d skipped\n' "$n_passed" "$n_failed" "$n_skipped"
    [ "$n_failed" -eq 0 ]
    exit
}
