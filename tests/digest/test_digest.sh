#!/usr/bin/env bash
# tools/digest: output, differences found, and refusals.
. "$WHET_SOURCE_DIR/tests/support/check.sh"

digest() { python3 "$WHET_SOURCE_DIR/tools/digest" "$@"; }
ends_with() { # status text command [argument ...]
    local status=$1 text=$2 output actual
    shift 2
    output=$("$@" 2>&1)
    actual=$?
    printf 'status %d\n%s\n' "$actual" "$output"
    [ "$actual" -eq "$status" ] && case $output in *"$text"*) ;; *) false ;; esac
}

old=$SCRATCH/old new=$SCRATCH/new
some=(--path rows.short --path rows.merge --isa scalar)
check "prints a digest" eval 'digest "${some[@]}" "$WHET_BUILD_DIR" >"$old"'
check "a build has no difference from itself" ends_with 0 "no difference in" digest "${some[@]}" "$old" "$WHET_BUILD_DIR"

name='scalar rows.short adaptive f32.f32 none 1-56'
sed "s/^\($name out\t\).*/\10123456789abcdef/" "$old" >"$new"
check "names what differs" ends_with 1 "  $name: out" digest "$old" "$new"
check "counts what differs" ends_with 1 "1 of $(wc -l <"$old") lines differ, in 1 cases" digest "$old" "$new"
check "--only leaves out the rest" ends_with 0 "no difference in" digest --only hardmax "$old" "$new"

grep -v "^$name " "$old" >"$new"
check "a case of one side only is listed and is not a difference" ends_with 0 "only in the first:
  $name: status, out" digest "$old" "$new"
sed 's/^scalar/avx1024/' "$old" >"$new"
cat "$old" >>"$new"
check "a set that one side lacks takes one line" ends_with 0 "only in the second: everything of avx1024" digest "$old" "$new"

echo 'something else' >"$new"
check "refuses what is not a digest" ends_with 2 "not a line of a digest" digest "$old" "$new"
check "refuses a folder without the program" ends_with 2 "no tests/digest/digest; build it with" digest "$SCRATCH"
check "refuses a wrong second build before it runs the first" ends_with 2 "none: no such build folder or saved digest" \
    digest "$new" "$SCRATCH/none"
check "refuses digests with nothing in common" ends_with 2 "no case in common" \
    digest "$old" <(sed 's/^scalar/avx1024/' "$old")
check "refuses an unknown instruction set" ends_with 2 "no instruction set avx1024" digest --isa avx1024 "$WHET_BUILD_DIR"
check "refuses an invalid regular expression" ends_with 2 "--only" digest --only '(' "$old"
finish
