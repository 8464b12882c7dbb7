#!/usr/bin/env bash
# `make deb` builds packages that lintian accepts, and that work in a fresh Debian: installed with apt into a root made by
# mmdebstrap from the mirrors that this system's apt uses.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "Debian packages are built" "this build is instrumented ($WHET_INSTRUMENTED); the release build tests them"
    finish
fi
for tool in dpkg-buildpackage dh lintian; do
    if ! command -v $tool >/dev/null; then
        skip "Debian packages are built" "needs dpkg-dev, debhelper and lintian (make setup-all)"
        finish
    fi
done
# A test must not change what `make deb` left in build/deb.
packages=$SCRATCH/packages
check "packages are built, and lintian reports no error" "$WHET_SOURCE_DIR/tools/deb.sh" "$packages" || finish

has_packages() {
    local name
    for name in "$@"; do
        ls "$packages/${name}_"*.deb || return 1
    done
    [ "$(find "$packages" -name '*.deb' -not -name '*-dbgsym_*' | wc -l)" -eq $# ]
}
library=$(sed -n 's/^Package: \(libwhet[0-9.]*\)$/\1/p' "$WHET_SOURCE_DIR/debian/control")
check "there are four packages" has_packages "$library" libwhet-dev whet ggml-whet

in_root=("packages install in a fresh root" "the installed program runs" "a program compiles with the installed library"
    "the plug-in is where the documentation says" "packages can be removed")
skip_in_root() { # reason
    local name
    for name in "${in_root[@]}"; do
        skip "$name" "$1"
    done
    finish
}
[ "$(id -u)" -eq 0 ] || skip_in_root "needs root"
command -v mmdebstrap >/dev/null || skip_in_root "needs mmdebstrap (make setup-all)"

# Debian's own repositories as this system's apt knows them, whatever the form of its lists.
apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
    awk -F '|' '$1 == "Debian" && $4 == "main" { print "deb", $2, $3, $4 }' | sort -u >"$SCRATCH/sources.list"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
grep -q " $suite main$" "$SCRATCH/sources.list" || skip_in_root "apt has no lists of Debian's repositories (apt-get update)"

root=$SCRATCH/root
make_root() {
    mmdebstrap --variant=minbase --include=gcc,libc6-dev,pkg-config \
        --customize-hook="mkdir \"\$1/packages\" && cp \"$packages\"/*.deb \"\$1/packages\" && rm -f \"\$1\"/packages/*dbgsym*" \
        "$suite" "$root" "$SCRATCH/sources.list"
}
if ! make_root >"$SCRATCH/root.log" 2>&1; then
    # Without a network the packages cannot be tested; any other error is one of this test.
    if grep -qE 'Could not resolve|Could not connect|Temporary failure|Connection (refused|timed out)' "$SCRATCH/root.log"; then
        skip_in_root "this system's mirrors cannot be reached"
    fi
    fail "a fresh root is made" "$(tail -n 20 "$SCRATCH/root.log")"
    finish
fi
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }

check "packages install in a fresh root" inside sh -c 'apt-get -qq -y install --no-install-recommends /packages/*.deb' || finish
program_runs() {
    [ "$(echo 1 1 | inside whet softmax)" = "0.5 0.5" ] && inside whet --version | grep -qF "$(dpkg-parsechangelog \
        -l "$WHET_SOURCE_DIR/debian/changelog" -S Version | sed 's/-[^-]*$//')"
}
check "the installed program runs" program_runs
program_compiles() {
    cp "$WHET_SOURCE_DIR/tests/install/consumer/main.c" "$root/main.c" &&
        inside sh -c 'cc /main.c $(pkg-config --cflags --libs whet) -o /shared && /shared &&
            cc /main.c $(pkg-config --cflags whet) -l:libwhet.a -lm -lpthread -o /static && /static'
}
check "a program compiles with the installed library" program_compiles
check "the plug-in is where the documentation says" inside sh -c 'ls /usr/lib/*/whet/libggml-whet.so && ldd /usr/lib/*/whet/libggml-whet.so'
removes() {
    inside sh -c 'dpkg --purge whet ggml-whet libwhet-dev libwhet0.3' && [ -z "$(inside find /usr -name '*whet*')" ]
}
check "packages can be removed" removes
finish
