/*
 * A rank that dies while the others wait for it: death.sh, which starts this, looks at what becomes
 * of the job. The argument names the kind of plan.
 */
#include "mpi/launched.h"
#include "support/check.h"

#include <signal.h>
#include <stdio.h>

static float q[256 * 8], k[256 * 8], v[256 * 8], out[256 * 8];
static whet_stats stats[256];

static whet_gradients description(size_t queries) {
    return (whet_gradients){.size = sizeof(whet_gradients),
                            .attention = {.size = sizeof(whet_attention),
                                          .heads = 1,
                                          .queries = queries,
                                          .keys = 256,
                                          .head_dim = 8,
                                          .q = {.data = q},
                                          .k = {.data = k},
                                          .v = {.data = v},
                                          .out = {.data = out},
                                          .stats = stats},
                            .out = {.data = q},
                            .q = {.data = out}};
}

/* The last rank dies once all have planned; the others must not get past their next step. */
static void die_in(whet_mpi_plan *plan) {
    if (launched_rank() == launched_ranks() - 1)
        raise(SIGKILL);
    whet_mpi_execute(plan, NULL);
    fprintf(stderr, "rank %d has survived\n", launched_rank());
    whet_mpi_destroy(plan);
}

TEST(decode) {
    whet_gradients g = description(1);
    whet_mpi_plan *plan;
    REQUIRE(whet_mpi_decode_plan(MPI_COMM_WORLD, &g.attention, NULL, &plan) == WHET_OK);
    die_in(plan);
}

TEST(prefill) {
    whet_gradients g = description(256);
    whet_mpi_plan *plan;
    REQUIRE(whet_mpi_prefill_plan(MPI_COMM_WORLD, &g.attention, WHET_MPI_BLOCK, NULL, &plan) ==
            WHET_OK);
    die_in(plan);
}

TEST(backward) {
    whet_gradients g = description(256);
    whet_mpi_plan *plan;
    REQUIRE(whet_mpi_backward_plan(MPI_COMM_WORLD, &g, WHET_MPI_BLOCK, NULL, &plan) == WHET_OK);
    die_in(plan);
}
