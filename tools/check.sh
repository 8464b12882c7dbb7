#!/usr/bin/env bash
# The static checks: clang-format, clang-tidy and cppcheck over all of the project's C. All three run, whatever the first
# finds; the status is 1 if any found something.
#
#     tools/check.sh BUILD_DIR       check, with the compile commands of a configured build
#     tools/check.sh --fix-format    format in place instead
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

rooms=()
for room in include src lab cli bench fuzz llama plugin examples tests; do
    [ ! -d $room ] || rooms+=("$room")
done
mapfile -t formatted < <(find "${rooms[@]}" -name '*.[ch]' -o -name '*.inc' | sort)

if [ "${1:-}" = --fix-format ]; then
    exec clang-format -i "${formatted[@]}"
fi
build=${1:?the build folder is missing}
jobs=$(nproc)
status=0

echo "clang-format: ${#formatted[@]} files"
clang-format --dry-run -Werror "${formatted[@]}" || status=1

# Only what is compiled here: files of other processors have no compile command.
mapfile -t compiled < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | sort -u)
echo "clang-tidy: ${#compiled[@]} files"
printf '%s\0' "${compiled[@]}" |
    xargs -0 -n 1 -P "$jobs" clang-tidy -p "$build" --quiet --warnings-as-errors='*' 2> >(grep -v 'warnings\? generated' >&2) ||
    status=1

echo "cppcheck: ${#compiled[@]} files"
cppcheck --project="$build/compile_commands.json" --std=c11 --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --error-exitcode=1 --quiet -j "$jobs" ||
    status=1

[ $status -eq 0 ] && echo "no findings" || echo "findings above"
exit $status
