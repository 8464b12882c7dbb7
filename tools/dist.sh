#!/usr/bin/env bash
# Writes the source archive whet-VERSION.tar.xz and prints its path.
#
#     tools/dist.sh [FOLDER]     default: build/dist
#
# The archive is reproducible: sorted names, no owner, one modification time for all files. The time is SOURCE_DATE_EPOCH if
# set, else that of the last commit. In a git checkout the archive has the tracked files as they are on disk; in an unpacked
# archive, which has no git history, it has every file but build/ and report/, and the time of CHANGELOG.md.
set -euo pipefail
folder=${1:-$(dirname "$0")/../build/dist}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."

version=$(sed -n 's/^#define WHET_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)$/\2/p' include/whet.h | paste -s -d .)
files=$(mktemp)
archive=$(mktemp "$folder/dist.XXXXXX")
trap 'rm -f "$files" "$archive"' EXIT

# A checkout inside another project's repository is not ours to ask git about.
if [ "$(git rev-parse --show-prefix 2>/dev/null && echo found)" = $'\nfound' ]; then
    # Deleted files are still tracked until the deletion is staged.
    git ls-files -z | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done >"$files"
    time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
    [ -z "$(git status --porcelain --untracked-files=no)" ] || echo "dist: the archive includes uncommitted changes" >&2
else
    find . \( -path ./build -o -path ./report -o -path ./.git -o -path ./.pc \) -prune -o \( -type f -o -type l \) -printf '%P\0' >"$files"
    time=${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}
fi

# One thread: xz cuts its blocks by the number of threads.
LC_ALL=C sort -z "$files" |
    tar --create --no-recursion --format=gnu --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go=rX \
        --transform="s,^,whet-$version/,SH" --null --files-from=- | xz -6 --threads=1 >"$archive"
chmod 644 "$archive"
mv "$archive" "$folder/whet-$version.tar.xz"
echo "$folder/whet-$version.tar.xz"
