#!/usr/bin/env bash
# Runs a few programs of the release build under valgrind, which finds leaks, accesses outside of blocks and, unlike the
# sanitizers, decisions that depend on uninitialised values.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

programs="rows are sharpened|statistics are printed|policies are listed|memory runs out|a pool is forked|a pool is shared"
reason=
if ! command -v valgrind >/dev/null 2>&1; then
    reason="valgrind is not installed"
elif [ -n "${WHET_INSTRUMENTED:-}" ]; then
    reason="this build is instrumented ($WHET_INSTRUMENTED)"
fi
if [ -n "$reason" ]; then
    IFS='|'
    for name in $programs; do
        skip "no error when $name" "$reason"
    done
    finish
fi

# --fair-sched: threads that wait for each other would otherwise starve one another.
watched() {
    valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible \
        --errors-for-leak-kinds=definite,indirect,possible --fair-sched=yes "$@"
}

# One row of each kind: plain, several blocks long, masked, empty, non-finite.
rows() {
    echo "1 2 3 4 5 6 7 8 9 10 11"
    seq -s ' ' 1 0.01 60
    echo "-inf -inf 3 -inf"
    echo "-inf -inf"
    echo
    echo "1 nan 2"
}

sharpens() {
    local arguments=() name
    while read -r name; do
        arguments+=(--policy "$name")
    done < <("$WHET_BIN" policies --names)
    rows >"$SCRATCH/rows"
    # The non-finite row makes the status 1.
    watched "$WHET_BIN" softmax "${arguments[@]}" "$@" "$SCRATCH/rows"
    [ $? -eq 1 ]
}

if [ -n "${WHET_BIN:-}" ]; then
    check "no error when rows are sharpened" sharpens
    check "no error when statistics are printed" sharpens --stats
    check "no error when policies are listed" watched "$WHET_BIN" policies --json
fi
tests=$WHET_BUILD_DIR/tests/parallel
check "no error when memory runs out" watched "$tests/test_alloc_faults" allocate_nothing without_memory
check "no error when a pool is forked" watched "$tests/test_pool" after_fork_the_child_uses \
    after_fork_the_child_may_destroy running_workers
check "no error when a pool is shared" watched "$tests/test_concurrent" first decoding tasks_of_one_plan
finish
