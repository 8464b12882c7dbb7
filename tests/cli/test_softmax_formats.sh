# whet softmax: CSV, JSON and NumPy's .npy, headers and comments, and how many digits are printed.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

half='0.5 0.5\n'

# Digits.
answers "probabilities with three digits" '1 2 3\n' '0.09 0.245 0.665\n' softmax --precision 3
answers "with one" '0 0 0\n' '0.3 0.3 0.3\n' softmax --precision 1
answers "statistics too" '0 0\n' \
    '{"n": 2, "entropy": 0.693, "entropy_after": 0.693, "beta": 1, "max_prob": 0.5, "logsumexp": 0.693, "min": 0, "argmax": 0, "sink_share": 0.5}\n' \
    softmax --stats --precision 3
refused "no digits are refused" 2 "0 is out of range (1 to 17)" "$WHET_BIN" softmax --precision 0
refused "a name is no format" 2 "--input-format: 'xml' is not one of auto, text, csv, npy or json" "$WHET_BIN" softmax --input-format xml

# CSV, headers and comments.
printf 'a,b\n# two numbers\n0,0\n' >"$SCRATCH/rows.csv"
answers "a header and comments are skipped" '' "$half" softmax --header "$SCRATCH/rows.csv"
answers "the header of each file is" '' "$half$half" softmax --header "$SCRATCH/rows.csv" "$SCRATCH/rows.csv"
answers "a header may follow comments" '# x\n  # y\na b\n0 0\n' "$half" softmax --header
answers "comments alone are skipped" '0 0\n#\n# 1 2\n0 0\n' "$half$half" softmax --comments
answers "a header alone gives nothing" 'a b\n' '' softmax --header
refuses "lines are counted with those that are skipped" 'a\n# b\n0 x\n' '' \
    "whet softmax: <stdin>:3:3: expected a number, found 'x'\n" softmax --header
whet_given 'a\n0 0\n# b\nnan 0\n' softmax --header
ended_with "a row that is not finite is named by its line" 1 "${half}nan nan\n" \
    'whet softmax: <stdin>:4: the row holds nan or +inf, so its result is nan (further such rows are not reported)\n'
answers "numbers of CSV may be quoted" '"0", "0" \n' "$half" softmax --input-format csv
answers "CSV may end in carriage returns" '"0",0\r\n\r\n' "$half\n" softmax --input-format csv
refuses "blanks do not separate in CSV" '1 2,3\n' '' "whet softmax: <stdin>:1:1: expected a number, found '1 2'\n" softmax --input-format csv
refuses "nor do they in a file named so" '' '' "whet softmax: $SCRATCH/blank.csv:1:1: expected a number, found '1 2'\n" \
    softmax "$(printf '1 2\n' >"$SCRATCH/blank.csv"; echo "$SCRATCH/blank.csv")"
answers "unless --input-format says text" '' '0.268941432 0.731058538\n' softmax --input-format text "$SCRATCH/blank.csv"
refuses "an empty field is no number" '1,,2\n' '' "whet softmax: <stdin>:1:3: expected a number, found ','\n" softmax --input-format csv
refuses "nor at the end" '1,\n' '' "whet softmax: <stdin>:1:3: expected a number, found the end of the line\n" softmax --input-format csv
refuses "nor between quotes" '""\n' '' "whet softmax: <stdin>:1:2: expected a number, found the end of the line\n" softmax --input-format csv
refuses "a quote alone is no number" '"\n' '' "whet softmax: <stdin>:1:1: expected a number, found '\"'\n" softmax --input-format csv

# JSON.
answers "an array is a row" '[0, 0]\n' "$half" softmax
answers "an array of arrays are rows" ' [[0,0],\n [0e0,-0.0]]' "$half$half" softmax
answers "arrays may be nested" '[[[0,0]],[[0,0],[1]]]' "$half${half}1\n" softmax
answers "and follow one another" '[0,0]\n[1]\n[[0,0]][]' "${half}1\n$half\n" softmax
answers "an empty array is a row of no entries" '[[],[0,0],[ ]]' "\n$half\n" softmax
answers "a byte order mark may come first" '\0357\0273\0277[0,0]' "$half" softmax
answers "-Infinity masks" '[-Infinity, 0, -inf]' '0 1 0\n' softmax
whet_given '[[0,0],\n[NaN,0]]' softmax
ended_with "a row with NaN is named by its line" 1 "${half}nan nan\n" \
    'whet softmax: <stdin>:2: the row holds nan or +inf, so its result is nan (further such rows are not reported)\n'
answers "nothing is a file of no rows" '' '' softmax --input-format json
answers "the option's former name is accepted" '' '' softmax --format json
answers "blanks are, too" ' \n\n' '' softmax --input-format json
bad_json() { # name input output position-and-message
    refuses "$1" "$2" "$3" "whet softmax: <stdin>:$4\n" softmax --input-format json
}
bad_json "an object is refused" '{"a": [1]}' '' "1:1: expected '[', found '{'"
bad_json "a number alone is refused" '1' '' "1:1: expected '[', found '1'"
bad_json "null is refused" '[0,\n null]' '' "2:2: expected a number, found 'null'"
bad_json "a text is refused" '["1"]' '' "1:2: expected a number, found '\"'"
bad_json "numbers beside arrays are refused" '[[0,0],1]' "$half" "1:8: expected '[', found '1'"
bad_json "arrays beside numbers are refused" '[1,[0]]' '' "1:4: expected a number, found '[' in an array of numbers"
bad_json "a comma at the end is refused" '[1,]' '' "1:4: expected a number, found ']'"
bad_json "a comma at the start is refused" '[,1]' '' "1:2: expected a number, found ','"
bad_json "a comma between values is refused" '[1],[2]' '1\n' "1:4: expected '[', found ','"
bad_json "a missing comma is refused" '[1 2]' '' "1:4: expected ',' or ']', found '2'"
bad_json "a bracket too many is refused" '[1]]' '1\n' "1:4: expected '[', found ']'"
bad_json "a file that is cut is refused" '[[0,0],[1,2' "$half" "1:12: unexpected end of the file: 2 arrays are open"
bad_json "too large a number is refused" '[1e39]' '' "1:2: '1e39' is out of the range of a 32-bit float"
bad_json "too long a number is refused" "[1$(printf '%01100d' 0)]" '' "1:2: a number of more than 1024 bytes"
bad_json "too deep a nesting is refused" "$(printf '[%.0s' $(seq 100))" '' "1:64: more than 63 nested arrays"
bad_json "bytes that do not print are shown" '[1\0001]' '' "1:2: expected a number, found '1\\\\x01'"
refuses "a NUL byte is refused" '[0,\0000]' '' "whet softmax: <stdin>: not a text file (NUL byte at offset 3)\n" softmax
refuses "within a number too" '[0\00001]' '' "whet softmax: <stdin>: not a text file (NUL byte at offset 2)\n" softmax
refuses "too long a row is refused" '[[0,0],\n[0,\n0,0,0]]' "$half" \
    "whet softmax: <stdin>:3:5: a row of more than 7 bytes; --max-line sets the limit\n" softmax --max-line 7
long_json() {
    { printf '['; seq -s, 100000 | tr -d '\n'; printf ']'; } >"$SCRATCH/long.json"
    seq -s' ' 100000 | "$WHET_BIN" softmax >"$SCRATCH/expected"
    "$WHET_BIN" softmax "$SCRATCH/long.json" | cmp - "$SCRATCH/expected"
}
check "a long array gives what the same line gives" long_json
answered_at_once() { # a row is answered before the file ends
    mkfifo "$SCRATCH/in.fifo" "$SCRATCH/out.fifo"
    "$WHET_BIN" softmax <"$SCRATCH/in.fifo" >"$SCRATCH/out.fifo" &
    exec 7>"$SCRATCH/in.fifo" 8<"$SCRATCH/out.fifo"
    printf '[[0,0],' >&7
    read -r -t 20 line <&8
    printf '[1]]' >&7
    exec 7>&-
    wait $!
    [ "$line" = '0.5 0.5' ] && [ "$(cat <&8)" = 1 ]
}
check "a row is answered before the file ends" answered_at_once

# .npy by hand: version, header and bytes, all of which may be wrong.
npy() { # file version dictionary bytes
    local length=$((${#3} + 1))
    {
        printf "\\223NUMPY\\$(printf %03o "$2")\\000"
        printf "\\$(printf %03o $((length & 255)))\\$(printf %03o $((length >> 8)))"
        [ "$2" -eq 1 ] || printf '\0\0'
        printf '%s\n%b' "$3" "$4"
    } >"$SCRATCH/$1"
}
one='\0000\0000\0200\0077'
npy 1.npy 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" "$one$one"
answers "a vector is one row" '' "$half" softmax "$SCRATCH/1.npy"
cp "$SCRATCH/1.npy" "$SCRATCH/1.txt"
answers "whatever its name" '' "$half" softmax "$SCRATCH/1.txt"
"$WHET_BIN" softmax <"$SCRATCH/1.npy" >"$SCRATCH/out" 2>"$SCRATCH/err"
status=$?
ended_with "and from standard input" 0 "$half" ''
npy 2.npy 2 '{"shape":(2L,1L),"fortran_order":True,"descr":"<f4"}' "$one$one"
answers "version 2, other quotes and another order of keys" '' '1\n1\n' softmax "$SCRATCH/2.npy"
npy 3.npy 3 "{'descr': '>f4', 'fortran_order': False, 'shape': ()}" '\0077\0200\0000\0000'
answers "version 3, big endian, a single number" '' '1\n' softmax "$SCRATCH/3.npy"
npy empty.npy 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0)}" ''
answers "rows of no entries" '' '\n\n\n' softmax "$SCRATCH/empty.npy"
npy none.npy 1 "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 18446744073709551615)}" ''
answers "no rows at all" '' '' softmax "$SCRATCH/none.npy"
npy nan.npy 1 "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1)}" '\0000\0000\0000\0176'
whet_given '' softmax "$SCRATCH/nan.npy"
ended_with "a row with nan is named by its number" 1 '1\nnan\n' \
    "whet softmax: $SCRATCH/nan.npy: row 2: the row holds nan or +inf, so its result is nan (further such rows are not reported)\n"

bad_npy() { # name message version dictionary bytes
    npy bad.npy "$3" "$4" "$5"
    refuses "$1" '' '' "whet softmax: $SCRATCH/bad.npy: $2\n" softmax "$SCRATCH/bad.npy"
}
f4="'descr': '<f4', 'fortran_order': False, 'shape'"
bad_npy "data that is cut" "truncated data (7 of at least 8 bytes)" 1 "{$f4: (2,)}" "$one\0000\0000\0200"
bad_npy "data that goes on" "unexpected data after the array that the header describes" 1 "{$f4: (0, 2)}" "$one"
bad_npy "a version of tomorrow" "unsupported .npy version 4.0; supported: 1.0 to 3.0" 4 "{$f4: (1,)}" "$one"
bad_npy "objects" "unsupported element type '|O'; supported: f2, f4, f8 and integers" 1 "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}" ''
bad_npy "complex numbers" "unsupported element type '<c8'; supported: f2, f4, f8 and integers" 1 "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}" ''
bad_npy "floats of three bytes" "unsupported element type '<f3'; supported: f2, f4, f8 and integers" 1 "{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}" ''
bad_npy "fields" "elements are not numbers; supported: f2, f4, f8 and integers" 1 "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}" ''
bad_npy "a shape that overflows" "the shape is too large" 1 "{$f4: (4294967296, 4294967296, 4)}" ''
bad_npy "bytes that overflow" "the shape is too large" 1 "{$f4: (4611686018427387904,)}" ''
bad_npy "an axis that overflows" "not a valid .npy header: wrong or too large a size in the shape" 1 "{$f4: (18446744073709551616,)}" ''
bad_npy "a negative axis" "not a valid .npy header: wrong or too large a size in the shape" 1 "{$f4: (-1,)}" ''
bad_npy "a row that no memory has" "rows of more than 67108864 bytes; --max-line sets the limit" 1 "{$f4: (1, 1099511627776)}" "$one"
bad_npy "an array in Fortran order that none has" "an array in Fortran order of more than 67108864 bytes; --max-line sets the limit" \
    1 "{'descr': '<f4', 'fortran_order': True, 'shape': (1048576, 1048576)}" "$one"
bad_npy "many rows of no entries" "more than 1000000 rows without entries" 1 "{$f4: (99999999999, 0)}" ''
bad_npy "many axes" "more than 32 axes" 1 "{$f4: ($(printf '1,%.0s' $(seq 33)))}" "$one"
bad_npy "a shape that is a list" "not a valid .npy header: the shape is not a tuple" 1 "{$f4: [1]}" "$one"
bad_npy "a shape without end" "not a valid .npy header: the shape is not a tuple" 1 "{$f4: (1 2)}" "$one"
bad_npy "no shape" "not a valid .npy header: 'shape' is missing" 1 "{'descr': '<f4', 'fortran_order': False}" ''
bad_npy "two shapes" "not a valid .npy header: 'shape' twice" 1 "{$f4: (1,), 'shape': (1,)}" "$one"
bad_npy "another key" "not a valid .npy header: unknown key" 1 "{$f4: (1,), 'more': 1}" "$one"
bad_npy "no dictionary" "not a valid .npy header: no dictionary" 1 '' ''
bad_npy "an order of its own" "not a valid .npy header: fortran_order is neither True nor False" 1 "{'fortran_order': 1}" ''
bad_npy "something after the dictionary" "not a valid .npy header: something follows the dictionary" 1 "{$f4: (1,)} 1" "$one"
bad_npy "a text without end" "not a valid .npy header: expected a key" 1 "{'descr" ''
bad_npy "entries without a comma" "not a valid .npy header: expected ',' or '}'" 1 "{$f4: (1,) 'more': 1}" "$one"
npy large.npy 1 "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2)}" \
    '\0000\0000\0000\0000\0000\0000\0360\0077\0374\0251\0361\0322\0115\0142\0120\0177'
refuses "a double beyond a float is an error" '' '' \
    "whet softmax: $SCRATCH/large.npy: row 1, entry 2: 1.79769e+305 is out of the range of a 32-bit float\n" softmax "$SCRATCH/large.npy"
refuses "text is not .npy" '0 0\n' '' "whet softmax: <stdin>: not an .npy file\n" softmax --input-format npy
refuses "nor is nothing" '' '' "whet softmax: <stdin>: not an .npy file\n" softmax --input-format npy
refuses "nor is a beginning" '\0223NUMPY' '' "whet softmax: <stdin>: not an .npy file\n" softmax
refuses "a header that is cut" '\0223NUMPY\0001\0000\0100\0000{' '' \
    "whet softmax: <stdin>: truncated header (11 of at least 74 bytes)\n" softmax
refuses "a header that no memory has" '\0223NUMPY\0002\0000\0377\0377\0377\0377{' '' \
    "whet softmax: <stdin>: .npy header too long (4294967295 bytes; at most 65536)\n" softmax

# Against NumPy itself.
numpy=
for python in python3 /usr/bin/python3; do
    [ -n "$numpy" ] || ! "$python" -c 'import numpy' 2>/dev/null || numpy=$python
done
if [ -n "$numpy" ]; then
    "$numpy" - "$SCRATCH" <<'PYTHON'
import sys, numpy as np
rng = np.random.default_rng(1)
folder = sys.argv[1]
for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
    for order in "<>":
        for layout in "CF":
            for shape in ((5,), (3, 4), (2, 3, 4), (1, 7), (7, 1), (2, 1, 3, 2)):
                values = rng.standard_normal(shape) * 4 if kind[0] == "f" else rng.integers(0, 100, shape)
                if kind[0] == "i": values = values - 50
                array = np.asarray(values.astype(order + kind), order=layout)
                name = f"{folder}/np_{kind}{'le' if order == '<' else 'be'}{layout}{'x'.join(map(str, shape))}"
                np.save(name + ".npy", array)
                with open(name + ".rows", "w") as rows:
                    for row in array.astype(np.float32).reshape(-1, shape[-1]):
                        print(*(f"{float(x):.9g}" for x in row), file=rows)
PYTHON
    same_as_text() { # kind
        local file count=0
        for file in "$SCRATCH"/np_"$1"*.npy; do
            "$WHET_BIN" softmax "$file" >"$SCRATCH/out" && "$WHET_BIN" softmax "${file%.npy}.rows" | cmp - "$SCRATCH/out" || return 1
            count=$((count + 1))
        done
        [ "$count" -eq 24 ]
    }
    for kind in f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8; do
        check "arrays of $kind that NumPy wrote give what the same text gives" same_as_text $kind
    done
    "$numpy" -c 'import numpy, sys; numpy.save(sys.argv[1], numpy.array([[2**63 - 1, 2**62 + 2**38 + 1, -2**63]]))' "$SCRATCH/wide.npy"
    "$WHET_BIN" softmax --policy fixed:1e-18 "$SCRATCH/wide.npy" >"$SCRATCH/out"
    echo 9223372036854775807 4611686293305294849 -9223372036854775808 | "$WHET_BIN" softmax --policy fixed:1e-18 >"$SCRATCH/expected"
    check "integers of 64 bits are rounded once" cmp "$SCRATCH/out" "$SCRATCH/expected"
    "$numpy" -c 'import numpy, sys; numpy.save(sys.argv[1], numpy.zeros((200, 5000), dtype="f4"))' "$SCRATCH/many.npy"
    check "more rows than a block has are all answered" \
        [ "$("$WHET_BIN" softmax "$SCRATCH/many.npy" | awk 'NF == 5000 && $1 > 0.000199 && $1 < 0.000201 { n++ } END { print n }')" -eq 200 ]
else
    skip "arrays that NumPy wrote" "needs numpy"
fi
finish
