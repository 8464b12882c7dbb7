/*
 * What one rank gets wrong is refused by all of them, with the same status and sentence, and none
 * waits for another. Every test makes the last rank the odd one out.
 */
#include "mpi/launched.h"
#include "support/check.h"

#include <stdio.h>
#include <string.h>

static float q[2 * 8], k[256 * 8], v[256 * 8], out[2 * 8];
static whet_policy policy;

static int is_last(void) { return launched_rank() == launched_ranks() - 1; }

static whet_attention description(void) {
    policy = whet_policy_adaptive();
    whet_attention a = {.size = sizeof a,
                        .heads = 2,
                        .kv_heads = 1,
                        .queries = 1,
                        .keys = 256,
                        .head_dim = 8,
                        .q = {.data = q},
                        .k = {.data = k},
                        .v = {.data = v},
                        .out = {.data = out},
                        .policies = &policy};
    return a;
}

/* Everyone must get this status and sentence, in which %d is the last rank. */
static void expect(const whet_attention *a, whet_status status, const char *sentence) {
    char right[512];
    whet_mpi_plan *plan = (whet_mpi_plan *)&plan;
    snprintf(right, sizeof right, "rank %d: %s", launched_ranks() - 1, sentence);
    CHECK_INT(whet_mpi_decode_plan(MPI_COMM_WORLD, a, NULL, &plan), status);
    CHECK_STR(whet_mpi_last_error(), right);
    CHECK(plan == NULL);
}

TEST(a_description_that_is_wrong_on_one_rank_is_refused_by_all) {
    whet_attention a = description();
    if (is_last())
        a.heads = 0;
    expect(&a, WHET_ERROR_ARGUMENT, "heads is 0");
    a = description();
    if (is_last())
        a.size = 3;
    char text[100];
    snprintf(text, sizeof text, "size is 3, but sizeof(whet_attention) is %zu", sizeof a);
    expect(&a, WHET_ERROR_ARGUMENT, text);
    a = description();
    if (is_last())
        a.k.data = NULL;
    expect(&a, WHET_ERROR_ARGUMENT, "k.data is NULL");
    a = description();
    if (is_last())
        a.skip = 0.25f;
    expect(&a, WHET_ERROR_UNSUPPORTED,
           "skip is 0.25: no values are left out of a context that is spread over ranks; set it "
           "to 0");
    expect(is_last() ? NULL : &a, WHET_ERROR_ARGUMENT, "the description is NULL");
}

TEST(a_policy_that_is_wrong_on_one_rank_is_refused_by_all) {
    whet_attention a = description();
    whet_policy wrong = whet_policy_entmax(7);
    if (is_last())
        a.policies = &wrong;
    expect(&a, WHET_ERROR_POLICY, "policies[0]: entmax needs 1 < a <= 2, not 7");
}

TEST(an_executor_without_workers_is_refused_by_all) {
    whet_attention a = description();
    whet_mpi_plan *plan;
    whet_pool *pool;
    CHECK(whet_pool_create(1, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    if (is_last())
        executor.workers = 0;
    CHECK_INT(whet_mpi_decode_plan(MPI_COMM_WORLD, &a, &executor, &plan), WHET_ERROR_ARGUMENT);
    CHECK(strstr(whet_mpi_last_error(), "executor.workers is 0"));
    whet_pool_destroy(pool);
}

static void expect_difference(const whet_attention *a, const char *sentence) {
    if (launched_ranks() == 1)
        SKIP("one rank has nobody to disagree with");
    expect(a, WHET_ERROR_ARGUMENT, sentence);
}

TEST(sizes_that_differ_are_refused_by_all) {
    whet_attention a = description();
    if (is_last())
        a.keys = 128;
    expect_difference(&a, "keys is 128, but 256 on rank 0");
    a = description();
    if (is_last())
        a.flags = WHET_CAUSAL;
    expect_difference(&a, "flags is 1, but 0 on rank 0");
}

TEST(policies_and_sinks_that_differ_are_refused_by_all) {
    float sinks[2] = {1, 2};
    whet_policy other = whet_policy_softmax();
    whet_attention a = description();
    if (is_last())
        a.policies = &other;
    expect_difference(&a, "policies differs from that of rank 0");
    a = description();
    a.sinks = sinks;
    sinks[1] += (float)is_last();
    expect_difference(&a, "sinks differs from that of rank 0");
}

TEST(calls_that_need_no_agreement_are_refused_where_they_are_wrong) {
    whet_mpi_share share;
    CHECK_INT(whet_mpi_local_size(MPI_COMM_NULL, 1, WHET_MPI_BLOCK, &share), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_mpi_local_size(MPI_COMM_WORLD, 1, (whet_mpi_layout)9, &share),
              WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_mpi_local_size(MPI_COMM_WORLD, 1, WHET_MPI_BLOCK, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_mpi_share_of(1, WHET_MPI_BLOCK, 2, 2, &share), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_mpi_execute(NULL, NULL), WHET_ERROR_ARGUMENT);
    whet_mpi_destroy(NULL);
}

/* Planning must be possible again: nothing of a refused plan is left in the way. */
TEST(a_refused_plan_leaves_the_communicator_usable) {
    whet_attention a = description();
    whet_mpi_plan *plan;
    whet_mpi_share share;
    CHECK(whet_mpi_local_size(MPI_COMM_WORLD, a.keys, WHET_MPI_BLOCK, &share) == WHET_OK);
    if (launched_ranks() > 1) {
        a.heads += is_last() ? 2 : 0;
        CHECK_INT(whet_mpi_decode_plan(MPI_COMM_WORLD, &a, NULL, &plan), WHET_ERROR_ARGUMENT);
    }
    a = description();
    for (size_t i = 0; i < 256 * 8; i++)
        v[i] = 2;
    REQUIRE(whet_mpi_decode_plan(MPI_COMM_WORLD, &a, NULL, &plan) == WHET_OK);
    CHECK_INT(whet_mpi_execute(plan, NULL), WHET_OK);
    CHECK_NEAR(out[3], 2, 1e-6);
    whet_mpi_destroy(plan);
}
