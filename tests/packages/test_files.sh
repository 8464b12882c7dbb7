#!/usr/bin/env bash
# What the Debian packages declare agrees with the version, the library and the changelog.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

cd "$WHET_SOURCE_DIR" || exit 1
version=$(sed -n 's/^#define WHET_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/whet.h | paste -s -d .)
case $version in
0.*) interface=${version%.*} ;;
*) interface=${version%%.*} ;;
esac

check "debian/changelog begins with the version of whet.h" grep -qx "whet ($version-[0-9]*) .*" <(head -n 1 debian/changelog)
check "the library's package is named after the soname" grep -qx "Package: libwhet$interface" debian/control
check "CHANGELOG.md has a dated section of the version" grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md
check "the release checklist names the tag of the version" grep -q "v$version" docs/RELEASING.md

dates_fall() {
    sed -n 's/^## \[[0-9.]*\] - //p' CHANGELOG.md >"$SCRATCH/dates"
    [ "$(wc -l <"$SCRATCH/dates")" -ge 3 ] && sort -r -c "$SCRATCH/dates"
}
check "the sections of CHANGELOG.md are dated, newest first" dates_fall

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "the symbols file lists the exported functions" "this build is instrumented ($WHET_INSTRUMENTED)"
    finish
fi
symbols_agree() {
    diff <(sed -n 's/^ \(whet_[a-z0-9_]*\)@Base .*/\1/p' "debian/libwhet$interface.symbols" | LC_ALL=C sort) \
        <(nm -D --defined-only "$WHET_LIB" | awk '{ print $3 }' | LC_ALL=C sort)
}
check "the symbols file lists the exported functions (make abi writes it)" symbols_agree
finish
