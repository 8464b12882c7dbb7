# Whether what is printed arrives: promptly, and with a complaint if it does not.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

full='whet: cannot write to standard output: No space left on device\n'
if [ -w /dev/full ]; then
    for form in '--help' '--version' 'help softmax' 'policies' 'policies --json' 'demo' 'demo --svg -' 'softmax' 'softmax --stats'; do
        # shellcheck disable=SC2086 # words on purpose
        echo 1 2 3 | "$WHET_BIN" $form >/dev/full 2>"$SCRATCH/err"
        status=$?
        : >"$SCRATCH/out"
        ended_with "'whet $form' tells of a full disk" 1 '' "$full"
    done
    yes '1 2 3' 2>/dev/null | timeout 60 "$WHET_BIN" softmax >/dev/full 2>"$SCRATCH/err"
    status=${PIPESTATUS[1]}
    ended_with "a full disk ends the work on input without end" 1 '' "$full"
else
    skip "a full disk is told of" "needs /dev/full"
fi

echo 1 2 | "$WHET_BIN" softmax 2>"$SCRATCH/err" >&-
status=$?
: >"$SCRATCH/out"
ended_with "a closed standard output is told of" 1 '' 'whet: cannot write to standard output: Bad file descriptor\n'
"$WHET_BIN" softmax <&- >"$SCRATCH/out" 2>"$SCRATCH/err"
status=$?
ended_with "a closed standard input is told of" 2 '' 'whet: <stdin>: Bad file descriptor\n'
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

case ${WHET_INSTRUMENTED:-} in
'' | coverage)
    head -c 200000000 /dev/zero | tr '\0' 1 |
        (ulimit -v 100000 && exec "$WHET_BIN" softmax) >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=${PIPESTATUS[2]}
    ended_with "a line too long for memory is told of" 1 '' 'whet: out of memory\n'
    yes 1 | tr '\n' ' ' | head -c 40000000 |
        (ulimit -v 150000 && exec "$WHET_BIN" softmax) >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=${PIPESTATUS[3]}
    ended_with "a row too long for memory is told of" 1 '' 'whet: out of memory\n'
    ;;
*)
    skip "a line too long for memory is told of" "sanitizers need more address space"
    skip "a row too long for memory is told of" "sanitizers need more address space"
    ;;
esac
finish
