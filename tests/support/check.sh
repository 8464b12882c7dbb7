# shellcheck shell=bash
# The harness of check.h for tests written in bash, which source it:
#
#     . "$WHET_SOURCE_DIR/tests/support/check.sh"
#     check "prints its version" [ "$("$WHET_BIN" --version)" = ... ]
#     skip "draws a page" "needs chromium"
#     finish
#
# A command's output is printed only if it fails. SCRATCH is a temporary folder of the test, removed at the end.

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

# Runs a command that ends with a count, such as tools/run-tests.sh, and adds its cases to this script's. Cases that it
# skipped, which it lists under their program, get a line of the usual form.
run_counted() { # command [argument ...]
    local passed failed skipped
    "$@" >"$SCRATCH/counted.log" 2>&1
    awk '/^skipped:$/ { listing = 1; next }
        listing && /^    / { print "skip " program ": " substr($0, 5); next }
        listing && /^  / { program = substr($0, 3); next }
        !/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/' "$SCRATCH/counted.log"
    read -r passed _ failed _ skipped _ < <(tail -n 1 "$SCRATCH/counted.log")
    if [[ "$passed $failed $skipped" =~ ^[0-9]+\ [0-9]+\ [0-9]+$ ]]; then
        n_passed=$((n_passed + passed)) n_failed=$((n_failed + failed)) n_skipped=$((n_skipped + skipped))
    else
        fail "the tests run to their end"
    fi
}

finish() {
    printf '%d passed, %d failed, %d skipped\n' "$n_passed" "$n_failed" "$n_skipped"
    [ "$n_failed" -eq 0 ]
    exit
}
