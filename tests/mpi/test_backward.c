/*
 * The backward pass over ranks, in both layouts: against the reference with one rank, and bit for
 * bit against one rank with more of them.
 */
#include "attention/backward_run.h"
#include "mpi/spread.h"
#include "support/check.h"
#include "support/guarded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static whet_mpi_layout layout;
static whet_mpi_counts counts;

static whet_status run(MPI_Comm comm, const whet_gradients *g, const whet_executor *executor,
                       uint64_t *first_bad_row) {
    whet_mpi_plan *plan;
    whet_status status = whet_mpi_backward_plan(comm, g, layout, executor, &plan);
    CHECK_MSG(status == WHET_OK, "%s", whet_mpi_last_error());
    if (status != WHET_OK)
        return status;
    status = whet_mpi_execute(plan, first_bad_row);
    counts = whet_mpi_counts_of(plan);
    whet_mpi_destroy(plan);
    return status;
}

static whet_executor two_threads(void) {
    static whet_pool *pool;
    if (!pool)
        REQUIRE(whet_pool_create(2, &pool) == WHET_OK);
    return whet_pool_executor(pool);
}

/* ---- one rank, or all ---- */

/* One rank's part of a backward pass, and where its results are. */
typedef struct part {
    whet_mpi_share queries, keys;
    whet_gradients g;
} part;

static float *copy_rows(example *e, const float *rows, const whet_mpi_share *share) {
    size_t heads = e->attention.heads, all = e->q.extent[2];
    ptrdiff_t one = sizeof(float);
    if (!rows)
        return NULL;
    return spread_copy(e, rows,
                       (ptrdiff_t[]){(ptrdiff_t)(heads * all) * one, (ptrdiff_t)all * one, one},
                       e->q.extent[0], heads, sizeof(float), share);
}

static whet_tensor_out place(example *e, const example_tensor *of, size_t positions) {
    size_t rows = of->extent[0] * of->extent[1] * positions;
    return (whet_tensor_out){
        .data = of->base ? example_memory(e, rows * whet_type_row_bytes(of->type, of->extent[3]))
                         : NULL,
        .type = of->type};
}

static size_t bias_count(const whet_gradients *g, size_t keys) {
    size_t batch = g->attention.batch ? g->attention.batch : 1;
    return (g->bias.stride[0] ? batch : 1) * (g->bias.stride[1] ? g->attention.heads : 1) * keys;
}

static part part_of(example *e, const backward_run *w) {
    part p = {.g = w->gradients};
    whet_gradients *g = &p.g;
    size_t heads = e->attention.heads, batch = e->q.extent[0], queries = e->q.extent[2];
    ptrdiff_t one = sizeof(whet_stats);
    whet_mpi_local_size(MPI_COMM_WORLD, queries, layout, &p.queries);
    whet_mpi_local_size(MPI_COMM_WORLD, e->attention.keys, layout, &p.keys);
    g->attention = spread_part(e, &p.queries, &p.keys);
    g->attention.out = (whet_tensor_out){.data = NULL};
    g->attention.stats = spread_copy(
        e, e->attention.stats,
        (ptrdiff_t[]){(ptrdiff_t)(heads * queries) * one, (ptrdiff_t)queries * one, one}, batch,
        heads, sizeof(whet_stats), &p.queries);
    size_t row = whet_type_row_bytes(w->out.type, w->out.extent[3]);
    if (g->out.data)
        g->out = (whet_tensor){
            .data = spread_copy(e, w->out.base, w->out.stride, batch, heads, row, &p.queries),
            .type = w->out.type};
    g->q = g->q.data ? place(e, &w->q, p.queries.positions) : g->q;
    g->k = g->k.data ? place(e, &w->k, p.keys.positions) : g->k;
    g->v = g->v.data ? place(e, &w->v, p.keys.positions) : g->v;
    size_t policies = e->attention.policy_count > 1 ? e->attention.policy_count : 1;
    g->policies = g->policies ? example_memory(e, policies * sizeof *g->policies) : NULL;
    g->sinks = g->sinks ? example_memory(e, heads * sizeof(float)) : NULL;
    g->alibi_slopes = g->alibi_slopes ? example_memory(e, heads * sizeof(float)) : NULL;
    g->betas = example_memory(e, batch * heads * p.queries.positions * sizeof(float));
    g->logsumexp = copy_rows(e, g->logsumexp, &p.queries);
    g->entropy = copy_rows(e, g->entropy, &p.queries);
    g->entropy_after = copy_rows(e, g->entropy_after, &p.queries);
    if (g->bias.data) {
        ptrdiff_t step = (ptrdiff_t)(p.keys.positions * sizeof(float));
        g->bias.data = example_memory(e, bias_count(g, p.keys.positions) * sizeof(float));
        if (g->bias.stride[0])
            g->bias.stride[0] = step * (ptrdiff_t)(g->bias.stride[1] ? heads : 1);
        if (g->bias.stride[1])
            g->bias.stride[1] = step;
    }
    return p;
}

/* Rows of this rank that are not those of the whole. */
static size_t different_rows(const whet_tensor_out *mine, const example_tensor *whole,
                             const whet_mpi_share *share) {
    size_t row = whet_type_row_bytes(whole->type, whole->extent[3]), wrong = 0;
    const char *at = mine->data;
    for (size_t i = 0; at && i < whole->extent[0] * whole->extent[1]; i++)
        for (size_t j = 0; j < share->positions; j++, at += row)
            wrong += !same_bytes(at,
                                 example_row(whole, i / whole->extent[1], i % whole->extent[1],
                                             spread_position(share, j)),
                                 row);
    return wrong;
}

static size_t different_floats(const float *mine, const float *whole, size_t rows, size_t positions,
                               const whet_mpi_share *share) {
    size_t wrong = 0;
    for (size_t i = 0; mine && i < rows * share->positions; i++) {
        size_t at = spread_position(share, i % share->positions);
        wrong += !same_bytes(mine + i, whole + i / share->positions * positions + at, sizeof *mine);
    }
    return wrong;
}

static void compare_ranks(example *e, backward_run *w, const char *what) {
    size_t memories = e->memories, heads = e->attention.heads;
    whet_executor two = two_threads();
    uint64_t bad = UINT64_MAX;
    part p = part_of(e, w);
    w->first_bad_row = UINT64_MAX;
    whet_status status = run(MPI_COMM_WORLD, &p.g, NULL, &bad);
    w->status = run(MPI_COMM_SELF, &w->gradients, &two, &w->first_bad_row);
    const whet_gradients *g = &w->gradients;
    CHECK_INT(status, w->status);
    CHECK_INT(bad, w->first_bad_row);
    CHECK_MSG(!different_rows(&p.g.q, &w->q, &p.queries), "%s: dq", what);
    CHECK_MSG(!different_rows(&p.g.k, &w->k, &p.keys), "%s: dk", what);
    CHECK_MSG(!different_rows(&p.g.v, &w->v, &p.keys), "%s: dv", what);
    CHECK_MSG(
        !different_floats(p.g.betas, g->betas, w->q.extent[0] * heads, w->q.extent[2], &p.queries),
        "%s: betas", what);
    CHECK_MSG(!different_floats(p.g.bias.data, g->bias.data, bias_count(g, 1), e->attention.keys,
                                &p.keys),
              "%s: bias", what);
    size_t policies = e->attention.policy_count > 1 ? e->attention.policy_count : 1;
    CHECK_MSG(!g->policies || same_bytes(p.g.policies, g->policies, policies * sizeof *g->policies),
              "%s: policies", what);
    CHECK_MSG(!g->sinks || same_bytes(p.g.sinks, g->sinks, heads * sizeof(float)), "%s: sinks",
              what);
    CHECK_MSG(!g->alibi_slopes ||
                  same_bytes(p.g.alibi_slopes, g->alibi_slopes, heads * sizeof(float)),
              "%s: slopes", what);
    while (e->memories > memories)
        guarded_free(e->memory[--e->memories]);
}

static void check_run(example *e, backward_run *w, const char *what) {
    for (int l = WHET_MPI_BLOCK; l <= WHET_MPI_ZIGZAG; l++) {
        layout = (whet_mpi_layout)l;
        if (launched_ranks() > 1) {
            compare_ranks(e, w, what);
            continue;
        }
        w->first_bad_row = UINT64_MAX;
        w->first_bad_row = UINT64_MAX;
        w->status = run(MPI_COMM_SELF, &w->gradients, NULL, &w->first_bad_row);
        CHECK_MSG(w->status == WHET_OK || w->status == WHET_NOT_FINITE, "%s: status %d", what,
                  (int)w->status);
        backward_run_compare(w, what);
    }
}

static void check_example(example *e, const char *what) {
    backward_run w = backward_run_new(e, WHET_F32);
    check_run(e, &w, what);
    example_free(e);
}

static example example_of(size_t queries, size_t keys, size_t seed) {
    example_shape shape = {.queries = queries, .keys = keys, .head_dim = 20, .seed = seed};
    shape.value_dim = 12;
    shape.heads = 4;
    shape.kv_heads = 2;
    return example_new(shape);
}

TEST(every_size_agrees_causal_and_full) {
    static const size_t sizes[][2] = {{1, 1}, {33, 33}, {70, 70}, {65, 200}, {300, 300}, {40, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t flags = 0; flags <= WHET_CAUSAL; flags++) {
            char what[100];
            snprintf(what, sizeof what, "%zu queries, %zu keys, flags %u", sizes[i][0], sizes[i][1],
                     flags);
            example e = example_of(sizes[i][0], sizes[i][1], i);
            e.attention.flags = flags;
            e.attention.offset = (int64_t)sizes[i][1] - (int64_t)sizes[i][0];
            example_policy(&e, i % 2 ? "adaptive" : "softmax");
            check_example(&e, what);
        }
    backward_run_print_worst();
}

TEST(temperatures_and_sinks_agree) {
    static const char *const names[][4] = {
        /* no kink where the number of keys is whole */
        {"adaptive", "softmax", "ssmax:0.4:0.3", "length:12.5"},
        {"target:1.5", "target:1.2:strength=0.6", "exp:1.5", "hinge:-0.2:0.3:12.5:strength=0.6"},
    };
    for (size_t i = 0; i < 2; i++)
        for (int sinks = 0; sinks < 2; sinks++) {
            example e = example_of(130, 130, i);
            e.attention.flags = WHET_CAUSAL;
            example_policies(&e, names[i], 4);
            if (sinks)
                example_sinks(&e);
            check_example(&e, names[i][0]);
        }
    backward_run_print_worst();
}

/* Steps of searches, and maps in which logits equal each other. */
TEST(maps_agree) {
    static const char *const names[][4] = {
        {"topk:5", "softmax", "sparsemax", "entmax15"},
        {"entmax:1.25", "softmax1", "sigmoid:0.5", "sigmoid"},
        {"target:1.5+entmax15", "adaptive+softmax1", "length:12.5+topk:9", "topk:1000"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int sinks = 0; sinks < 2; sinks++) {
            example e = example_of(130, 130, i);
            e.attention.flags = sinks ? WHET_CAUSAL : 0;
            example_policies(&e, names[i], 4);
            if (sinks)
                example_sinks(&e);
            check_example(&e, names[i][0]);
        }
    example e = example_of(90, 90, 8);
    static const char *const exact[] = {"hardmax", "softpick", "topk:3", "adaptive+hardmax"};
    e.attention.flags = WHET_CAUSAL;
    example_make_exact(&e);
    example_policies(&e, exact, 4);
    example_bias(&e, MASK_HEADS, 0);
    check_example(&e, "exact logits");
    backward_run_print_worst();
}

TEST(gradients_of_statistics_agree) {
    static const char *const names[][4] = {
        {"adaptive", "softmax", "ssmax:0.4:0.3", "entmax15"},
        {"target:1.5", "topk:7", "exp:1.5", "softmax"},
        {"sigmoid:0.5", "softmax1", "adaptive", "softmax"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int sinks = 0; sinks < 2; sinks++) {
            example e = example_of(130, 130, i + 3);
            e.attention.flags = WHET_CAUSAL;
            e.attention.offset = i == 1 ? -40 : 0; /* some queries see nothing */
            example_policies(&e, names[i], 4);
            if (sinks)
                example_sinks(&e);
            backward_run w = backward_run_new(&e, WHET_F32);
            backward_run_statistics(&w, &e);
            check_run(&e, &w, names[i][0]);
            w.gradients.out = (whet_tensor){.data = NULL};
            check_run(&e, &w, "statistics alone");
            example_free(&e);
        }
    backward_run_print_worst();
}

/* Pieces of keys depend on those before and after them. */
TEST(ordered_maps_agree) {
    static const char *const names[][4] = {
        {"stick-breaking", "adaptive+stick-breaking", "softmax", "length:12.5+stick-breaking"},
        {"exp:1.5+stick-breaking", "stick-breaking", "entmax15", "ssmax:0.4:0.3+stick-breaking"},
    };
    for (size_t i = 0; i < 4; i++)
        for (int statistics = 0; statistics < 2; statistics++) {
            example e = example_of(i < 2 ? 130 : 65, i < 2 ? 130 : 200, i);
            e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
            e.attention.offset = i == 3 ? -20 : 0; /* some queries see nothing */
            e.attention.window = i == 1 ? 45 : 0;
            example_policies(&e, names[i % 2], 4);
            if (i % 2)
                example_sinks(&e);
            else
                example_mask(&e, MASK_QUERIES, WHET_F32, 0);
            backward_run w = backward_run_new(&e, WHET_F32);
            if (statistics)
                backward_run_statistics(&w, &e);
            check_run(&e, &w, names[i % 2][0]);
            example_free(&e);
        }
    example e = example_of(90, 90, 8);
    example_policy(&e, "adaptive+stick-breaking");
    example_set(&e.v, 0, 1, 50, 3, INFINITY);
    check_example(&e, "an infinite value");
    backward_run_print_worst();
}

TEST(one_policy_for_all_heads_has_one_gradient) {
    example e = example_of(100, 100, 5);
    e.attention.flags = WHET_CAUSAL;
    example_policy(&e, "poly:0.3/0.2/1:hold=2:threshold=0.1");
    check_example(&e, "poly");
}

TEST(windows_slopes_masks_biases_and_caps_agree) {
    for (size_t i = 0; i < 3; i++) {
        example e = example_of(150, 150, i);
        e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
        example_policy(&e, i ? "adaptive" : "softmax");
        if (i == 0) {
            e.attention.window = 40;
            example_alibi(&e);
        } else {
            example_mask(&e, MASK_QUERIES, WHET_F32, 0);
            example_bias(&e, i == 1 ? MASK_HEADS : 0, 0);
            e.attention.softcap = 3;
        }
        check_example(&e, "slopes and a window, or masks, biases and a soft-cap");
    }
    example e = example_of(90, 90, 4);
    example_policy(&e, "softmax");
    example_betas(&e);
    check_example(&e, "given betas");
}

TEST(odd_examples_agree) {
    for (size_t i = 0; i < ODD_EXAMPLES; i++) {
        example e = launched_odd(i, ODD_SPREAD);
        if (i / 2 % 2)
            example_sinks(&e);
        check_example(&e, "odd");
    }
    backward_run_print_worst();
}

TEST(types_layouts_and_batches_agree) {
    static const whet_type types[] = {WHET_F16, WHET_BF16, WHET_F32};
    for (size_t i = 0; i < 3; i++) {
        example_shape shape = {.queries = 70, .keys = 70, .head_dim = 32, .seed = i};
        shape.batch = 2;
        shape.heads = 4;
        shape.kv_heads = 2;
        shape.q_type = types[(i + 2) % 3];
        shape.k_type = types[i];
        shape.v_type = types[(i + 1) % 3];
        shape.layout = i == 1 ? TOKENS_FIRST : CONTIGUOUS;
        example e = example_new(shape);
        e.attention.flags = WHET_CAUSAL;
        example_policy(&e, "adaptive");
        backward_run w = backward_run_new(&e, types[i]);
        check_run(&e, &w, whet_type_name(types[i]));
        example_free(&e);
    }
}

/* Values that share a large offset, and rows that are nearly one-hot: nothing cancels. */
TEST(sharp_rows_keep_their_digits) {
    example_shape shape = {
        .heads = 2, .queries = 140, .keys = 140, .head_dim = 16, .sharpness = 12, .seed = 3};
    example e = example_new(shape);
    example_policy(&e, "fixed:3");
    float *v = (float *)(void *)e.v.base;
    for (size_t i = 0; i < (size_t)2 * 140 * 16; i++)
        v[i] += 1000;
    check_example(&e, "sharp");
    backward_run_print_worst();
}

TEST(rows_that_are_not_finite_agree) {
    for (int in_values = 0; in_values < 2; in_values++) {
        example e = example_of(90, 90, 3);
        e.attention.flags = WHET_CAUSAL;
        example_set(in_values ? &e.v : &e.k, 0, 1, 50, 3, NAN);
        example_policy(&e, "adaptive");
        check_example(&e, "NaN in a key or value");
    }
}

TEST(what_is_not_asked_for_is_not_computed) {
    example e = example_of(80, 80, 6);
    example_policy(&e, "adaptive");
    backward_run w = backward_run_new(&e, WHET_F32);
    w.gradients.k.data = NULL;
    w.gradients.v.data = NULL;
    w.gradients.policies = NULL;
    w.k.base = w.v.base = NULL;
    layout = WHET_MPI_BLOCK;
    compare_ranks(&e, &w, "queries alone");
    w.gradients.q.data = NULL;
    w.gradients.betas = NULL;
    whet_gradients g = w.gradients;
    CHECK_INT(run(MPI_COMM_SELF, &g, NULL, NULL), WHET_OK);
    CHECK_INT(counts.messages, 0);
    example_free(&e);
}

/* With everything divided evenly: keys and values travel twice, their gradients once, and the
 * gradients of parameters visit all ranks. */
TEST(messages_are_those_of_two_rounds_and_one_return) {
    enum { N = 256, DIM = 20, VALUE_DIM = 12, HEADS = 4, KV_HEADS = 2 };
    size_t ranks = (size_t)launched_ranks();
    if (ranks & (ranks - 1))
        SKIP("the number of ranks is no power of two");
    example e = example_of(N, N, 1);
    example_policy(&e, "adaptive");
    example_sinks(&e);
    backward_run w = backward_run_new(&e, WHET_F32);
    layout = WHET_MPI_BLOCK;
    part p = part_of(&e, &w);
    CHECK_INT(run(MPI_COMM_WORLD, &p.g, NULL, NULL), WHET_OK);
    size_t share = N / ranks * KV_HEADS * (DIM + VALUE_DIM) * sizeof(float);
    size_t parameters = sizeof(whet_policy_gradient) + HEADS * sizeof(double);
    CHECK_INT(counts.messages, 4 * (ranks - 1));
    CHECK_INT(counts.bytes, (ranks - 1) * (3 * share + parameters));
    CHECK_INT(counts.rounds, 4 * (ranks - 1));
    example_free(&e);
}
