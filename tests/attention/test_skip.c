/*
 * Values that are left out (whet_attention.skip): that no row loses more weight than it
 * may, by the weights of the reference; that the rest is what it would be; that values left
 * out are never read; and the same bits for any number of threads.
 */
#include "attention/backward_run.h"
#include "attention/example.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PROBLEMS = 10000, ROWS_MAX = 256, KEYS_MAX = 500 };

static const char *const policies[] = {
    "softmax",        "softmax",  "adaptive",        "fixed:3",   "target:1", "ssmax:0.5",
    "topk:3",         "hardmax",  "sparsemax",       "entmax15",  "softmax1", "sigmoid:2",
    "stick-breaking", "softpick", "adaptive+topk:5", "entmax:1.3"};
#define POLICY_COUNT (sizeof policies / sizeof policies[0])

static const example_layout layouts[] = {TOKENS_FIRST, CONTIGUOUS, TRANSPOSED};

/* A random problem whose values are the identity: its output is its weights. */
static example random_problem(struct rng *rng, uint64_t seed) {
    size_t keys = 1 + rng_bits(rng) % (rng_bits(rng) % 8 ? 150 : KEYS_MAX);
    example_shape shape = {.keys = keys,
                           .value_dim = keys,
                           .head_dim = 1 + rng_bits(rng) % 20,
                           .queries = rng_bits(rng) % 40 ? 1 + rng_bits(rng) % 3 : 40,
                           .kv_heads = 1 + rng_bits(rng) % 3,
                           .layout = layouts[rng_bits(rng) % 3],
                           .sharpness = exp(rng_uniform(rng, -1, 2.3)),
                           .seed = seed};
    shape.heads = shape.kv_heads * (1 + rng_bits(rng) % 2);
    example e = example_new(shape);
    for (size_t head = 0; head < shape.kv_heads; head++)
        for (size_t j = 0; j < keys; j++) {
            example_set_row(&e.v, 0, head, j, 0);
            example_set(&e.v, 0, head, j, j, 1);
        }
    e.max_value = 1;
    e.attention.skip = (float)pow(10, rng_uniform(rng, -6, -0.5));
    if (rng_bits(rng) % 3 == 0) {
        e.attention.flags = WHET_CAUSAL;
        e.attention.offset = (int64_t)(rng_bits(rng) % keys);
    }
    uint64_t mask = rng_bits(rng) % 8;
    if (mask < 2)
        example_mask(&e, MASK_QUERIES, WHET_F32, 0);
    else if (mask == 2)
        example_sequences(&e, 1 + rng_bits(rng) % shape.queries,
                          (example_sharing)(rng_bits(rng) % SHARINGS), rng_bits(rng) % 2 * 9,
                          seed % 2 ? WHET_F16 : WHET_F32, false);
    if (rng_bits(rng) % 4 == 0)
        example_sinks(&e);
    example_policy(&e, policies[rng_bits(rng) % POLICY_COUNT]);
    return e;
}

/* Single weights: sparsemax passes the error of a logit on undiminished, where values average. */
#define WEIGHT_LIMIT (2 * OUTPUT_LIMIT)

/* What the tests found over all problems. */
typedef struct findings {
    size_t rows, lossy_rows;
} findings;

static double factor_of(const whet_stats *right, double mass) {
    double sharp = (isnan(right->beta) ? 1 : right->beta) * fabs(right->max) / SHARP;
    return (sharp > 1 && isfinite(sharp) ? sharp : 1) * fmax(1, mass);
}

/* One row: what is zero in `out` was left out, the rest is as it would be. */
static void check_row(uint64_t seed, const example *e, size_t row, const float *out,
                      const double *right, const whet_stats *stats, double factor,
                      findings *found) {
    size_t keys = e->attention.keys, wrong = 0;
    double lost = 0;
    for (size_t j = 0; j < keys; j++) {
        if (out[j] == 0)
            lost += right[j];
        else
            wrong += !(fabs((double)out[j] - right[j]) <= factor * WEIGHT_LIMIT);
    }
    double skip = (double)e->attention.skip;
    char policy[64];
    whet_policy_name(e->attention.policies, policy, sizeof policy);
    CHECK_MSG(wrong == 0, "problem %llu, %s, row %zu: %zu weights wrong", (unsigned long long)seed,
              policy, row, wrong);
    CHECK_MSG(lost <= skip, "problem %llu, row %zu: lost %.9g, more than %.9g",
              (unsigned long long)seed, row, lost, skip);
    CHECK_MSG(fabs(lost - stats->skipped_weight) <= 1e-5 * factor,
              "problem %llu, row %zu: lost %.9g, but reports %.9g", (unsigned long long)seed, row,
              lost, stats->skipped_weight);
    CHECK_MSG(stats->skipped_share >= 0 && stats->skipped_share <= 1, "share %g",
              stats->skipped_share);
    found->rows++;
    found->lossy_rows += lost > 0;
}

static void check_problem(uint64_t seed, example *e, findings *found) {
    size_t rows = e->attention.heads * e->attention.queries, keys = e->attention.keys;
    float *out = malloc(rows * keys * sizeof *out);
    double *right = malloc(rows * keys * sizeof *right);
    whet_stats *stats = malloc(rows * sizeof *stats), *right_stats = malloc(rows * sizeof *stats);
    double mass[ROWS_MAX];
    REQUIRE(out && right && stats && right_stats && rows <= ROWS_MAX);
    whet_attention a = e->attention;
    a.out = (whet_tensor_out){.data = out};
    a.stats = stats;
    reference_attention(&a, right, right_stats, mass);
    CHECK(whet_attention_forward(&a, NULL, NULL) == WHET_OK);
    for (size_t row = 0; row < rows; row++)
        check_row(seed, e, row, out + row * keys, right + row * keys, &stats[row],
                  factor_of(&right_stats[row], mass[row]), found);
    free(out);
    free(right);
    free(stats);
    free(right_stats);
}

TEST(no_row_of_ten_thousand_problems_loses_more_than_it_may) {
    struct rng rng = rng_seeded(19);
    findings found = {0, 0};
    for (uint64_t seed = 0; seed < (emulated() ? PROBLEMS / 50 : PROBLEMS); seed++) {
        example e = random_problem(&rng, seed);
        check_problem(seed, &e, &found);
        example_free(&e);
    }
    printf("  %zu rows, %zu of them without some of their weight\n", found.rows, found.lossy_rows);
    CHECK(found.lossy_rows * 20 > found.rows);
}

/* A long problem of every type: outputs within what skip allows, and the same bits by a pool. */
static void check_long(whet_type type, size_t queries, const char *policy, whet_pool *pool) {
    example e = example_new((example_shape){.heads = 4,
                                            .kv_heads = 2,
                                            .queries = queries,
                                            .keys = 2500,
                                            .head_dim = 64,
                                            .k_type = type,
                                            .v_type = type,
                                            .layout = TOKENS_FIRST,
                                            .sharpness = 4,
                                            .seed = queries});
    size_t rows = 4 * queries, size = rows * 64;
    float *out = malloc(2 * size * sizeof *out);
    double *right = malloc(size * sizeof *right);
    whet_stats *stats = malloc(2 * rows * sizeof *stats);
    REQUIRE(out && right && stats);
    example_policy(&e, policy);
    whet_attention a = e.attention;
    a.skip = 0.01f;
    a.stats = stats;
    a.out = (whet_tensor_out){.data = out};
    reference_attention(&a, right, stats, NULL);
    whet_executor executor = whet_pool_executor(pool);
    CHECK(whet_attention_forward(&a, NULL, NULL) == WHET_OK);
    a.out.data = out + size;
    a.stats = stats + rows;
    CHECK(whet_attention_forward(&a, &executor, NULL) == WHET_OK);
    CHECK_MSG(memcmp(out, out + size, size * sizeof *out) == 0 &&
                  memcmp(stats, stats + rows, rows * sizeof *stats) == 0,
              "%s, %zu queries: threads change bits", policy, queries);
    double worst = 0, share = 0;
    for (size_t i = 0; i < size; i++)
        worst = fmax(worst, fabs((double)out[i] - right[i]) / e.max_value);
    for (size_t row = 0; row < rows; row++)
        share = fmax(share, stats[row].skipped_share);
    CHECK_MSG(worst <= 2 * 0.01 + OUTPUT_LIMIT, "%s, %zu queries: off by %g", policy, queries,
              worst);
    CHECK_MSG(share > 0, "%s, %zu queries, type %d: nothing left out", policy, queries, (int)type);
    free(out);
    free(right);
    free(stats);
    example_free(&e);
}

TEST(long_problems_of_every_type_stay_within_the_promise) {
    whet_pool *pool;
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    for (size_t t = 0; t < CACHE_TYPES; t++)
        for (size_t i = 0; i < 3; i++) {
            static const size_t queries[] = {1, 3, 60};
            check_long(example_cache_types[t], queries[i], i % 2 ? "adaptive" : "softmax", pool);
        }
    whet_pool_destroy(pool);
}

/* ---- gradients ---- */

enum { GRADIENT_KEYS = 500, GRADIENT_DIM = 16 };

/* Whether all rows leave out the block that begins at key j: NaN there has no effect. Sets *same to
 * false if rows differ. */
static bool is_left_out(const example *e, size_t j, bool *same) {
    size_t rows = e->attention.heads * e->attention.queries, with_nan = 0;
    float *out = malloc(rows * GRADIENT_DIM * sizeof *out), kept[64];
    REQUIRE(out);
    size_t count = GRADIENT_KEYS - j < 64 ? GRADIENT_KEYS - j : 64;
    for (size_t i = 0; i < count; i++) {
        memcpy(&kept[i], example_row(&e->v, 0, 0, j + i), sizeof kept[i]);
        example_set(&e->v, 0, 0, j + i, 0, NAN);
    }
    whet_attention a = e->attention;
    a.out = (whet_tensor_out){.data = out};
    a.stats = NULL;
    CHECK(whet_attention_forward(&a, NULL, NULL) <= WHET_NOT_FINITE);
    for (size_t i = 0; i < count; i++)
        example_set(&e->v, 0, 0, j + i, 0, kept[i]);
    for (size_t r = 0; r < rows; r++)
        with_nan += isnan(out[r * GRADIENT_DIM]) != 0;
    free(out);
    *same = *same && (with_nan == 0 || with_nan == rows);
    return with_nan == 0;
}

/* Compares two gradients, relative to the largest entry. */
static void check_alike(const char *what, const float *x, const float *y, size_t n, double limit) {
    double worst = 0, size = 0;
    for (size_t i = 0; i < n; i++) { /* GCC 12 for ARM cannot compile this with fmax */
        double error = fabs((double)x[i] - (double)y[i]), own = fabs((double)y[i]);
        worst = error <= worst ? worst : error;
        size = own <= size ? size : own;
    }
    CHECK_MSG(worst <= limit * size, "%s: off by %g of %g", what, worst, size);
}

/*
 * With the blocks held constant, the output is that of values that are zero where they are left
 * out: the gradients of queries and keys must be those of that problem, and those of values, too,
 * but zero where they are left out.
 */
static void check_gradients(const char *policy, size_t queries, bool statistics) {
    example e = example_new((example_shape){.heads = 2,
                                            .kv_heads = 1,
                                            .queries = queries,
                                            .keys = GRADIENT_KEYS,
                                            .head_dim = GRADIENT_DIM,
                                            .sharpness = 3,
                                            .seed = queries});
    bool left_out[GRADIENT_KEYS], same = true;
    size_t count = 0, n = (size_t)GRADIENT_KEYS * GRADIENT_DIM;
    example_policy(&e, policy);
    e.attention.skip = queries > 16 ? 0.7f : 0.4f;   /* more rows agree on less */
    for (size_t j = 0; j < GRADIENT_KEYS; j += 64) { /* block by block */
        size_t keys = GRADIENT_KEYS - j < 64 ? GRADIENT_KEYS - j : 64;
        bool is_out = is_left_out(&e, j, &same);
        memset(left_out + j, is_out, keys);
        count += is_out ? keys : 0;
    }
    if (!same) { /* rows of several panels */
        example_free(&e);
        return;
    }
    CHECK_MSG(count > 0, "%s, %zu queries: nothing left out", policy, queries);
    backward_run run = backward_run_new(&e, WHET_F32);
    if (statistics)
        backward_run_statistics(&run, &e);
    backward_run_now(&run, NULL);
    CHECK(run.status == WHET_OK);
    float *found = malloc(3 * n * sizeof *found);
    REQUIRE(found && queries * 2 <= GRADIENT_KEYS);
    size_t q_size = 2 * queries * GRADIENT_DIM;
    memcpy(found, run.gradients.q.data, q_size * sizeof *found);
    memcpy(found + n, run.gradients.k.data, n * sizeof *found);
    memcpy(found + 2 * n, run.gradients.v.data, n * sizeof *found);
    for (size_t j = 0; j < GRADIENT_KEYS; j++)
        if (left_out[j])
            example_set_row(&e.v, 0, 0, j, 0);
    run.gradients.attention.skip = 0;
    backward_run_now(&run, NULL);
    for (size_t j = 0; j < GRADIENT_KEYS; j++)
        if (left_out[j])
            memset((float *)run.gradients.v.data + j * GRADIENT_DIM, 0,
                   GRADIENT_DIM * sizeof(float));
    check_alike("queries", found, run.gradients.q.data, q_size, GRADIENT_LIMIT);
    check_alike("keys", found + n, run.gradients.k.data, n, GRADIENT_LIMIT);
    check_alike("values", found + 2 * n, run.gradients.v.data, n, GRADIENT_LIMIT);
    free(found);
    example_free(&e);
}

TEST(gradients_are_those_of_what_is_not_left_out) {
    static const char *const names[] = {"softmax", "adaptive", "target:1", "topk:40", "entmax15"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_gradients(names[i], 3, false);
        check_gradients(names[i], 18, false);
        check_gradients(names[i], 3, true);
    }
}

/* ---- values that must not be read ---- */

enum { GUARD_KEYS = 2048, GUARD_DIM = 64, HOT = 700 };

/* Values of which only those of keys [from, to) can be read; 64 of them are four pages. */
static float *values_to_read(size_t from, size_t to) {
    size_t row = GUARD_DIM * sizeof(float), bytes = GUARD_KEYS * row;
    float *v = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(v != MAP_FAILED);
    for (size_t i = 0; i < (size_t)GUARD_KEYS * GUARD_DIM; i++)
        v[i] = (float)(i % 7);
    REQUIRE(mprotect(v, from * row, PROT_NONE) == 0);
    REQUIRE(mprotect(v + to * GUARD_DIM, bytes - to * row, PROT_NONE) == 0);
    return v;
}

/* All weight on key HOT: the values of other blocks are out of reach. */
static void check_unread(const char *name, float skip, size_t queries) {
    static float q[64 * 8], k[GUARD_KEYS * 8], out[64 * GUARD_DIM];
    whet_policy policy;
    REQUIRE(whet_policy_parse(name, &policy, NULL, 0) == WHET_OK);
    bool is_prefill = queries > 32;
    float *v = values_to_read(is_prefill ? 576 : 640, 768); /* prefill takes 192 values at a time */
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = 1;
    for (size_t i = 0; i < (size_t)GUARD_KEYS * 8; i++)
        k[i] = i / 8 == HOT ? 12 : 0.001f * (float)(i % 5);
    whet_attention a = {.size = sizeof a,
                        .heads = 1,
                        .queries = queries,
                        .keys = GUARD_KEYS,
                        .head_dim = 8,
                        .value_dim = GUARD_DIM,
                        .q = {.data = q},
                        .k = {.data = k},
                        .v = {.data = v},
                        .out = {.data = out},
                        .policies = &policy,
                        .skip = skip};
    CHECK(whet_attention_forward(&a, NULL, NULL) == WHET_OK);
    for (size_t i = 0; i < queries * GUARD_DIM; i++)
        CHECK(fabs((double)out[i] - (double)v[(size_t)HOT * GUARD_DIM + i % GUARD_DIM]) < 0.01);
    munmap(v, (size_t)GUARD_KEYS * GUARD_DIM * sizeof(float));
}

TEST(values_that_are_left_out_are_not_read) {
    check_unread("softmax", 1e-3f, 1);
    check_unread("adaptive", 1e-3f, 4);
    check_unread("hardmax", 0, 1);
    check_unread("topk:1", 0, 2);
    check_unread("sparsemax", 0, 1);
    check_unread("entmax15", 0, 3);
    check_unread("softmax", 1e-3f, 60);
    check_unread("adaptive+topk:2", 1e-3f, 60);
    check_unread("hardmax", 0, 60);
    check_unread("topk:1", 0, 60);
    check_unread("sparsemax", 0, 60);
}

TEST(a_skip_that_is_no_share_is_refused) {
    example e = example_new((example_shape){.keys = 5, .head_dim = 4, .seed = 1});
    float out[4];
    const float wrong[] = {-0.1f, 1, 2, NAN, INFINITY};
    e.attention.out = (whet_tensor_out){.data = out};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e.attention.skip = wrong[i];
        CHECK(whet_attention_forward(&e.attention, NULL, NULL) == WHET_ERROR_ARGUMENT);
        CHECK(strstr(whet_last_error(), "skip is ") != NULL);
    }
    e.attention.skip = 0.999f;
    CHECK(whet_attention_forward(&e.attention, NULL, NULL) == WHET_OK);
    example_free(&e);
}
