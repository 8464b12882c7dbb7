#!/usr/bin/env bash
# The source archive of `make dist` is reproducible and complete, and can be made again from an unpacked copy.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

version=$(sed -n 's/^#define WHET_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$WHET_SOURCE_DIR/include/whet.h" | paste -s -d .)
archive=whet-$version.tar.xz
unset SOURCE_DATE_EPOCH

check "an archive is made" "$WHET_SOURCE_DIR/tools/dist.sh" "$SCRATCH/one" || finish
check "it is named after the version" [ -f "$SCRATCH/one/$archive" ] || finish

names() { tar -tf "$1" | sed "s,^whet-$version/,,"; }
has_no_owner_and_one_time() {
    tar --full-time --numeric-owner -tvf "$SCRATCH/one/$archive" | awk '{ print $2, $4, $5 }' | sort | uniq -c >"$SCRATCH/owners"
    cat "$SCRATCH/owners"
    [ "$(wc -l <"$SCRATCH/owners")" -eq 1 ] && grep -q ' 0/0 ' "$SCRATCH/owners"
}
check "its files have no owner and one modification time" has_no_owner_and_one_time
check "its names are sorted" bash -c 'names=$(tar -tf "$0") && [ "$names" = "$(LC_ALL=C sort <<<"$names")" ]' "$SCRATCH/one/$archive"

in_git() { [ "$(cd "$WHET_SOURCE_DIR" && git rev-parse --show-prefix 2>/dev/null && echo found)" = $'\nfound' ]; }
if in_git; then
    has_what_is_tracked() { diff <(cd "$WHET_SOURCE_DIR" && git ls-files --cached --deduplicate | LC_ALL=C sort) <(names "$SCRATCH/one/$archive"); }
    check "it has every tracked file and no other" has_what_is_tracked
else
    skip "it has every tracked file and no other" "needs a git checkout"
fi

# From a copy at another place, with other modes and without git.
again_from_a_copy() {
    mkdir "$SCRATCH/copy" && tar -xf "$SCRATCH/one/$archive" -C "$SCRATCH/copy" || return 1
    local copy=$SCRATCH/copy/whet-$version
    chmod -R o-r "$copy"
    mkdir "$copy/build" && touch "$copy/build/not-a-source"
    (umask 077 && GIT_CEILING_DIRECTORIES=$SCRATCH/copy "$copy/tools/dist.sh" "$SCRATCH/two") || return 1
    cmp "$SCRATCH/one/$archive" "$SCRATCH/two/$archive"
}
check "an unpacked copy makes the same archive, byte for byte" again_from_a_copy
check "SOURCE_DATE_EPOCH sets the modification time" bash -c '
    SOURCE_DATE_EPOCH=86400 "$0"/tools/dist.sh "$1" && TZ=UTC tar -tvf "$1"/*.xz | grep -c "1970-01-02 00:00" >"$1/count" &&
        [ "$(cat "$1/count")" -eq "$(tar -tf "$1"/*.xz | wc -l)" ]' "$WHET_SOURCE_DIR" "$SCRATCH/three"
finish
