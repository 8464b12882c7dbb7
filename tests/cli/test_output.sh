# Whether what is printed arrives: promptly, and with a complaint if it does not.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

full_disk() { # command
    echo "whet${1:+ $1}: standard output: cannot write: No space left on device\n"
}
if [ -w /dev/full ]; then
    for form in '--help' '--version' 'help softmax' 'policies' 'policies --json' 'demo' 'demo --svg -' 'softmax' 'softmax --stats'; do
        # shellcheck disable=SC2086 # words on purpose
        echo 1 2 3 | "$WHET_BIN" $form >/dev/full 2>"$SCRATCH/err"
        status=$?
        : >"$SCRATCH/out"
        case $form in --*) named='' ;; *) named=${form%% *} ;; esac
        [ "$named" != help ] || named=softmax
        [ "$form" != --help ] || named=help
        ended_with "'whet $form' tells of a full disk" 1 '' "$(full_disk "$named")"
    done
    yes '1 2 3' 2>/dev/null | timeout 60 "$WHET_BIN" softmax >/dev/full 2>"$SCRATCH/err"
    status=${PIPESTATUS[1]}
    ended_with "a full disk ends the work on input without end" 1 '' "$(full_disk softmax)"
else
    skip "a full disk is reported" "needs /dev/full"
fi

echo 1 2 | "$WHET_BIN" softmax 2>"$SCRATCH/err" >&-
status=$?
: >"$SCRATCH/out"
ended_with "a closed standard output is reported" 1 '' 'whet softmax: standard output: cannot write: Bad file descriptor\n'
"$WHET_BIN" softmax <&- >"$SCRATCH/out" 2>"$SCRATCH/err"
status=$?
ended_with "a closed standard input is reported" 1 '' 'whet softmax: <stdin>: cannot read: Bad file descriptor\n'
"$WHET_BIN" demo --policy softmax --svg "$SCRATCH/picture.svg" >&- 2>&-
check "with its outputs closed the program still writes only the picture" grep -q '^</svg>$' "$SCRATCH/picture.svg"

yes '1 2 3' 2>/dev/null | "$WHET_BIN" softmax 2>"$SCRATCH/err" | head -n 3 >"$SCRATCH/out"
statuses=("${PIPESTATUS[@]}")
check "a reader that goes away ends the program" [ "${statuses[1]}" -ne 0 ]
check "a reader that goes away is no reason to complain" [ ! -s "$SCRATCH/err" ]
check "what such a reader got is right" [ "$(sort -u "$SCRATCH/out" | wc -l)/$(wc -l <"$SCRATCH/out")" = 1/3 ]

# With somebody waiting at the other end of a pipe, each row is answered at once.
coproc "$WHET_BIN" softmax
to=${COPROC[1]} from=${COPROC[0]} pid=$COPROC_PID
answered=yes
for row in '0 0' '7' '0,0'; do
    echo "$row" >&"$to"
    read -r -t 20 reply <&"$from" || answered=no
done
check "rows are answered as they come" [ "$answered/$reply" = 'yes/0.5 0.5' ]
eval "exec $to>&-"
wait "$pid" 2>/dev/null

# The file - is standard output, which then has nothing else: what is written there is what would be in the file.
"$WHET_BIN" retrieval train --steps 300 --width 16 --batch 8 --quiet --out "$SCRATCH/heads" >/dev/null 2>"$SCRATCH/err"
if grep -q 'no BLAS' "$SCRATCH/err"; then
    skip "results go to standard output" "needs libopenblas0"
else
    "$WHET_BIN" lm train --layers 1 --width 16 --heads 2 --batch 2 --steps 2 --quiet --out "$SCRATCH/run" >/dev/null
    "$WHET_BIN" lm export "$SCRATCH/run" "$SCRATCH/model.gguf" >/dev/null
    mkdir "$SCRATCH/folder"
    cd "$SCRATCH/folder" || exit 1
    goes_to_output() { # option command ...
        local option=$1
        shift
        "$WHET_BIN" "$@" "$option" "$SCRATCH/file" >"$SCRATCH/table" 2>/dev/null && "$WHET_BIN" "$@" "$option" - >"$SCRATCH/out" 2>"$SCRATCH/err" &&
            cmp "$SCRATCH/file" "$SCRATCH/out" && [ -s "$SCRATCH/table" ] && [ ! -s "$SCRATCH/err" ]
    }
    few=(--quiet --sets 4 --sizes 16 "$SCRATCH/heads")
    asked=(lm eval "$SCRATCH/run" --quiet --samples 2 --lengths 4)
    check "retrieval eval --json - prints nothing else" goes_to_output --json retrieval eval "${few[@]}"
    check "retrieval eval --csv -" goes_to_output --csv retrieval eval "${few[@]}"
    check "retrieval fit --json -" goes_to_output --json retrieval fit --quiet --sets 40 --sizes 16..64:x2 --degree 1 "$SCRATCH/heads"
    check "retrieval heads --json -" goes_to_output --json retrieval heads --sets 4 --sizes 16 "$SCRATCH/heads"
    check "theory --json -" goes_to_output --json theory reach
    check "lm eval --json -" goes_to_output --json "${asked[@]}"
    check "lm eval --csv -" goes_to_output --csv "${asked[@]}"
    check "lm eval --heads-csv -" goes_to_output --heads-csv "${asked[@]}"
    check "audit --json -" goes_to_output --json audit --quiet "$SCRATCH/model.gguf"
    check "audit --csv -" goes_to_output --csv audit --quiet "$SCRATCH/model.gguf"
    "$WHET_BIN" lm export "$SCRATCH/run" - >"$SCRATCH/out"
    check "lm export writes a model there" cmp "$SCRATCH/model.gguf" "$SCRATCH/out"
    check "and no file is called -" [ -z "$(ls -A)" ]
    refuses "two files cannot both be there" '' '' "whet audit: only one result can go to '-', standard output\n" \
        audit --quiet "$SCRATCH/model.gguf" --json - --csv -
    if [ -w /dev/full ]; then
        "$WHET_BIN" theory reach --json - >/dev/full 2>"$SCRATCH/err"
        status=$?
        : >"$SCRATCH/out"
        ended_with "a full disk is reported there, too" 1 '' 'whet theory: standard output: cannot write: No space left on device\n'
    fi
    cd / || exit 1
fi

case ${WHET_INSTRUMENTED:-} in
'' | coverage)
    head -c 200000000 /dev/zero | tr '\0' 1 |
        (ulimit -v 100000 && exec "$WHET_BIN" softmax --max-line 1G) >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=${PIPESTATUS[2]}
    ended_with "a line too long for memory is reported" 1 '' 'whet softmax: out of memory\n'
    yes 1 | tr '\n' ' ' | head -c 40000000 |
        (ulimit -v 150000 && exec "$WHET_BIN" softmax) >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=${PIPESTATUS[3]}
    ended_with "a row too long for memory is reported" 1 '' 'whet softmax: out of memory\n'
    ;;
*)
    skip "a line too long for memory is reported" "sanitizers need more address space"
    skip "a row too long for memory is reported" "sanitizers need more address space"
    ;;
esac
finish
