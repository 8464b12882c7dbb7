# shellcheck shell=bash
# For scripts that run the program over ranks; $mpi and $mpirun are set.
# shellcheck source=tests/mpi/launch.sh
. "$WHET_SOURCE_DIR/tests/mpi/launch.sh"

run() { # ranks argument ...
    local ranks=$1
    shift
    # shellcheck disable=SC2154 # mpi, mpirun
    timeout 120 bash -c '. "$0"; launch "$@"' "$WHET_SOURCE_DIR/tests/mpi/launch.sh" "$mpi" "$mpirun" "$ranks" "$WHET_BIN" "$@"
}

# The processes of a run in a folder: the launcher's command line has its words, too, but it is another program.
ranks_of() { # folder
    local pid
    for pid in $(pgrep -f -- "-o $1"); do
        [ "$(readlink "/proc/$pid/exe")" -ef "$WHET_BIN" ] && echo "$pid"
    done
}

# Kills a rank once there is a file, and waits for the job to end.
killed_at() { # file result command ...
    local file=$1 result=$2 pid
    shift 2
    run 3 "$@" -o "$result" >"$SCRATCH/killed.log" 2>&1 &
    local job=$!
    for _ in $(seq 600); do
        compgen -G "$file" >/dev/null && break
        sleep 0.05
    done
    pid=$(ranks_of "$result" | tail -n 1)
    [ -n "$pid" ] || { echo "no rank to kill"; cat "$SCRATCH/killed.log"; return 1; }
    kill -9 "$pid"
    if wait "$job"; then
        echo "the job ended well without one of its ranks"
        return 1
    fi
}
