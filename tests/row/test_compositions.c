/*
 * Every temperature with every map, as the table of policies lists them, through
 * whet_softmax and whet_entropy against the reference: lengths at the ends of
 * vectors and blocks, all element types, masks, one row and many.
 */
#include "reference/reference.h"
#include "row/compare.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_MAX = 9000 };

static float logits[N_MAX];
static double exact[N_MAX], shown[N_MAX];

static void widen(const float *from, size_t n, double *to) {
    for (size_t i = 0; i < n; i++) {
        to[i] = (double)from[i];
    }
}

/* Two results of one row whose betas may differ by what beta may be off. */
static bool agree(const float *a, const float *b, size_t n, const whet_stats *stats) {
    double beta_error = 2 * BETA_LIMIT * fmax(1, stats->beta);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        double reach = b[i] > 0 ? fabs(exact[i] - stats->max) + fabs(stats->max) + 1 : 0;
        double limit = (2 * PROBABILITY_LIMIT + beta_error * reach) * (double)b[i] + 1e-9;
        wrong += !(fabs((double)a[i] - (double)b[i]) <= limit);
    }
    return wrong == 0;
}

/* The logits there are: with statistics, without, in place, and statistics alone. */
static void check_row(const char *name, const whet_policy *policy, size_t n) {
    char what[260];
    snprintf(what, sizeof what, "%s, n = %zu", name, n);
    float *out = guarded_new(n * sizeof *out), *alone = guarded_new(n * sizeof *alone);
    whet_stats stats, entropy;
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = logits, .out = out};
    rows.stats = &stats;
    rows.position = -7;
    widen(logits, n, exact);
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    widen(out, n, shown);
    full_row row = {exact, n, -(double)INFINITY, NULL, -7};
    compare_full_row(what, &row, policy, shown, WHET_F32, &stats);
    rows.stats = NULL;
    rows.out = alone;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    CHECK_MSG(agree(alone, out, n, &stats), "%s without statistics", what);
    memcpy(out, logits, n * sizeof *out);
    rows.in = rows.out = out;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    CHECK_MSG(same_bytes(alone, out, n * sizeof *out), "%s in place", what);
    rows.in = logits;
    rows.out = NULL;
    rows.stats = &entropy;
    CHECK_INT(whet_entropy(&rows, policy, NULL), WHET_OK);
    CHECK_MSG(same_stats(&entropy, &stats), "%s by whet_entropy", what);
    guarded_free(out);
    guarded_free(alone);
}

typedef struct kind_of_row {
    const size_t *sizes;
    size_t count;
    double mean, deviation, masked;
    struct rng rng;
} kind_of_row;

static void check_sizes(const char *name, const whet_policy *policy, void *context) {
    kind_of_row *kind = context;
    for (size_t i = 0; i < kind->count; i++) {
        size_t n = kind->sizes[i];
        rng_fill_normal(&kind->rng, logits, n, kind->mean, kind->deviation);
        for (size_t j = 0; j < n; j++) {
            logits[j] = rng_uniform(&kind->rng, 0, 1) < kind->masked ? -INFINITY : logits[j];
        }
        check_row(name, policy, n);
    }
}

static const size_t sizes[] = {1, 2, 5, 16, 17, 33, 56, 57, 64, 257, 1000};
static const size_t long_sizes[] = {4096, 4097, N_MAX};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

TEST(compositions_are_maps_of_beta_e) {
    kind_of_row kind = {sizes, COUNT(sizes), 0.3, 1, 0, rng_seeded(1)};
    each_composition(check_sizes, &kind);
    kind.deviation = 0.1;
    each_composition(check_sizes, &kind);
    kind.mean = -3;
    kind.deviation = 4;
    each_composition(check_sizes, &kind);
    print_worst();
}

TEST(compositions_of_masked_rows) {
    kind_of_row kind = {sizes, COUNT(sizes), 0.3, 2, 0.3, rng_seeded(2)};
    each_composition(check_sizes, &kind);
    kind.masked = 0.95;
    each_composition(check_sizes, &kind);
    kind.masked = 1;
    each_composition(check_sizes, &kind);
    print_worst();
}

TEST(compositions_of_long_rows) {
    kind_of_row kind = {long_sizes, COUNT(long_sizes), 0, 1.5, 0, rng_seeded(3)};
    each_composition(check_sizes, &kind);
    kind_of_row masked = {long_sizes + 2, 1, 0, 2, 0.5, rng_seeded(4)};
    each_composition(check_sizes, &masked);
    print_worst();
}

static void count_one(const char *name, const whet_policy *policy, void *context) {
    (void)name;
    (void)policy;
    ++*(size_t *)context;
}

TEST(the_table_has_all_temperatures_and_maps) {
    size_t pairs = 0, temperatures = 0, maps = 0, gates = 0;
    for (size_t i = 0; whet_policy_table(i); i++) {
        whet_policy policy = policy_named(whet_policy_table(i)->example);
        whet_policy target = whet_policy_compose(whet_policy_target(1, 256), policy);
        temperatures += whet_policy_table(i)->is_temperature ? 1 : 0;
        maps += whet_policy_table(i)->is_temperature ? 0 : 1;
        gates += whet_policy_check(&target, NULL, 0) != WHET_OK;
    }
    each_composition(count_one, &pairs);
    CHECK(gates >= 3); /* softmax1, sigmoid, stick-breaking */
    CHECK_INT(pairs, temperatures * maps - gates);
}

/* ---- types ---- */

typedef struct layout {
    whet_type in, out, mask;
    bool has_mask;
    size_t n;
} layout;

enum { ROWS = 3 };

static void fill_mask(const array *mask, struct rng *rng) {
    for (size_t r = 0; r < mask->rows; r++) {
        for (size_t i = 0; i < mask->n; i++) {
            int64_t sixteenths = rng_integer(rng, -16, 16);
            bool masked = rng_bits(rng) % 4 == 0;
            array_set(mask, r, i, masked ? -INFINITY : (float)sixteenths / 16);
        }
    }
}

static void check_layout(const char *name, const whet_policy *policy, void *context) {
    const layout *l = context;
    struct rng rng = rng_seeded(l->n);
    array in = array_new(l->in, ROWS, l->n, 3, false);
    array out = array_new(l->out, ROWS, l->n, 2, true);
    array mask = array_new(l->mask, ROWS, l->n, 1, false);
    whet_stats stats[ROWS];
    fill_logits(&in, &rng);
    fill_mask(&mask, &rng);
    whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = l->n};
    rows.in = in.first;
    rows.in_type = in.type;
    rows.in_stride = in.stride;
    rows.out = out.first;
    rows.out_type = out.type;
    rows.out_stride = out.stride;
    rows.mask = l->has_mask ? mask.first : NULL;
    rows.mask_type = mask.type;
    rows.mask_stride = mask.stride;
    rows.stats = stats;
    rows.position = 10;
    rows.position_stride = -3;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    for (size_t r = 0; r < ROWS; r++) {
        char what[300];
        snprintf(what, sizeof what, "%s, types %d %d %d, n = %zu, row %zu", name, (int)l->in,
                 (int)l->out, l->has_mask ? (int)l->mask : -1, l->n, r);
        for (size_t i = 0; i < l->n; i++) {
            double added = l->has_mask ? array_get(&mask, r, i) : 0;
            exact[i] = array_get(&in, r, i) + added;
            shown[i] = array_get(&out, r, i);
        }
        full_row row = {exact, l->n, -(double)INFINITY, NULL, 10 - 3 * (int64_t)r};
        compare_full_row(what, &row, policy, shown, l->out, &stats[r]);
    }
    guarded_free(in.memory);
    guarded_free(out.memory);
    guarded_free(mask.memory);
}

TEST(compositions_in_all_types_with_masks) {
    const size_t lengths[] = {5, 57, 300};
    for (int type = 0; type < 9; type++) {
        for (int mask = 0; mask < 3; mask++) {
            layout l = {(whet_type)(type % 3), (whet_type)(type / 3), WHET_F32, mask > 0,
                        lengths[(type + mask) % 3]};
            l.mask = mask == 2 ? WHET_F16 : WHET_F32;
            each_composition(check_layout, &l);
        }
    }
    layout longest = {WHET_F16, WHET_BF16, WHET_F16, true, 4500};
    whet_policy policy = policy_named("ssmax:0.3:0.5+entmax15");
    check_layout("ssmax:0.3:0.5+entmax15", &policy, &longest);
    policy = policy_named("adaptive+stick-breaking");
    check_layout("adaptive+stick-breaking", &policy, &longest);
}

/* ---- many rows ---- */

static void check_many(const char *name, const whet_policy *policy, void *context) {
    enum { MANY = 21, N = 40 };
    struct rng *rng = context;
    static float all[MANY * N], one[N];
    float *in = logits;
    rng_fill_normal(rng, in, MANY * N, 0, 2);
    in[5 * N + 3] = NAN;
    for (size_t i = 0; i < N; i++) {
        in[7 * N + i] = -INFINITY;
    }
    whet_rows rows = {.size = sizeof rows, .rows = MANY, .n = N, .in = in, .out = all};
    size_t first_bad = 0;
    CHECK_INT(whet_softmax(&rows, policy, &first_bad), WHET_NOT_FINITE);
    CHECK_INT(first_bad, 5);
    rows.rows = 1;
    rows.out = one;
    for (size_t r = 0; r < MANY; r++) {
        rows.in = in + r * N;
        CHECK_INT(whet_softmax(&rows, policy, NULL), r == 5 ? WHET_NOT_FINITE : WHET_OK);
        CHECK_MSG(same_bytes(one, all + r * N, sizeof one), "%s: row %zu alone", name, r);
    }
}

TEST(a_row_does_not_depend_on_those_beside_it) {
    struct rng rng = rng_seeded(5);
    each_composition(check_many, &rng);
}

/* ---- what a caller's function sees ---- */

/* Depends on every statistic that is known before beta is. */
static double all_of_it(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    (void)context;
    *dbeta_dentropy = 0.1;
    return 1 + 0.1 * stats->entropy + 0.01 * (stats->max - stats->min) +
           0.001 * (double)(stats->argmax % 100) + 0.01 * (double)stats->position +
           0.001 * (double)stats->n;
}

TEST(a_callers_function_sees_all_statistics_in_every_way_there_is) {
    enum { MANY = 40 };
    const size_t lengths[] = {3, 50, 57, 300, 4096, 5000};
    struct rng rng = rng_seeded(6);
    for (size_t k = 0; k < COUNT(lengths); k++) {
        for (int narrow = 0; narrow < 2; narrow++) {
            size_t n = lengths[k], count = n > 300 ? 2 : MANY;
            whet_policy policy = whet_policy_custom(all_of_it, NULL);
            array in = array_new(narrow ? WHET_F16 : WHET_F32, count, n, 0, false);
            float *with = guarded_new(count * n * sizeof *with);
            float *without = guarded_new(count * n * sizeof *without);
            whet_stats stats[MANY];
            fill_logits(&in, &rng);
            whet_rows rows = {.size = sizeof rows, .rows = count, .n = n};
            rows.in = in.first;
            rows.in_type = in.type;
            rows.out = with;
            rows.stats = stats;
            rows.position = 20;
            rows.position_stride = 2;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            rows.stats = NULL;
            rows.out = without;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            for (size_t r = 0; r < count; r++) {
                for (size_t i = 0; i < n; i++) {
                    exact[i] = array_get(&in, r, i);
                    shown[i] = (double)with[r * n + i];
                }
                full_row row = {exact, n, -(double)INFINITY, NULL, 20 + 2 * (int64_t)r};
                whet_stats expected = stats[r];
                double slope;
                CHECK_NEAR(stats[r].beta, all_of_it(&expected, &slope, NULL), 1e-9);
                CHECK_NEAR(stats[r].beta, whet_policy_beta(&policy, &stats[r]), 1e-9);
                CHECK_MSG(agree(without + r * n, with + r * n, n, &stats[r]),
                          "n = %zu, row %zu without statistics", n, r);
                /* the reference knows no position, so beta is given to it */
                row.beta = &stats[r].beta;
                compare_full_row("custom", &row, &policy, shown, WHET_F32, &stats[r]);
            }
            guarded_free(in.memory);
            guarded_free(with);
            guarded_free(without);
        }
    }
}
