# whet softmax: what it reads, and how it speaks of what it cannot.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

half='0.5 0.5\n'
answers "blanks separate" '0 0\n' "$half" softmax
answers "tabs separate" '0\t\t0\n' "$half" softmax
answers "commas separate" '0,0\n' "$half" softmax
answers "commas with blanks around separate" ' 0 ,\t0  \n' "$half" softmax
answers "lines may end in a carriage return" '0 0\r\n0,0\r\n\r\n' "$half$half\n" softmax
answers "the last line needs no newline" '0 0\n0 0' "$half$half" softmax
answers "the last line may end in a carriage return alone" '0 0\r' "$half" softmax
answers "blanks alone are an empty row" ' \t \n' '\n' softmax
answers "a byte order mark is passed over" '\0357\0273\0277' '' softmax
answers "a byte order mark before numbers is passed over" '\0357\0273\02770 0\n' "$half" softmax
answers "numbers take many forms" '+1 1. 1.0 .1e1 10E-1 1e+0 0.00001e5 001\n' \
    '0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125\n' softmax
answers "names of infinity take many forms" '-inf -INF -Infinity 4\n' '0 0 0 1\n' softmax
answers "numbers too small for a float are zero" '1e-60 -1e-400\n' "$half" softmax
answers "a number may be as long as it likes" "$(printf '0.%0500d 0.%0500d' 0 0)\n" "$half" softmax
answers "numbers are rounded once, to float" '1.0000000596046447753906251 1.00000011920928955\n' "$half" softmax

printf '0 0\n' >"$SCRATCH/a"
printf '7\n' >"$SCRATCH/b"
answers "files are read in order" '' "${half}1\n" softmax "$SCRATCH/a" "$SCRATCH/b"
answers "a dash is standard input" '3\n' "${half}1\n1\n" softmax "$SCRATCH/a" - "$SCRATCH/b"
answers "options may follow files" '' "${half}" softmax "$SCRATCH/a" --policy hardmax
cp "$SCRATCH/a" "$SCRATCH/-a"
(cd "$SCRATCH" && "$WHET_BIN" softmax -- -a >out)
check "files after -- may start with a dash" cmp "$SCRATCH/out" "$SCRATCH/expected_out"

# Mistakes: where, what, and nothing of the row on standard output.
wrong() { # name input output position-and-message
    refuses "$1" "$2" "$3" "whet softmax: <stdin>:$4\n" softmax
}
wrong "a word is no number" '0 0\n1 1\n1 2  abc 4\n' "$half$half" "3:6: expected a number, found 'abc'"
wrong "a number with something behind it is none" '1 2.5x\n' '' "1:3: expected a number, found '2.5x'"
wrong "hexadecimal is not read" '0x10\n' '' "1:1: expected a number, found '0x10'"
wrong "an exponent needs digits" '1 1e\n' '' "1:3: expected a number, found '1e'"
wrong "an exponent needs digits after its sign" '1,1e-\n' '' "1:3: expected a number, found '1e-'"
wrong "a sign alone is no number" '1 -\n' '' "1:3: expected a number, found '-'"
wrong "a point alone is no number" '.\n' '' "1:1: expected a number, found '.'"
wrong "nan with a tag is not read" 'nan(1)\n' '' "1:1: expected a number, found 'nan(1)'"
wrong "two commas lack a number" '1,,2\n' '' "1:3: expected a number, found ','"
wrong "a comma cannot come first" ' ,2\n' '' "1:2: expected a number, found ','"
wrong "a comma cannot come last" '1, 2,\n' '' "1:6: expected a number, found the end of the line"
wrong "a comma cannot come last before a carriage return" '1,2,\r\n' '' "1:5: expected a number, found the end of the line"
wrong "a carriage return within a line is no blank" '1\r2\n' '' "1:1: expected a number, found '1\\\\x0d2'"
wrong "a semicolon does not separate" '1;2\n' '' "1:1: expected a number, found '1;2'"
wrong "a comment is not passed over" '0 0\n# x\n' "$half" "2:1: expected a number, found '#'"
wrong "too large a number is an error" '0 1e39\n' '' "1:3: '1e39' is out of the range of a 32-bit float"
wrong "too large a negative number is an error" '-3.5e38\n' '' "1:1: '-3.5e38' is out of the range of a 32-bit float"
wrong "bytes that do not print are shown in hexadecimal" '\0303\0251\0033[1m\n' '' \
    "1:1: expected a number, found '\\\\xc3\\\\xa9\\\\x1b[1m'"
wrong "a long word is cut" 'abcdefghijklmnopqrstuvwxyzabcdef\n' '' \
    "1:1: expected a number, found 'abcdefghijklmnopqrstuvwx...'"
wrong "a mistake in the last line without newline has its place" '0 0\n1 q' "$half" "2:3: expected a number, found 'q'"
wrong "a byte order mark does not count as a column" '\0357\0273\0277x\n' '' "1:1: expected a number, found 'x'"
wrong "a byte order mark is none later on" '0 0\n\0357\0273\02770\n' "$half" \
    "2:1: expected a number, found '\\\\xef\\\\xbb\\\\xbf0'"

printf '0 0\n1 x\n' >"$SCRATCH/rows.txt"
refuses "a mistake in a file names the file and its own line" '' "$half$half" \
    "whet softmax: $SCRATCH/rows.txt:2:3: expected a number, found 'x'\n" softmax "$SCRATCH/a" "$SCRATCH/rows.txt" "$SCRATCH/b"
refuses "a mistake stops statistics and several policies too" '1 x\n' '' \
    "whet softmax: <stdin>:1:3: expected a number, found 'x'\n" softmax --stats --policy softmax --policy hardmax
refuses "a file that is not there" '' '' "whet softmax: $SCRATCH/none: no such file\n" softmax "$SCRATCH/none"
refuses "a folder is no file" '' '' "whet softmax: $SCRATCH: cannot read: Is a directory\n" softmax "$SCRATCH"

# A mistake at the end of a line far longer than any buffer.
seq -s ' ' 300000 >"$SCRATCH/long"
{ printf '0 0\n'; tr -d '\n' <"$SCRATCH/long"; printf ' oops\n'; } >"$SCRATCH/in"
"$WHET_BIN" softmax <"$SCRATCH/in" >"$SCRATCH/out" 2>"$SCRATCH/err"
status=$?
ended_with "of a long row with a mistake at its end nothing is printed" 2 "$half" \
    "whet softmax: <stdin>:2:$(($(wc -c <"$SCRATCH/long") + 1)): expected a number, found 'oops'\n"

# Lines that end right at, before and after the end of a block that is read.
around_a_block() { # bytes
    local zeros=$((($1 - 1) / 2))
    { printf '0%.0s ' $(seq "$zeros"); printf '\n0 0\n'; } | "$WHET_BIN" softmax | awk -v n="$zeros" '
        NR == 1 && NF != n { exit 1 } NR == 2 && $0 != "0.5 0.5" { exit 1 } END { exit NR != 2 }'
}
for bytes in 65531 65533 65535 65537 65539 131071 131073; do
    check "a line of $bytes bytes leaves the next one whole" around_a_block "$bytes"
done

# What is not text, and lines without an end, are refused before memory runs out.
refuses "a NUL byte is refused, after the lines before it" '0 0\n1 2\00003\n' "$half" \
    "whet softmax: <stdin>: not a text file (NUL byte at offset 7)\n" softmax
refuses "one at the end, too" '0 0\n1\0000' "$half" "whet softmax: <stdin>: not a text file (NUL byte at offset 5)\n" softmax
within_memory() { # name errors command ...; with 200 MB of memory and 20 seconds
    local name=$1 errors=$2
    shift 2
    (ulimit -v 200000 && exec timeout 20 "$@" >"$SCRATCH/out" 2>"$SCRATCH/err")
    status=$?
    ended_with "$name" 2 '' "$errors"
}
endless() { # text, again and again, without a newline
    yes "$1" | tr -d '\n' | "$WHET_BIN" softmax --max-line 1M
}
endless_array() {
    { printf '['; yes 1, | tr -d '\n'; } | "$WHET_BIN" softmax --max-line 1M
}
export -f endless endless_array
if [ -z "${WHET_INSTRUMENTED:-}" ]; then # sanitizers reserve more memory
    within_memory "/dev/zero is refused" "whet softmax: /dev/zero: not a text file (NUL byte at offset 0)\n" \
        "$WHET_BIN" softmax /dev/zero
    within_memory "/dev/full is refused" "whet softmax: /dev/full: not a text file (NUL byte at offset 0)\n" \
        "$WHET_BIN" softmax /dev/full
    within_memory "as JSON it is refused too" "whet softmax: /dev/zero: not a text file (NUL byte at offset 0)\n" \
        "$WHET_BIN" softmax --input-format json /dev/zero
    within_memory "as .npy it is refused too" "whet softmax: /dev/zero: not an .npy file\n" \
        "$WHET_BIN" softmax --input-format npy /dev/zero
    within_memory "a line without an end is refused" \
        "whet softmax: <stdin>:1: line longer than 1048576 bytes; --max-line sets the limit\n" bash -c 'endless y'
    within_memory "a row without an end is refused" \
        "whet softmax: <stdin>:1: line longer than 1048576 bytes; --max-line sets the limit\n" bash -c 'endless "1 "'
    within_memory "a JSON array without an end is refused" \
        "whet softmax: <stdin>:1:1048578: a row of more than 1048576 bytes; --max-line sets the limit\n" bash -c 'endless_array'
else
    skip "endless input is refused" "an instrumented build needs more memory"
fi
answers "a line may be as long as the limit" '0 0\n' "$half" softmax --max-line 3
refuses "but not longer" '0 0\n00 0\n' "$half" \
    "whet softmax: <stdin>:2: line longer than 3 bytes; --max-line sets the limit\n" softmax --max-line 3
answers "limits have suffixes" '0 0\n' "$half" softmax --max-line 1K
for size in 0 '' x 1T 5MB -1 99999999999999999999 99999999999999G; do
    refuses "--max-line '$size' is refused" '' '' \
        "whet softmax: --max-line: '$size' is not a size such as 4096, 64K, 64M or 2G\n" softmax --max-line "$size"
done

# A locale with a decimal comma must not matter.
german=
if locale -a 2>/dev/null | grep -qi '^de_DE.utf-\?8$'; then
    german=de_DE.UTF-8
elif have localedef && localedef -i de_DE -f UTF-8 "$SCRATCH/de_DE.UTF-8" 2>/dev/null; then
    export LOCPATH=$SCRATCH
    german=de_DE.UTF-8
fi
if [ -n "$german" ]; then
    # bash itself may not find a locale that was made just now, and say so.
    {
        LC_ALL=$german answers "the decimal point does not depend on the locale" '0.5,0.5\n' "$half" softmax
        LC_ALL=$german answers_near "nor does what is printed" '0 0 0 0\n' '0.25 0.25 0.25 0.25' softmax
    } 2>/dev/null
else
    skip "the decimal point does not depend on the locale" "needs the locale de_DE.UTF-8"
fi
finish
