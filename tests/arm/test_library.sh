#!/usr/bin/env bash
# Builds the library, its tests and the examples for 64-bit ARM (preset arm) and runs the tests of that build under qemu-user,
# as `make test-arm` does, where the cross compiler and the emulator are installed. Counts their cases like its own.
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

# Gradients take five minutes per program under emulation.
skip "gradients, maps and what goes with them on 64-bit ARM" "make test-arm runs them, about 20 minutes"
skip "the plain C kernels on 64-bit ARM" "make test-arm runs them; make test covers them on this processor"
run_counted tools/run-tests.sh build/arm \
    -E '^(attention|row)/(backward|maps|additions|compositions|row_extras)|^(attention|row)/.*@scalar'
finish
