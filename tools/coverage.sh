#!/usr/bin/env bash
# Prints the share of lines that the tests of a coverage build ran: one line per source file, the least covered first, then
# the total. Annotated sources are left in BUILD_DIR/gcov. Needs gcov only, which comes with gcc.
set -eu

build=$(cd "${1:?usage: $0 BUILD_DIR}" && pwd)
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rm -rf "$build/gcov"
mkdir -p "$build/gcov"
cd "$build/gcov"

# Every compiled file has a .gcno, so that files without a single line run count too. A template compiled for several
# instruction sets is reported for each; the best of them counts.
find "$build" -name '*.gcno' -not -path '*/tests/*' -print0 |
    xargs -0 gcov --relative-only --source-prefix "$source" --preserve-paths 2>/dev/null |
    awk '
        /^File / { file = substr($0, 7, length($0) - 7) }
        /^Lines executed:/ && file != "" {
            split($0, part, /[:% ]+/)
            lines = part[5]; run = lines * part[3] / 100
            if (file !~ /^(tests|\/)/ && lines > 0) { total[file] = lines; covered[file] = run > covered[file] ? run : covered[file] }
            file = ""
        }
        END {
            for (file in total) {
                printf "%6.1f %%  %5d of %5d  %s\n", 100 * covered[file] / total[file], covered[file] + 0.5, total[file], file | "sort -n"
                all += total[file]; all_covered += covered[file]
            }
            close("sort -n")
            if (all == 0) { print "no line was run"; exit 1 }
            printf "%6.1f %%  %5d of %5d  all lines\n", 100 * all_covered / all, all_covered + 0.5, all
        }'
