#!/usr/bin/env bash
# Runs a few programs under valgrind, which sees what no sanitizer's build does: the release build itself, with every block
# lost, every uninitialised value that decides something, and every step beside a block.
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
        skip "no error where $name" "$reason"
    done
    finish
fi

# --fair-sched: threads that wait for each other would otherwise starve one another for long.
watched() {
    valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible \
        --errors-for-leak-kinds=definite,indirect,possible --fair-sched=yes "$@"
}

# One row of everything: plain, long enough for several blocks, masked, empty, not finite.
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
    # The row that is not finite makes the status 1.
    watched "$WHET_BIN" softmax "${arguments[@]}" "$@" "$SCRATCH/rows"
    [ $? -eq 1 ]
}

if [ -n "${WHET_BIN:-}" ]; then
    check "no error where rows are sharpened" sharpens
    check "no error where statistics are printed" sharpens --stats
    check "no error where policies are listed" watched "$WHET_BIN" policies --json
fi
tests=$WHET_BUILD_DIR/tests/parallel
check "no error where memory runs out" watched "$tests/test_alloc_faults" allocate_nothing without_memory
check "no error where a pool is forked" watched "$tests/test_pool" after_fork_the_child_uses \
    after_fork_the_child_may_destroy workers_at_work
check "no error where a pool is shared" watched "$tests/test_concurrent" first decoding tasks_of_one_plan
finish
