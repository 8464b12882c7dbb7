#!/usr/bin/env bash
# A rank that dies while the others wait for it ends the job, with a message, and soon:
#
#     death.sh openmpi|mpich MPIRUN PROGRAM
. "$WHET_SOURCE_DIR/tests/support/check.sh"

dies() { # mpi mpirun program plan
    local status=0
    timeout 60 bash -c '. "$0"; launch "$@"' "$WHET_SOURCE_DIR/tests/mpi/launch.sh" "$1" "$2" 3 "$3" "$4" \
        >"$SCRATCH/out" 2>&1 || status=$?
    cat "$SCRATCH/out"
    # 124: it took the whole minute
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -Eqi 'killed|signal 9|exit code: 9' "$SCRATCH/out" &&
        ! grep -q 'has survived' "$SCRATCH/out"
}
for plan in decode prefill backward; do
    check "a rank that dies in $plan ends the job" dies "$@" $plan
done
finish
