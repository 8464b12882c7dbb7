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

/* Everyone must get this status and sentence, after the number of the last rank. */
static void expect_refusal(whet_status got, whet_status status, const whet_mpi_plan *plan,
                           const char *sentence) {
    char right[512];
    snprintf(right, sizeof right, "rank %d: %s", launched_ranks() - 1, sentence);
    CHECK_INT(got, status);
    CHECK_STR(whet_mpi_last_error(), right);
    CHECK(plan == NULL);
}

static void expect(const whet_attention *a, whet_status status, const char *sentence) {
    whet_mpi_plan *plan = (whet_mpi_plan *)&plan;
    whet_status got = whet_mpi_decode_plan(MPI_COMM_WORLD, a, NULL, &plan);
    expect_refusal(got, status, plan, sentence);
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

/* ---- plans of spread queries ---- */

static float grads[2 * 256 * 8], given[2 * 256 * 8];
static whet_stats stats[2 * 256];

/* Queries and keys of this rank, with statistics, and gradients of q, k and v. */
static whet_gradients spread_description(void) {
    whet_gradients g = {.size = sizeof g, .attention = description(), .out = {.data = given}};
    g.attention.queries = 256;
    g.attention.q.data = given;
    g.attention.out = (whet_tensor_out){.data = grads};
    g.attention.stats = stats;
    g.q = (whet_tensor_out){.data = grads};
    return g;
}

static void expect_prefill(const whet_attention *a, whet_mpi_layout layout, whet_status status,
                           const char *sentence) {
    whet_mpi_plan *plan = (whet_mpi_plan *)&plan;
    whet_status got = whet_mpi_prefill_plan(MPI_COMM_WORLD, a, layout, NULL, &plan);
    expect_refusal(got, status, plan, sentence);
}

static void expect_backward(const whet_gradients *g, whet_status status, const char *sentence) {
    whet_mpi_plan *plan = (whet_mpi_plan *)&plan;
    whet_status got = whet_mpi_backward_plan(MPI_COMM_WORLD, g, WHET_MPI_ZIGZAG, NULL, &plan);
    expect_refusal(got, status, plan, sentence);
}

TEST(prefill_that_is_wrong_on_one_rank_is_refused_by_all) {
    whet_gradients g = spread_description();
    whet_attention a = g.attention;
    if (is_last())
        a.out.data = NULL;
    expect_prefill(&a, WHET_MPI_BLOCK, WHET_ERROR_ARGUMENT, "out.data is NULL");
    a = g.attention;
    if (is_last())
        a.v.type = WHET_CUSTOM;
    if (launched_ranks() > 1)
        expect_prefill(&a, WHET_MPI_BLOCK, WHET_ERROR_ARGUMENT, "v.type is 255, but 0 on rank 0");
    a = g.attention;
    if (launched_ranks() > 1)
        expect_prefill(&a, is_last() ? WHET_MPI_ZIGZAG : WHET_MPI_BLOCK, WHET_ERROR_ARGUMENT,
                       "layout is 1, but 0 on rank 0");
    float bias[256] = {0};
    if (is_last())
        a.bias.data = bias;
    if (launched_ranks() > 1)
        expect_prefill(&a, WHET_MPI_BLOCK, WHET_ERROR_ARGUMENT,
                       "the presence of a bias is 1, but 0 on rank 0");
}

TEST(a_backward_pass_that_is_wrong_on_one_rank_is_refused_by_all) {
    whet_gradients g = spread_description();
    char text[100];
    if (is_last())
        g.size = 5;
    snprintf(text, sizeof text, "size is 5, but sizeof(whet_gradients) is %zu", sizeof g);
    expect_backward(&g, WHET_ERROR_ARGUMENT, text);
    g = spread_description();
    if (is_last())
        g.attention.q.data = NULL;
    expect_backward(&g, WHET_ERROR_ARGUMENT, "attention.q.data is NULL");
    g = spread_description();
    if (is_last())
        g.out.reserved = 1;
    expect_backward(&g, WHET_ERROR_ARGUMENT, "out.reserved is 1, not 0");
    expect_backward(is_last() ? NULL : &g, WHET_ERROR_ARGUMENT, "the description is NULL");
    if (launched_ranks() == 1)
        return;
    g = spread_description();
    if (is_last())
        g.q.data = NULL;
    expect_backward(&g, WHET_ERROR_ARGUMENT, "the presence of q's gradient is 0, but 1 on rank 0");
    g = spread_description();
    if (is_last())
        g.attention.stats = NULL;
    expect_backward(&g, WHET_ERROR_ARGUMENT, "the presence of stats is 0, but 1 on rank 0");
    g = spread_description();
    if (is_last())
        g.attention.scale = 2;
    expect_backward(&g, WHET_ERROR_ARGUMENT, "scale differs from that of rank 0");
}
