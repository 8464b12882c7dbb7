#!/usr/bin/env bash
# Prints what programs compiled against libwhet rely on: the version, every exported symbol, the size of every public struct
# with the offset of every field, and every constant, as found in the header and the library.
#
#     tools/abi.sh include/whet.h libwhet.so [compiler]
#
# tests/abi compares it with the record of this version; `make abi` writes the record.
set -eu
header=$1 library=$2 compiler=${3:-${CC:-cc}}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Prints the header without comments, which may span lines.
plain() { tr '\n' '\001' <"$header" | sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/||g' | tr '\001' '\n' | sed 's/ *$//'; }

{
    printf '#include "%s"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n' "$(realpath "$header")"
    plain | awk '
        # struct name { ... }: a field is the word before ; or [ at the outermost level
        /^(typedef )?struct whet_[a-z_0-9]+ \{/ { name = $0; sub(/.*struct /, "", name); sub(/ \{.*/, "", name); depth = 1
            printf "    printf(\"struct %s %%zu\\n\", sizeof(%s));\n", name, name; next }
        name != "" && /(union|struct) \{/ { depth++; next }
        name != "" && /^ *\}/ { depth--; if (depth == 0) { name = ""; next } }
        name != "" && depth == 1 && /;/ {
            field = $0
            if (field ~ /\(\*/) { sub(/.*\(\*/, "", field); sub(/\).*/, "", field) }
            else { sub(/;.*/, "", field); sub(/\[.*/, "", field); sub(/.*[ *}]/, "", field) }
            printf "    printf(\"    %s %%zu\\n\", offsetof(%s, %s));\n", field, name, field }'
    plain | awk '
        /enum.*\{/ { inside = 1 }
        inside { line = $0; while (match(line, /WHET_[A-Z0-9_]+/)) { token = substr(line, RSTART, RLENGTH)
            printf "    printf(\"constant %s %%lld\\n\", (long long)%s);\n", token, token; line = substr(line, RSTART + RLENGTH) } }
        inside && /\}/ { inside = 0 }
        /^#define WHET_[A-Z0-9_]+ [0-9]+$/ && $2 !~ /VERSION/ {
            printf "    printf(\"constant %s %%lld\\n\", (long long)%s);\n", $2, $2 }'
    printf '    return 0;\n}\n'
} >"$folder/layout.c"
"$compiler" -std=c17 -o "$folder/layout" "$folder/layout.c"

awk '/^#define WHET_VERSION_(MAJOR|MINOR)/ { printf "%s%s", separator, $3; separator = "." } END { print "" }' "$header" |
    sed 's/^/version /'
nm -D --defined-only "$library" | awk '$3 ~ /^whet_/ { print "symbol " $3 }' | LC_ALL=C sort
"$folder/layout"
