#!/usr/bin/env bash
# The example prints the same with any number of ranks. Arguments: openmpi|mpich MPIRUN.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"
# shellcheck source=tests/mpi/launch.sh
. "$WHET_SOURCE_DIR/tests/mpi/launch.sh"

run() { launch "$1" "$2" "$3" "$WHET_BUILD_DIR/examples/mpi_decode_$1"; }

sharpens() {
    run "$1" "$2" 1 >"$SCRATCH/one" && cat "$SCRATCH/one" &&
        awk '/^softmax/ { plain = $NF } /^adaptive/ { sharp = $NF } END { exit !(sharp > 2 * plain) }' "$SCRATCH/one"
}
check "mpi_decode sharpens" sharpens "$1" "$2"

same() { # mpi mpirun ranks
    run "$@" >"$SCRATCH/several" && diff "$SCRATCH/one" "$SCRATCH/several"
}
for ranks in 2 3; do
    check "mpi_decode prints the same with $ranks ranks" same "$1" "$2" $ranks
done
finish
