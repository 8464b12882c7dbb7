#!/usr/bin/env bash
# The static checks: clang-format, clang-tidy and cppcheck over all of the project's C. All three run, whatever the first
# reports; the status is 1 if any of them had a finding.
#
#     tools/check.sh BUILD_DIR [PATH ...]   check, with the compile commands of a configured build; PATH, such as tests/row,
#                                           limits it to files below
#     tools/check.sh --fix-format           format in place instead
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

if [ "${1:-}" = --fix-format ]; then
    build=
else
    build=${1:?usage: $0 BUILD_DIR [PATH ...]}
fi
shift
folders=()
for folder in "${@:-include src lab cli bench fuzz llama plugin mpi web examples tests tools}"; do
    # shellcheck disable=SC2206 # the default is a list of words
    folders+=($folder)
done
mapfile -t formatted < <(find "${folders[@]}" -name '*.[ch]' -o -name '*.inc' | sort)

if [ -z "$build" ]; then
    exec clang-format -i "${formatted[@]}"
fi
jobs=$(nproc)
status=0

echo "clang-format: ${#formatted[@]} files"
clang-format --dry-run -Werror "${formatted[@]}" || status=1

# Each file once for each set of flags, tests once: sources that several programs share have a command per program. Files of
# other processors have none.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
awk '/^\{/ { entry = ""; key = "" }
    { entry = entry $0 "\n" }
    /^ *"(command|file)":/ { line = $0; sub(/ -o [^ ]+/, "", line); key = key line }
    /^ *"file":.*\/(tests|fuzz)\// { key = $0 }
    /^\}/ { if (!(key in seen)) { all = all separator substr(entry, 1, index(entry, "\n}")) "}"; separator = ",\n" } seen[key] = 1 }
    END { printf "[\n%s\n]\n", all }' "$build/compile_commands.json" >"$commands/compile_commands.json"
mapfile -t compiled < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$commands/compile_commands.json" | sort -u |
    grep -E "^$PWD/($(IFS='|' && echo "${folders[*]}"))(/|$)")
echo "clang-tidy: ${#compiled[@]} files"
printf '%s\0' "${compiled[@]}" |
    xargs -0 -n 1 -P "$jobs" clang-tidy -p "$commands" --quiet --warnings-as-errors='*' 2> >(grep -v 'warnings\? generated' >&2) ||
    status=1

echo "cppcheck: ${#compiled[@]} files"
limits=()
for file in "${compiled[@]}"; do
    limits+=("--file-filter=$file")
done
cppcheck --project="$commands/compile_commands.json" "${limits[@]}" --std=c11 --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --error-exitcode=1 --quiet -j "$jobs" ||
    status=1

[ $status -eq 0 ] && echo "no findings" || echo "findings above"
exit $status
