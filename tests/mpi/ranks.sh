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
