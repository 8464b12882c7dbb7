#!/usr/bin/env bash
# Writes debian/libwhetVERSION.symbols, the list of exported functions for Debian's packages. `make abi` runs it.
#
#     tools/symbols.sh libwhet.so
#
# A function keeps the version it was first listed with; new ones get that of whet.h.
set -eu
library=$(realpath "$1")
cd "$(dirname "$0")/.."

version=$(sed -n 's/^#define WHET_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/whet.h | paste -s -d .)
soname=$(objdump -p "$library" | sed -n 's/^ *SONAME *//p')
file=debian/libwhet${soname#libwhet.so.}.symbols
touch "$file"
{
    echo "$soname $(basename "$file" .symbols) #MINVER#"
    echo "* Build-Depends-Package: libwhet-dev"
    nm -D --defined-only "$library" | awk -v version="$version" '
        NR == FNR { if (/@Base/) { since[$1] = $2 } next }
        { name = $3 "@Base"; print " " name " " (name in since ? since[name] : version) }' "$file" - | LC_ALL=C sort
} >"$file.new"
mv "$file.new" "$file"
