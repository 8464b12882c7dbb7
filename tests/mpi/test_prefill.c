/*
 * Attention of queries and keys that are both spread over ranks, in both layouts: against the
 * reference with one rank, and bit for bit against one rank with more of them.
 */
#include "mpi/spread.h"
#include "support/check.h"
#include "support/guarded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one rank, which has everything ---- */

static whet_status run(MPI_Comm comm, const whet_attention *a, whet_mpi_layout layout,
                       const whet_executor *executor, uint64_t *first_bad_row) {
    whet_mpi_plan *plan;
    whet_status status = whet_mpi_prefill_plan(comm, a, layout, executor, &plan);
    CHECK_MSG(status == WHET_OK, "%s", whet_mpi_last_error());
    if (status != WHET_OK)
        return status;
    status = whet_mpi_execute(plan, first_bad_row);
    whet_mpi_destroy(plan);
    return status;
}

static whet_mpi_layout layout;

/* What is not supported, the largest logits, is left to libwhet. */
static whet_status forward_on_one(const whet_attention *whole, const whet_executor *executor,
                                  uint64_t *first_bad_row) {
    whet_attention a = *whole;
    if (a.max_logits)
        whet_attention_forward(whole, executor, NULL);
    a.max_logits = NULL;
    return run(MPI_COMM_SELF, &a, layout, executor, first_bad_row);
}

/* ---- all ranks ---- */

static void compare_ranks(example *e, const char *what) {
    size_t memories = e->memories, heads = e->q.extent[1], queries = e->q.extent[2],
           dim = e->v.extent[3];
    whet_mpi_share q_share, k_share;
    whet_mpi_local_size(MPI_COMM_WORLD, queries, layout, &q_share);
    whet_mpi_local_size(MPI_COMM_WORLD, e->attention.keys, layout, &k_share);
    size_t rows = e->q.extent[0] * heads, own = q_share.positions;
    float *all = malloc(rows * queries * dim * sizeof *all + 1);
    float *part = malloc(rows * own * dim * sizeof *part + 1);
    whet_stats *all_stats = malloc((rows * queries + 1) * sizeof *all_stats);
    whet_stats *part_stats = malloc((rows * own + 1) * sizeof *part_stats);
    REQUIRE(all && part && all_stats && part_stats);
    uint64_t bad = UINT64_MAX, all_bad = UINT64_MAX;
    whet_attention whole = e->attention, local = spread_part(e, &q_share, &k_share);
    whole.out.data = all;
    whole.stats = all_stats;
    local.out.data = part;
    local.stats = part_stats;
    whet_status status = run(MPI_COMM_WORLD, &local, layout, NULL, &bad);
    CHECK_INT(status, run(MPI_COMM_SELF, &whole, layout, NULL, &all_bad));
    CHECK_INT(bad, all_bad);
    size_t wrong = 0;
    for (size_t i = 0; i < rows * own; i++) {
        size_t at = i / (own ? own : 1) * queries + spread_position(&q_share, i % own);
        wrong += !same_bytes(part + i * dim, all + at * dim, dim * sizeof *all) ||
                 !same_bytes(&part_stats[i], &all_stats[at], sizeof *all_stats);
    }
    CHECK_MSG(wrong == 0, "%s: %zu of %zu rows have other bits", what, wrong, rows * own);
    free(all);
    free(part);
    free(all_stats);
    free(part_stats);
    while (e->memories > memories)
        guarded_free(e->memory[--e->memories]);
}

static void check_both(example *e, const char *what) {
    example_forward = forward_on_one;
    for (int l = WHET_MPI_BLOCK; l <= WHET_MPI_ZIGZAG; l++) {
        layout = (whet_mpi_layout)l;
        if (launched_ranks() == 1)
            example_check(e, what);
        compare_ranks(e, what);
    }
}

static example example_of(size_t queries, size_t keys, size_t seed) {
    example_shape shape = {.queries = queries, .keys = keys, .head_dim = 20, .seed = seed};
    shape.heads = 4;
    shape.kv_heads = 2;
    return example_new(shape);
}

static const size_t some_sizes[][2] = {{1, 1}, {33, 33}, {70, 70}, {65, 200}, {300, 300}, {40, 0}};
#define SOME_SIZES (sizeof some_sizes / sizeof some_sizes[0])

TEST(every_size_agrees_causal_and_full) {
    for (size_t i = 0; i < SOME_SIZES; i++) {
        for (uint32_t flags = 0; flags <= WHET_CAUSAL; flags++) {
            char what[100];
            snprintf(what, sizeof what, "%zu queries, %zu keys, flags %u", some_sizes[i][0],
                     some_sizes[i][1], flags);
            example e = example_of(some_sizes[i][0], some_sizes[i][1], i);
            e.attention.flags = flags;
            e.attention.offset = (int64_t)some_sizes[i][1] - (int64_t)some_sizes[i][0];
            example_policy(&e, i % 2 ? "adaptive" : "softmax");
            check_both(&e, what);
            example_free(&e);
        }
    }
}

TEST(temperatures_compositions_and_sinks_agree) {
    static const char *const names[][4] = {
        {"adaptive", "softmax", "ssmax:0.4", "length:16"},
        {"adaptive+softmax1", "softmax1", "hinge:0.1:0.2:16", "exp:3:strength=0.5"},
    };
    for (size_t i = 0; i < 2; i++) {
        example e = example_of(130, 130, i);
        e.attention.flags = WHET_CAUSAL;
        example_policies(&e, names[i], 4);
        check_both(&e, names[i][0]);
        example_sinks(&e);
        check_both(&e, "with sinks");
        example_free(&e);
    }
}

/* Searches and maps, some with logits that equal each other. */
TEST(maps_and_searches_agree) {
    static const char *const names[][4] = {
        {"target:1.5", "softmax", "target:1.2:strength=0.6", "target:0.7:cap=3"},
        {"topk:5", "hardmax", "entmax15", "sparsemax"},
        {"sigmoid", "stick-breaking", "softpick", "entmax:1.25"},
        {"target:1+topk:7", "adaptive+entmax15", "ssmax:0.4+stick-breaking", "exp:3+sigmoid:0.5"},
        {"topk:1000", "adaptive+hardmax", "length:16+softpick", "softmax1"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        example e = example_of(i % 2 ? 130 : 200, i % 2 ? 130 : 200, i);
        e.attention.flags = i % 2 ? 0 : WHET_CAUSAL;
        example_make_exact(&e);
        example_policies(&e, names[i], 4);
        check_both(&e, names[i][0]);
        example_sinks(&e);
        check_both(&e, "with sinks");
        example_free(&e);
    }
}

TEST(maps_agree_under_masks_windows_and_given_betas) {
    static const char *const names[][4] = {{"topk:3", "entmax15", "sigmoid", "stick-breaking"},
                                           {"target:1", "hardmax", "softpick", "adaptive"}};
    for (size_t i = 0; i < 2; i++) {
        example e = example_of(150, 150, i + 7);
        e.attention.flags = WHET_CAUSAL;
        e.attention.window = i ? 0 : 40;
        example_make_exact(&e);
        example_policies(&e, names[i], 4);
        example_mask(&e, MASK_QUERIES, WHET_F32, 0);
        check_both(&e, "a mask");
        example_bias(&e, MASK_HEADS, 0);
        e.attention.softcap = 4;
        check_both(&e, "a bias and a soft-cap");
        if (i == 0) {
            example_betas(&e);
            check_both(&e, "given betas");
        }
        example_free(&e);
    }
}

/* The reference does not know positions; libwhet does. */
TEST(betas_by_position_are_those_of_one_machine) {
    enum { N = 100, DIM = 20 };
    example e = example_of(N, N, 9);
    static float expected[4 * N * DIM], out[4 * N * DIM];
    whet_mpi_share share;
    example_policy(&e, "llama4:0.5:16");
    e.attention.flags = WHET_CAUSAL;
    e.attention.out.data = expected;
    CHECK(whet_attention_forward(&e.attention, NULL, NULL) == WHET_OK);
    whet_mpi_local_size(MPI_COMM_WORLD, N, WHET_MPI_ZIGZAG, &share);
    whet_attention part = spread_part(&e, &share, &share);
    part.out.data = out;
    CHECK(run(MPI_COMM_WORLD, &part, WHET_MPI_ZIGZAG, NULL, NULL) == WHET_OK);
    for (size_t i = 0; i < 4 * share.positions; i++)
        for (size_t c = 0; c < DIM; c++) {
            size_t at = i / share.positions * N + spread_position(&share, i % share.positions);
            CHECK_NEAR(out[i * DIM + c], expected[at * DIM + c], 4e-6 * e.max_value);
        }
    example_free(&e);
}

TEST(windows_slopes_masks_biases_and_betas_agree) {
    for (size_t i = 0; i < 2; i++) {
        example e = example_of(150, 150, i);
        e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
        e.attention.window = 40;
        example_policy(&e, "adaptive");
        example_alibi(&e);
        check_both(&e, "slopes and a window");
        e.attention.window = 0;
        example_mask(&e, MASK_QUERIES, WHET_F32, 0);
        example_bias(&e, i ? MASK_HEADS : 0, 0);
        check_both(&e, "mask and bias");
        example_policy(&e, "softmax");
        example_betas(&e);
        check_both(&e, "betas");
        example_free(&e);
    }
}

TEST(odd_examples_agree) {
    for (size_t i = 0; i < ODD_EXAMPLES; i++) {
        example e = launched_odd(i, ODD_SPREAD);
        check_both(&e, "odd");
        example_sinks(&e);
        check_both(&e, "odd, with sinks");
        example_free(&e);
    }
}

TEST(types_and_layouts_agree) {
    static const whet_type types[] = {WHET_F16, WHET_BF16, WHET_Q8_0};
    for (size_t i = 0; i < 3; i++) {
        example_shape shape = {.queries = 70, .keys = 70, .head_dim = 32, .seed = i};
        shape.batch = 2;
        shape.heads = 4;
        shape.kv_heads = 2;
        shape.k_type = types[i];
        shape.v_type = types[(i + 1) % 3];
        shape.layout = i == 1 ? TOKENS_FIRST : CONTIGUOUS;
        example e = example_new(shape);
        e.attention.flags = WHET_CAUSAL;
        example_policy(&e, "adaptive");
        check_both(&e, whet_type_name(types[i]));
        example_free(&e);
    }
}

TEST(rows_that_are_not_finite_agree) {
    example e = example_of(90, 90, 3);
    e.attention.flags = WHET_CAUSAL;
    example_set(&e.k, 0, 1, 50, 3, NAN);
    example_policy(&e, "adaptive");
    check_both(&e, "NaN in a key");
    example_free(&e);
}

TEST(what_is_not_supported_is_refused_by_all) {
    example e = example_of(10, 10, 1);
    float out[4 * 10 * 20];
    whet_mpi_plan *plan;
    whet_mpi_share share;
    e.attention.out.data = out;
    whet_mpi_local_size(MPI_COMM_WORLD, 10, WHET_MPI_BLOCK, &share);
    whet_attention part = spread_part(&e, &share, &share);
    float max_logits[4];
    part.max_logits = max_logits;
    CHECK_INT(whet_mpi_prefill_plan(MPI_COMM_WORLD, &part, WHET_MPI_BLOCK, NULL, &plan),
              WHET_ERROR_UNSUPPORTED);
    CHECK(strstr(whet_mpi_last_error(), "max_logits: only with decode plans"));
    part.max_logits = NULL;
    part.skip = 0.25f;
    CHECK_INT(whet_mpi_prefill_plan(MPI_COMM_WORLD, &part, WHET_MPI_BLOCK, NULL, &plan),
              WHET_ERROR_UNSUPPORTED);
    CHECK(strstr(whet_mpi_last_error(), "skip is 0.25"));
    example_free(&e);
}
