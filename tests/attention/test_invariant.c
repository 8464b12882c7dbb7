/*
 * WHET_INVARIANT: the bits of a query's output and statistics over random divisions of queries into
 * calls, with more keys that are masked, whatever those hold, and with threads; and the accuracy of
 * such outputs.
 */
#include "attention/example.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 20, DIVISIONS = 1000, QUERIES = 40, HEADS = 4, DIM = 32 };

static const char *const policies[] = {"softmax",  "adaptive",           "target:1.5", "topk:7",
                                       "hardmax",  "stick-breaking",     "entmax15",   "sigmoid",
                                       "softmax1", "adaptive+entmax:1.3"};
#define POLICIES (sizeof policies / sizeof policies[0])

/* Queries of one sequence whose keys are anywhere in a cache, and what each of them gives alone. */
typedef struct problem {
    example e;
    size_t keys, more; /* those that count, and hidden ones behind them */
    float *alone;      /* [head][query][DIM] */
    whet_stats *stats; /* [head][query] */
} problem;

/* Queries [first, first + count) over so many keys; out and stats are [head][count]. */
static void run(const problem *p, size_t first, size_t count, size_t keys, whet_executor *executor,
                float *out, /* NOLINT(readability-non-const-parameter): it is written */
                whet_stats *stats) {
    whet_attention a = p->e.attention;
    a.q.data = (const char *)a.q.data + (ptrdiff_t)first * a.q.stride[2];
    a.queries = count;
    a.keys = keys;
    a.offset += (int64_t)first;
    if (a.mask.data)
        a.mask.data = (const char *)a.mask.data + (ptrdiff_t)first * a.mask.stride[2];
    a.out = (whet_tensor_out){.data = out};
    a.stats = stats;
    a.stats_stride = 0;
    uint64_t bad = 0;
    whet_status status = whet_attention_forward(&a, executor, &bad);
    CHECK_MSG(status == WHET_OK, "queries %zu of %zu, %zu keys: status %d, row %llu", count, first,
              keys, (int)status, (unsigned long long)bad);
}

/* A mask of random runs of keys, the last of which only later queries see. */
static void hide_keys(problem *p, whet_type type) {
    size_t all = p->keys + p->more, size = type == WHET_F16 ? 2 : 4;
    char *mask = example_memory(&p->e, QUERIES * all * size);
    bool *own = malloc(all * sizeof *own);
    REQUIRE(own);
    for (size_t j = 0; j < all;) {
        bool is_own = rng_bits(&p->e.rng) % 2;
        for (size_t run = 1 + rng_bits(&p->e.rng) % 90; run > 0 && j < all; run--, j++)
            own[j] = is_own && j < p->keys;
    }
    for (size_t i = 0; i < QUERIES; i++)
        for (size_t j = 0; j < all; j++) {
            bool is_seen = own[j] && j + QUERIES <= p->keys + i;
            float value = is_seen ? 0 : -INFINITY;
            uint16_t half = is_seen ? 0 : 0xfc00;
            memcpy(mask + (i * all + j) * size, type == WHET_F16 ? (void *)&half : (void *)&value,
                   size);
        }
    for (size_t j = 0; j < p->keys && p->e.k.type != WHET_CUSTOM && p->e.v.type != WHET_CUSTOM; j++)
        if (!own[j]) {
            example_set_row(&p->e.k, 0, 0, j, j % 3 ? NAN : 5);
            example_set_row(&p->e.v, 0, j % 2, j, j % 5 ? 7 : INFINITY);
        }
    free(own);
    p->e.attention.mask = (whet_mask){.data = mask, .type = type};
    p->e.attention.mask.stride[2] = (ptrdiff_t)(all * size);
}

static problem problem_new(size_t i) {
    size_t keys = i % 4 == 3 ? 300 : 1000 + 170 * i, more = 1 + 97 * i;
    example_shape shape = {.heads = HEADS,
                           .kv_heads = i % 3 == 0 ? HEADS : 2,
                           .queries = QUERIES,
                           .keys = keys + more,
                           .head_dim = DIM,
                           .k_type = example_cache_types[i % CACHE_TYPES],
                           .v_type = example_cache_types[(i + i / CACHE_TYPES) % CACHE_TYPES],
                           .layout = TOKENS_FIRST,
                           .sharpness = 1 + (double)(i % 3),
                           .seed = i};
    problem p = {.e = example_new(shape), .keys = keys, .more = more};
    whet_attention *a = &p.e.attention;
    a->flags = WHET_INVARIANT;
    a->offset = (int64_t)keys - QUERIES;
    if (i % 2)
        hide_keys(&p, i % 4 == 1 ? WHET_F16 : WHET_F32);
    else
        a->flags |= WHET_CAUSAL;
    if (i % 5 == 2)
        a->window = 333;
    if (i % 3 == 1)
        example_sinks(&p.e);
    if (i % 7 == 3)
        a->softcap = 5;
    example_policy(&p.e, policies[i % POLICIES]);
    p.alone = calloc((size_t)HEADS * QUERIES * DIM, sizeof *p.alone);
    p.stats = calloc((size_t)HEADS * QUERIES, sizeof *p.stats);
    REQUIRE(p.alone && p.stats);
    for (size_t query = 0; query < QUERIES; query++) {
        float out[HEADS * DIM];
        whet_stats stats[HEADS];
        run(&p, query, 1, keys, NULL, out, stats);
        for (size_t head = 0; head < HEADS; head++) {
            memcpy(p.alone + (head * QUERIES + query) * DIM, out + head * DIM, DIM * sizeof *out);
            p.stats[head * QUERIES + query] = stats[head];
        }
    }
    return p;
}

static void problem_free(problem *p) {
    free(p->alone);
    free(p->stats);
    example_free(&p->e);
}

/* What differs of some queries from what they give alone. */
static void compare(const problem *p, size_t which, size_t first, size_t count, size_t more,
                    const float *out, const whet_stats *stats) {
    size_t outputs = 0, statistics = 0;
    for (size_t head = 0; head < HEADS; head++)
        for (size_t i = 0; i < count; i++) {
            size_t own = head * count + i, alone = head * QUERIES + first + i;
            outputs += !same_bytes(out + own * DIM, p->alone + alone * DIM, DIM * sizeof *out);
            statistics += !same_bytes(&stats[own], &p->stats[alone], sizeof *stats);
        }
    CHECK_MSG(outputs + statistics == 0,
              "problem %zu (%s), queries %zu to %zu, %zu more keys: %zu outputs and %zu statistics",
              which, policies[which % POLICIES], first, first + count - 1, more, outputs,
              statistics);
}

TEST(a_query_has_the_same_bits_in_a_thousand_divisions) {
    enum { EACH = DIVISIONS / PROBLEMS };
    static float out[HEADS * QUERIES * DIM];
    static whet_stats stats[HEADS * QUERIES];
    struct rng rng = rng_seeded(1);
    whet_pool *pool;
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    for (size_t i = 0; i < PROBLEMS; i++) {
        problem p = problem_new(i);
        for (size_t n = 0; n < (emulated() ? 2 : EACH); n++) {
            bool is_few = rng_bits(&rng) % 2;
            size_t count = 1 + rng_bits(&rng) % (is_few ? 8 : QUERIES);
            size_t first = rng_bits(&rng) % (QUERIES - count + 1);
            size_t more = rng_bits(&rng) % 3 ? rng_bits(&rng) % (p.more + 1) : 0;
            run(&p, first, count, p.keys + more, rng_bits(&rng) % 2 ? &executor : NULL, out, stats);
            compare(&p, i, first, count, more, out, stats);
        }
        problem_free(&p);
    }
    whet_pool_destroy(pool);
}

/* The flag changes how sums are divided, not how exact they are. */
TEST(such_outputs_are_as_accurate_as_others) {
    static const size_t queries[] = {1, 3, 40};
    for (size_t i = 0; i < 3; i++)
        for (size_t variant = 0; variant < 12; variant++) {
            example_shape shape = {.batch = 2,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .queries = queries[i],
                                   .keys = variant % 3 ? 300 : 1300,
                                   .head_dim = 40,
                                   .value_dim = 24,
                                   .k_type = example_cache_types[variant % CACHE_TYPES],
                                   .v_type = example_cache_types[variant / 2],
                                   .layout = (example_layout)(variant % LAYOUTS),
                                   .seed = 10 * variant + i};
            example e = example_new(shape);
            if (variant & 1)
                example_mask(&e, variant / 2 % 8, variant & 2 ? WHET_F16 : WHET_F32, 3);
            if (variant & 2)
                example_sinks(&e);
            if (variant & 4)
                example_bias(&e, MASK_HEADS, 1);
            e.attention.flags = WHET_INVARIANT | (variant % 3 ? WHET_CAUSAL : 0);
            e.attention.offset = 90;
            example_policy(&e, policies[variant % POLICIES]);
            example_check(&e, "invariant");
            example_free(&e);
        }
    example_print_worst();
}

TEST(it_is_refused_with_values_left_out) {
    example e = example_new((example_shape){.keys = 3, .head_dim = 4});
    e.attention.flags = WHET_INVARIANT;
    e.attention.skip = 0.5f;
    CHECK(whet_attention_forward(&e.attention, NULL, NULL) == WHET_ERROR_UNSUPPORTED);
    CHECK(strstr(whet_last_error(), "WHET_INVARIANT"));
    example_free(&e);
}
