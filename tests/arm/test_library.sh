#!/usr/bin/env bash
# Builds the library, its tests and the examples for 64-bit ARM (preset arm) and runs the tests of that build under qemu-user, as `make test-arm` does,
# where the cross compiler and the emulator are installed. Their cases are counted like this script's own.
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

needed() { command -v aarch64-linux-gnu-gcc && command -v qemu-aarch64; }
if ! needed >/dev/null; then
    skip "the tests pass on 64-bit ARM" "needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user (make setup-all)"
    finish
fi
if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "the tests pass on 64-bit ARM" "this build is instrumented ($WHET_INSTRUMENTED); the release build runs them"
    finish
fi

cd "$WHET_SOURCE_DIR" || exit 1
check "the cross build is configured" cmake --preset arm || finish
check "all of it is built for 64-bit ARM" cmake --build --preset arm || finish

check "a program runs" qemu-aarch64 -L /usr/aarch64-linux-gnu build/arm/examples/minimal

# Skipped cases are listed there under their program; here each gets a line of the usual form.
# Gradients take five minutes a program under emulation.
skip "gradients, maps and what goes with them on 64-bit ARM" "make test-arm runs them, in some 20 minutes"
skip "the plain C kernels on 64-bit ARM" "make test-arm runs them; here they are tested on the machine's own processor"
tools/run-tests.sh build/arm -E '^(attention|row)/(backward|maps|additions|compositions|row_extras)|^(attention|row)/.*@scalar' >"$SCRATCH/log" 2>&1
awk '/^skipped:$/ { listing = 1; next }
    listing && /^    / { print "skip " program ": " substr($0, 5); next }
    listing && /^  / { program = substr($0, 3); next }
    !/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/' "$SCRATCH/log"
read -r passed _ failed _ skipped _ < <(tail -n 1 "$SCRATCH/log")
if [[ "$passed $failed $skipped" =~ ^[0-9]+\ [0-9]+\ [0-9]+$ ]]; then
    n_passed=$((n_passed + passed)) n_failed=$((n_failed + failed)) n_skipped=$((n_skipped + skipped))
else
    fail "the tests run to their end"
fi
finish
