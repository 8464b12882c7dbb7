# What the tests of the program share, on top of tests/support/check.sh; sourced by them with WHET_BIN (the program) and
# WHET_SOURCE_DIR (this repository) in the environment.
#
# Texts given to these functions may use printf's escapes: \n, \t, \r, \0 ...

: "${WHET_BIN:?the program to test is missing}"
# shellcheck source=../support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

unset NO_COLOR
export LC_ALL=C

# Runs the program on an input; leaves $status, $SCRATCH/out and $SCRATCH/err.
whet_given() { # input [argument ...]
    printf '%b' "$1" >"$SCRATCH/in"
    shift
    "$WHET_BIN" "$@" <"$SCRATCH/in" >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=$?
}

appears() { # file; waits for it, a minute at most
    local waited=0
    while [ ! -e "$1" ] && [ $waited -lt 1200 ]; do
        sleep 0.05
        waited=$((waited + 1))
    done
}

# Runs the program and stops it once a file is there; leaves $status and $SCRATCH/err.
stopped_at() { # signal file [argument ...]
    local signal=$1 file=$2 process
    shift 2
    "$WHET_BIN" "$@" >/dev/null 2>"$SCRATCH/err" &
    process=$!
    appears "$file"
    kill "-$signal" $process
    wait $process 2>/dev/null
    status=$?
}

shown() { # file
    head -c 2000 "$1" | cat -v
}

# Whether the last run ended as it should: status, standard output and standard error, byte for byte.
ended_with() { # name status output errors
    local name=$1
    printf '%b' "$3" >"$SCRATCH/expected_out"
    printf '%b' "$4" >"$SCRATCH/expected_err"
    if [ "$status" -eq "$2" ] && cmp -s "$SCRATCH/out" "$SCRATCH/expected_out" &&
        cmp -s "$SCRATCH/err" "$SCRATCH/expected_err"; then
        pass "$name"
    else
        fail "$name" "status $status, expected $2" "output:" "$(shown "$SCRATCH/out")" \
            "expected:" "$(shown "$SCRATCH/expected_out")" "errors:" "$(shown "$SCRATCH/err")" \
            "expected:" "$(shown "$SCRATCH/expected_err")"
    fi
}

answers() { # name input output [argument ...]
    local name=$1 input=$2 output=$3
    shift 3
    whet_given "$input" "$@"
    ended_with "$name" 0 "$output" ''
}

refuses() { # name input output errors [argument ...]
    local name=$1 input=$2 output=$3 errors=$4
    shift 4
    whet_given "$input" "$@"
    ended_with "$name" 2 "$output" "$errors"
}

# Words that are numbers may differ by a little, other words must be the same.
near() { # actual expected
    awk -v actual="$1" -v expected="$2" '
        function is_number(word) { return word ~ /^[-+]?[0-9.]+(e[-+]?[0-9]+)?$/ }
        BEGIN {
            n = split(actual, a, /[ \t\n]+/)
            if (n != split(expected, e, /[ \t\n]+/)) { exit 1 }
            for (i = 1; i <= n; i++) {
                if (!is_number(a[i]) || !is_number(e[i])) {
                    if (a[i] "" != e[i] "") { exit 1 }
                    continue
                }
                difference = a[i] - e[i]
                if (difference < 0) { difference = -difference }
                size = e[i] < 0 ? -e[i] : e[i]
                if (difference > 1e-9 + 5e-6 * size) { exit 1 }
            }
        }'
}

answers_near() { # name input output [argument ...]
    local name=$1 input=$2 output=$3
    shift 3
    whet_given "$input" "$@"
    if [ "$status" -eq 0 ] && [ ! -s "$SCRATCH/err" ] && near "$(cat "$SCRATCH/out")" "$output"; then
        pass "$name"
    else
        fail "$name" "status $status, output:" "$(shown "$SCRATCH/out")" "expected:" "$output" "errors:" \
            "$(shown "$SCRATCH/err")"
    fi
}

# Whether two logs of training runs are the same, apart from time.
same_log() { # file file
    diff <(sed -E 's/"(seconds|tokens_per_second)":[^,}]*//g' "$1") <(sed -E 's/"(seconds|tokens_per_second)":[^,}]*//g' "$2")
}

# Whether the seconds of a log never fall.
time_goes_on() { # file
    sed -n 's/.*"seconds":\([^,}]*\).*/\1/p' "$1" | awk '$1 < last { exit 1 } { last = $1 } END { exit NR == 0 }'
}

# Whether every line of a file is a JSON document of its own.
json_lines() { # file
    python3 -c '
import json, sys
def refuse(word): raise ValueError(word + " is not JSON")
for line in open(sys.argv[1]): json.loads(line, parse_constant=refuse)' "$1"
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# A command that must fail with a status and, in at most two lines, a text.
refused() { # name status text command ...
    local name=$1 wanted=$2 text=$3
    shift 3
    "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
    status=$?
    if [ "$status" -eq "$wanted" ] && grep -qF -- "$text" "$SCRATCH/err" && [ "$(wc -l <"$SCRATCH/err")" -eq 1 ]; then
        pass "$name"
    else
        fail "$name" "status $status, expected $wanted and '$text':" "$(shown "$SCRATCH/err")"
    fi
}

# Whether a process has a handler for Ctrl-C, the second signal of the mask that /proc has.
catches_interrupts() { # process
    local mask
    mask=$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status" 2>/dev/null)
    [ -n "$mask" ] && [ $((16#$mask & 2)) -ne 0 ]
}

# A command that would go on for minutes and must, once it is at work, be ended by Ctrl-C: soon, with status 130, by
# itself, and without a word of what it would have answered. Twenty seconds are soon on a machine that is busy.
stops_soon() { # name command ...
    local name=$1 process waited=0
    shift
    "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" &
    process=$!
    while kill -0 $process 2>/dev/null && ! catches_interrupts $process; do sleep 0.1; done
    sleep 1
    kill -INT $process
    while kill -0 $process 2>/dev/null && [ $waited -lt 200 ]; do
        sleep 0.1
        waited=$((waited + 1))
    done
    kill -KILL $process 2>/dev/null
    wait $process 2>/dev/null
    status=$?
    if [ "$status" -eq 130 ] && [ ! -s "$SCRATCH/out" ] && grep -q 'stopped' "$SCRATCH/err"; then
        pass "$name"
    else
        fail "$name" "status $status after $waited tenths of a second, output:" "$(shown "$SCRATCH/out")" "errors:" "$(shown "$SCRATCH/err")"
    fi
}
