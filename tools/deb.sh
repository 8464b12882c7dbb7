#!/usr/bin/env bash
# Builds the Debian packages from the source archive and checks them with lintian.
#
#     tools/deb.sh [FOLDER]     default: build/deb
#
# The source package and the packages libwhet0.3, libwhet-dev, whet and ggml-whet are left in FOLDER, beside the log of the
# build (build.log). Fails if lintian reports an error; warnings are printed. The packages' own tests are left out unless
# DEB_BUILD_OPTIONS is set, even if empty: `make test` has run the same ones.
set -eu
folder=${1:-$(dirname "$0")/../build/deb}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."

rm -rf "$folder"/{whet,libwhet,ggml-whet}[_0-9-]*
archive=$(tools/dist.sh "$folder")
version=$(basename "$archive" .tar.xz)
version=${version#whet-}
mv "$archive" "$folder/whet_$version.orig.tar.xz"
tar -xf "$folder/whet_$version.orig.tar.xz" -C "$folder"

export DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS-nocheck}
if ! (cd "$folder/whet-$version" && dpkg-buildpackage --no-sign) >"$folder/build.log" 2>&1 </dev/null; then
    tail -n 40 "$folder/build.log"
    echo "deb: the build failed, see $folder/build.log" >&2
    exit 1
fi
rm -rf "${folder:?}/whet-$version"
lintian --fail-on error --allow-root --tag-display-limit 0 "$folder"/*.changes
ls "$folder"/*.deb
