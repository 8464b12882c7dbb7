#!/usr/bin/env bash
# The source archive builds and passes its tests without git. Counts the archive's test cases like its own.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "the source archive passes its tests" "this build is instrumented ($WHET_INSTRUMENTED); the release build tests it"
    finish
fi
check "an archive is made" "$WHET_SOURCE_DIR/tools/dist.sh" "$SCRATCH" || finish
check "it can be unpacked" tar -xf "$SCRATCH"/whet-*.tar.xz -C "$SCRATCH" || finish
cd "$SCRATCH"/whet-*/ || exit 1

# A git that always fails, in front of the real one.
mkdir "$SCRATCH/bin"
printf '#!/bin/sh\necho "git is not available" >&2\nexit 127\n' >"$SCRATCH/bin/git"
chmod +x "$SCRATCH/bin/git"
export PATH=$SCRATCH/bin:$PATH

# The hosts of the plug-in are downloads, not sources: those of this checkout will do.
mkdir build
for host in "$WHET_SOURCE_DIR"/build/llama.cpp*; do
    [ ! -e "$host" ] || ln -s "$host" build/
done
unset WHET_BUILD_DIR WHET_BIN WHET_LIB WHET_PLUGIN
check "it builds" bash -c 'cmake --preset release && cmake --build --preset release' || finish
run_counted tools/run-tests.sh build/release -LE '^long$' -E '^install/install$'
finish
