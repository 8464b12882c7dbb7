#!/usr/bin/env bash
# Runs a test program of libwhet_mpi with 1, 2, 3, 4 and 7 ranks (WHET_TEST_RANKS), more than there are processors:
#
#     run.sh openmpi|mpich MPIRUN PROGRAM [ARGUMENT ...]
#
# A test case passes if it does on every rank. Ranks other than the first write to a file, printed if one of them fails.
. "$WHET_SOURCE_DIR/tests/support/check.sh"
. "$WHET_SOURCE_DIR/tests/mpi/launch.sh"

mpi=$1 mpirun=$2
shift 2
export WHET_DETECT_LEAKS=1 # launched.c names what is MPI's
for ranks in ${WHET_TEST_RANKS:-1 2 3 4 7}; do
    export WHET_MPI_LOG=$SCRATCH/ranks-$ranks
    if launch "$mpi" "$mpirun" "$ranks" "$@" >"$SCRATCH/out" 2>&1; then
        while read -r word name; do
            case $word in
            ok) pass "$name with $ranks ranks" ;;
            skip) skip "${name%%: *} with $ranks ranks" "${name#*: }" ;;
            esac
        done <"$SCRATCH/out"
    else
        fail "all tests with $ranks ranks" "$(cat "$SCRATCH/out")" \
            "$(grep -h -B 8 '^FAIL' "$WHET_MPI_LOG".* 2>/dev/null | head -60)"
    fi
done
finish
