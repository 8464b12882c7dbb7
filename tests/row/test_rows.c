/*
 * whet_softmax and whet_entropy against the reference: every temperature, type,
 * mask and layout over awkward lengths, with the limits that whet.h promises;
 * bad and empty rows among good ones.
 */
#include "reference/reference.h"
#include "row/compare.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {1,  2,  3,   7,   8,    9,    15,   16,   17,   31,   33,  63,
                               64, 65, 127, 128, 1000, 1023, 1024, 1025, 4095, 4096, 4097};
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])

static const char *const temperatures[] = {
    "softmax",
    "fixed:0.25",
    "fixed:3",
    "adaptive",
    "adaptive:hold",
    "adaptive:strength=0.5",
    "adaptive:hold:strength=2",
    "poly:0.1/-0.2/1.5:threshold=1:floor=0.5",
    "poly:-0.02/0.3/1:hold=3",
    "poly:0.5",
    "exp:2",
    "exp:3:strength=0.3",
    "target:1.5",
    "target:3:strength=0.7",
    "target:0.2:cap=8",
    "ssmax:0.4",
    "ssmax:0.2:0.5",
    "length:16",
    "linear:64:strength=0.1",
};
#define TEMPERATURE_COUNT (sizeof temperatures / sizeof temperatures[0])

/* ---- one row at a time ---- */

static bool beta_depends_on_logits(const whet_policy *policy) {
    return policy->kind != WHET_POLICY_SOFTMAX && policy->kind != WHET_POLICY_FIXED &&
           policy->kind != WHET_POLICY_SSMAX && policy->kind != WHET_POLICY_LENGTH &&
           policy->kind != WHET_POLICY_LINEAR;
}

static void check_one_row(const char *what, const float *row, size_t n, const whet_policy *policy) {
    double *logits = malloc((n ? n : 1) * sizeof *logits);
    REQUIRE(logits != NULL);
    for (size_t i = 0; i < n; i++) {
        logits[i] = (double)row[i];
    }
    float *in = guarded_new(n * sizeof(float));
    float *out = guarded_new(n * sizeof(float));
    memcpy(in, row, n * sizeof(float));
    whet_stats stats;
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = in, .out = out};
    rows.stats = &stats;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    compare_row(what, logits, n, policy, out, &stats);

    /* a result without statistics, in place, and the same statistics without a result */
    float *alone = guarded_new(n * sizeof(float));
    rows.out = alone;
    rows.stats = NULL;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    /* here beta is not reported, and may be another by what it may be off */
    double beta_error = BETA_LIMIT * fmax(1, stats.beta);
    compare_result(what, logits, n, alone, &stats, beta_depends_on_logits(policy) ? beta_error : 0);
    memcpy(out, in, n * sizeof(float));
    rows.in = rows.out = out;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    CHECK_MSG(same_bytes(alone, out, n * sizeof(float)), "%s in place", what);
    rows.in = in;
    whet_stats entropy;
    rows.out = NULL;
    rows.stats = &entropy;
    CHECK_INT(whet_entropy(&rows, policy, NULL), WHET_OK);
    CHECK_MSG(same_stats(&entropy, &stats), "%s by whet_entropy", what);
    guarded_free(in);
    guarded_free(out);
    guarded_free(alone);
    free(logits);
}

static void check_all_temperatures(const float *row, size_t n, const char *content) {
    for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
        char what[100];
        whet_policy policy = policy_named(temperatures[t]);
        snprintf(what, sizeof what, "%s, n = %zu, %s", temperatures[t], n, content);
        check_one_row(what, row, n, &policy);
    }
}

TEST(every_temperature_agrees_with_the_reference) {
    static float row[4097];
    struct rng rng = rng_seeded(1);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        rng_fill_normal(&rng, row, sizes[i], 0, 1);
        check_all_temperatures(row, sizes[i], "normal");
        rng_fill_normal(&rng, row, sizes[i], -3, 6);
        check_all_temperatures(row, sizes[i], "sharp");
        rng_fill_normal(&rng, row, sizes[i], 0.5, 0.05);
        check_all_temperatures(row, sizes[i], "flat");
    }
    print_worst();
}

TEST(masked_entries_change_nothing_for_the_others) {
    static float row[4097];
    struct rng rng = rng_seeded(2);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        rng_fill_normal(&rng, row, sizes[i], 0, 2);
        for (size_t j = 0; j < sizes[i]; j++) {
            if (j > 0 && rng_bits(&rng) % 3 == 0) {
                row[j] = -INFINITY;
            }
        }
        check_all_temperatures(row, sizes[i], "masked");
    }
    print_worst();
}

/* Up to 1e4 in size: far apart, or far from zero. */
TEST(large_logits_agree_with_the_reference) {
    static float row[4097];
    struct rng rng = rng_seeded(3);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        rng_fill_uniform(&rng, row, sizes[i], -1e4, 1e4);
        check_all_temperatures(row, sizes[i], "from -1e4 to 1e4");
        rng_fill_normal(&rng, row, sizes[i], 9990, 2);
        check_all_temperatures(row, sizes[i], "near 1e4");
        rng_fill_normal(&rng, row, sizes[i], -9990, 2);
        check_all_temperatures(row, sizes[i], "near -1e4");
    }
    print_worst();
}

TEST(equal_logits_are_spread_evenly) {
    static float row[4097];
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            row[j] = 2.5f;
        }
        whet_policy policies[] = {whet_policy_softmax(), whet_policy_adaptive(),
                                  whet_policy_fixed(7), whet_policy_exp(1)};
        for (size_t p = 0; p < 4; p++) {
            check_one_row("equal logits", row, sizes[i], &policies[p]);
        }
    }
    print_worst();
}

static double own_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    *dbeta_dentropy = *(double *)context;
    return 1 + *(double *)context * stats->entropy + 0.01 * log((double)stats->n);
}

TEST(a_function_of_the_callers_gives_beta) {
    static float row[4097];
    struct rng rng = rng_seeded(4);
    double slope = 0.4;
    whet_policy policy = whet_policy_custom(own_beta, &slope);
    whet_policy weaker = whet_policy_with_strength(policy, 0.5);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        rng_fill_normal(&rng, row, sizes[i], 0, 1.5);
        check_one_row("custom", row, sizes[i], &policy);
        check_one_row("custom, half as strong", row, sizes[i], &weaker);
    }
    print_worst();
}

static double nan_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    (void)context;
    *dbeta_dentropy = 0;
    return stats->n == 3 ? (double)NAN : 2;
}

TEST(a_beta_that_is_nan_spoils_its_row_alone) {
    const float in[8] = {1, 2, 3, 4, 1, 2, -INFINITY, 4};
    float out[8];
    whet_stats stats[2];
    size_t bad = 99;
    whet_policy policy = whet_policy_custom(nan_beta, NULL);
    whet_rows rows = {.size = sizeof rows, .rows = 2, .n = 4, .in = in, .out = out, .stats = stats};
    CHECK_INT(whet_softmax(&rows, &policy, &bad), WHET_NOT_FINITE);
    CHECK_INT(bad, 1);
    CHECK_NEAR(stats[0].beta, 2, 1e-6);
    CHECK(out[3] > 0.8f && out[3] < 0.9f);
    CHECK(isnan(out[4]) && isnan(out[6]));
    CHECK_INT(stats[1].flags, WHET_ROW_NOT_FINITE);
}

/* Every policy of the table, the maps too, so that a new one is not forgotten. */
TEST(every_policy_of_the_table_agrees_with_the_reference) {
    static const size_t some[] = {1, 2, 17, 127, 1000, 4097};
    static float row[4097];
    static float out[4097];
    static double logits[4097];
    static double p[4097];
    struct rng rng = rng_seeded(5);
    const whet_policy_info *info;
    for (size_t entry = 0; (info = whet_policy_table(entry)); entry++) {
        whet_policy policy = policy_named(info->example);
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
            size_t n = some[i];
            for (size_t j = 0; j < n; j++) {
                bool masked = j > 0 && rng_bits(&rng) % 5 == 0;
                row[j] = masked ? -INFINITY : (float)rng_normal(&rng, 0, 1.5);
                logits[j] = (double)row[j];
            }
            whet_stats stats;
            whet_stats expected;
            whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = row, .out = out};
            rows.stats = &stats;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            reference_row(logits, n, -(double)INFINITY, &policy, p, &expected);
            size_t wrong = 0;
            for (size_t j = 0; j < n; j++) {
                wrong += !(fabs((double)out[j] - p[j]) <= fmax(1e-5 * p[j], 1e-9));
            }
            CHECK_MSG(wrong == 0, "%s, n = %zu: %zu wrong", info->example, n, wrong);
            CHECK_NEAR(stats.entropy, expected.entropy, ENTROPY_LIMIT * fmax(1, expected.entropy));
            CHECK_NEAR(stats.beta, expected.beta, BETA_LIMIT * fmax(1, expected.beta));
            CHECK_NEAR(stats.entropy_after, expected.entropy_after, 1e-5);
            CHECK_NEAR(stats.max_prob, expected.max_prob, 1e-5 * expected.max_prob);
            CHECK_INT(stats.n, expected.n);
            CHECK_INT(stats.flags, expected.flags);
        }
    }
}

/* ---- long rows ---- */

static void check_long_row(size_t n, double mean, double deviation, uint64_t seed) {
    static const char *const names[] = {"softmax",  "adaptive",  "adaptive:hold",
                                        "target:5", "length:64", "exp:9"};
    struct rng rng = rng_seeded(seed);
    float *row = malloc(n * sizeof *row);
    REQUIRE(row != NULL);
    rng_fill_normal(&rng, row, n, mean, deviation);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char what[100];
        whet_policy policy = policy_named(names[i]);
        snprintf(what, sizeof what, "%s, n = %zu, deviation %g", names[i], n, deviation);
        check_one_row(what, row, n, &policy);
    }
    free(row);
}

TEST(rows_of_65537_agree_with_the_reference) {
    check_long_row(65537, 0, 1, 6);
    check_long_row(65537, 2, 0.1, 7);
    check_long_row(65537, 0, 4, 8);
    check_long_row(65537, 0, 3000, 9);
    check_long_row(65537, 9000, 2, 10);
    print_worst();
}

TEST(rows_of_1048576_agree_with_the_reference) {
    size_t n = size_or_emulated(1048576, 98304);
    check_long_row(n, 0, 1, 11);
    check_long_row(n, -9000, 2, 12);
    print_worst();
}

TEST(rows_of_more_than_two_million_agree_with_the_reference) {
    size_t n = size_or_emulated(2200001, 1100001);
    struct rng rng = rng_seeded(13);
    float *row = malloc(n * sizeof *row);
    REQUIRE(row != NULL);
    rng_fill_normal(&rng, row, n, 0, 1.5);
    row[n - 1] = 9; /* the largest comes last */
    whet_policy policies[] = {whet_policy_softmax(), whet_policy_adaptive_hold()};
    check_one_row("softmax, n = 2,200,001", row, n, &policies[0]);
    check_one_row("adaptive:hold, n = 2,200,001", row, n, &policies[1]);
    print_worst();
    free(row);
}

/* Long rows are taken piece by piece: here every piece has another maximum, or none at all. */
TEST(long_rows_whose_maximum_moves_agree_with_the_reference) {
    enum { LENGTH = 4 * 4096 + 37, KINDS = 6 };
    static float row[LENGTH];
    struct rng rng = rng_seeded(14);
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t i = 0; i < LENGTH; i++) {
            double at = (double)i / LENGTH;
            double noise = rng_normal(&rng, 0, 1);
            const double ramps[KINDS] = {200 * at, -200 * at, 6 * at, noise, noise, noise};
            bool masked = (kind == 3 && at < 0.5) || (kind == 4 && at < 0.9999) ||
                          (kind == 5 && at > 0.2 && at < 0.9);
            row[i] = masked ? -INFINITY : (float)(ramps[kind] + noise);
        }
        check_all_temperatures(row, LENGTH, "moving maximum");
    }
    print_worst();
}

/* Sums over a million equal terms show any drift. */
TEST(a_million_equal_logits_have_the_entropy_of_their_number) {
    size_t n = 1048576;
    float *row = malloc(n * sizeof *row);
    REQUIRE(row != NULL);
    for (size_t i = 0; i < n; i++) {
        row[i] = i % 2 ? -1.7f : 0.3f;
    }
    whet_policy policies[] = {whet_policy_softmax(), whet_policy_fixed(0.7)};
    check_one_row("two levels", row, n, &policies[0]);
    check_one_row("two levels, warmer", row, n, &policies[1]);
    print_worst();
    free(row);
}

/* ---- types, masks and layouts ---- */

enum { NO_MASK, ONE_MASK, MASK_TO_EACH };

typedef struct layout {
    size_t rows, n;
    whet_type in_type, out_type, mask_type;
    int masks;
    size_t in_gap, out_gap, mask_gap; /* elements between rows */
    size_t stats_gap;                 /* bytes between statistics */
    bool in_backwards, out_backwards;
    bool in_place;
} layout;

/* An array of rows in guarded memory, perhaps from the last to the first. */
typedef struct array {
    whet_type type;
    size_t rows, n;
    char *memory;
    char *first;
    ptrdiff_t stride; /* elements */
} array;

static array array_new(whet_type type, size_t rows, size_t n, size_t gap, bool backwards) {
    size_t size = reference_size(type);
    size_t step = n + gap;
    array a = {type, rows, n, NULL, NULL, (ptrdiff_t)step};
    a.memory = guarded_new(((rows - 1) * step + n) * size);
    a.first = a.memory;
    if (backwards) {
        a.first += (rows - 1) * step * size;
        a.stride = -a.stride;
    }
    return a;
}

static char *array_at(const array *a, size_t row, size_t i) {
    ptrdiff_t size = (ptrdiff_t)reference_size(a->type);
    return a->first + ((ptrdiff_t)row * a->stride + (ptrdiff_t)i) * size;
}

static void array_set(const array *a, size_t row, size_t i, float value) {
    uint16_t bits = a->type == WHET_F16 ? reference_to_f16(value) : reference_to_bf16(value);
    memcpy(array_at(a, row, i), a->type == WHET_F32 ? (void *)&value : (void *)&bits,
           reference_size(a->type));
}

static double array_get(const array *a, size_t row, size_t i) {
    return reference_load(array_at(a, row, i), a->type);
}

static bool gaps_are_untouched(const array *a) {
    size_t size = reference_size(a->type);
    for (size_t row = 0; row + 1 < a->rows; row++) {
        const char *end = a->stride > 0 ? array_at(a, row, a->n) : array_at(a, row + 1, a->n);
        size_t step = (size_t)(a->stride < 0 ? -a->stride : a->stride);
        for (size_t i = 0; i < (step - a->n) * size; i++) {
            if ((unsigned char)end[i] != 0xff) {
                return false;
            }
        }
    }
    return true;
}

/* Multiples of 1/256 below 8: their sums with the mask are exact in f32. */
static void fill_logits(array *a, struct rng *rng) {
    for (size_t row = 0; row < a->rows; row++) {
        for (size_t i = 0; i < a->n; i++) {
            double x = fmax(-7.9, fmin(7.9, rng_normal(rng, 0, 2)));
            array_set(a, row, i, (float)(nearbyint(x * 256) / 256));
        }
    }
}

static void fill_mask(array *a, struct rng *rng) {
    for (size_t row = 0; row < a->rows; row++) {
        for (size_t i = 0; i < a->n; i++) {
            bool masked = rng_bits(rng) % 4 == 0;
            float value = (float)rng_integer(rng, -32, 32) / 16;
            array_set(a, row, i, masked ? -INFINITY : value);
        }
    }
}

static double logit_at(const array *in, const array *mask, int masks, size_t row, size_t i) {
    double m = masks == NO_MASK ? 0 : array_get(mask, masks == ONE_MASK ? 0 : row, i);
    return m == -(double)INFINITY ? m : array_get(in, row, i) + m;
}

/* Whether this is the f32 result rounded to the type. */
static bool is_rounded(const char *at, whet_type type, float value) {
    if (type == WHET_F32) {
        return same_bytes(at, &value, sizeof value);
    }
    return reference_is_rounded(at, type, value);
}

/* The plainest call, f32 out, compared with the reference row by row. */
static void check_plain(const char *what, const layout *l, whet_rows rows, const array *in,
                        const array *mask, const whet_policy *policy, float *plain,
                        whet_stats *stats) {
    double *logits = malloc(l->n * sizeof *logits);
    REQUIRE(logits != NULL);
    rows.out = plain;
    rows.out_stride = 0;
    rows.out_type = WHET_F32;
    rows.stats = stats;
    rows.stats_stride = 0;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    for (size_t row = 0; row < l->rows; row++) {
        for (size_t i = 0; i < l->n; i++) {
            logits[i] = logit_at(in, mask, l->masks, row, i);
        }
        compare_row(what, logits, l->n, policy, plain + row * l->n, &stats[row]);
    }
    free(logits);
}

static void check_rounded(const char *what, const array *written, const float *plain) {
    size_t wrong = 0;
    for (size_t at = 0; at < written->rows * written->n; at++) {
        const char *element = array_at(written, at / written->n, at % written->n);
        wrong += !is_rounded(element, written->type, plain[at]);
    }
    CHECK_MSG(wrong == 0, "%s: %zu are not the rounded result", what, wrong);
}

static void check_layout(const layout *l, const whet_policy *policy, struct rng *rng) {
    char what[200];
    snprintf(what, sizeof what, "%zu rows of %zu, types %d %d, mask %d of type %d%s", l->rows, l->n,
             (int)l->in_type, (int)l->out_type, l->masks, (int)l->mask_type,
             l->in_place ? ", in place" : "");
    array in = array_new(l->in_type, l->rows, l->n, l->in_gap, l->in_backwards);
    array mask =
        array_new(l->mask_type, l->masks == MASK_TO_EACH ? l->rows : 1, l->n, l->mask_gap, false);
    array out = array_new(l->out_type, l->rows, l->n, l->out_gap, l->out_backwards);
    fill_logits(&in, rng);
    fill_mask(&mask, rng);
    float *plain = malloc((l->rows * l->n + 1) * sizeof *plain);
    whet_stats *stats = malloc(l->rows * sizeof *stats);
    size_t stats_stride = sizeof(whet_stats) + l->stats_gap;
    char *spaced = guarded_new(l->rows * stats_stride - l->stats_gap);
    REQUIRE(plain && stats);

    whet_rows rows = {.size = sizeof rows, .rows = l->rows, .n = l->n};
    rows.in = in.first;
    rows.in_stride = in.stride;
    rows.in_type = in.type;
    rows.mask = l->masks == NO_MASK ? NULL : mask.first;
    rows.mask_stride = l->masks == MASK_TO_EACH ? mask.stride : 0;
    rows.mask_type = mask.type;
    check_plain(what, l, rows, &in, &mask, policy, plain, stats);

    const array *written = l->in_place ? &in : &out;
    rows.out = written->first;
    rows.out_stride = written->stride;
    rows.out_type = written->type;
    rows.stats = (whet_stats *)(void *)spaced;
    rows.stats_stride = l->stats_gap ? stats_stride : 0;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    check_rounded(what, written, plain);
    CHECK_MSG(gaps_are_untouched(&in) && gaps_are_untouched(&out), "%s: written between rows",
              what);
    for (size_t row = 0; row < l->rows; row++) {
        whet_stats one;
        memcpy(&one, spaced + row * stats_stride, sizeof one);
        CHECK_MSG(same_stats(&one, &stats[row]), "%s: statistics of row %zu", what, row);
        for (size_t i = 0; row + 1 < l->rows && i < l->stats_gap; i++) {
            CHECK((unsigned char)spaced[row * stats_stride + sizeof one + i] == 0xff);
        }
    }
    guarded_free(in.memory);
    guarded_free(mask.memory);
    guarded_free(out.memory);
    guarded_free(spaced);
    free(plain);
    free(stats);
}

TEST(every_type_goes_in_and_comes_out_rounded) {
    struct rng rng = rng_seeded(20);
    static const size_t some[] = {1, 2, 15, 16, 17, 31, 33, 127, 1000, 4096, 4097, 9001};
    static const char *const names[] = {"softmax", "adaptive", "target:1"};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        for (int types = 0; types < 9; types++) {
            layout l = {.rows = 2, .n = some[i]};
            l.in_type = (whet_type)(types % 3);
            l.out_type = (whet_type)(types / 3);
            whet_policy policy = policy_named(names[(i + (size_t)types) % 3]);
            check_layout(&l, &policy, &rng);
        }
    }
    print_worst();
}

TEST(narrow_results_without_statistics_are_rounded_ones_too) {
    struct rng rng = rng_seeded(24);
    static const size_t some[] = {1, 2, 15, 16, 17, 31, 33, 127, 1000, 4096, 4097, 9001};
    static const char *const names[] = {"softmax", "adaptive", "target:1", "ssmax:0.4"};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        for (size_t k = 0; k < 24; k++) {
            whet_policy policy = policy_named(names[k % 4]);
            array in = array_new((whet_type)(k / 8), 2, some[i], 0, false);
            array plain = array_new(WHET_F32, 2, some[i], 0, false);
            array out = array_new(k / 4 % 2 ? WHET_F16 : WHET_BF16, 2, some[i], 0, false);
            fill_logits(&in, &rng);
            whet_rows rows = {.size = sizeof rows, .rows = 2, .n = some[i], .in = in.first};
            rows.in_type = in.type;
            rows.out = plain.first;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            rows.out = out.first;
            rows.out_type = out.type;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            check_rounded(names[k % 4], &out, (const float *)(const void *)plain.first);
            guarded_free(in.memory);
            guarded_free(plain.memory);
            guarded_free(out.memory);
        }
    }
}

/* Rows that are turned to lie side by side, or not: by type, mask and statistics. */
TEST(short_rows_are_the_same_to_the_bit_whichever_way_they_are_taken) {
    struct rng rng = rng_seeded(25);
    static const char *const names[] = {"softmax", "adaptive", "exp:1", "ssmax:0.4", "linear:8"};
    enum { ROWS = 40, N = 60 };
    static float zeros[N];
    for (size_t n = 1; n <= N; n++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            whet_policy policy = policy_named(names[k]);
            array in = array_new(WHET_F32, ROWS, n, 0, false);
            array plain = array_new(WHET_F32, ROWS, n, 0, false);
            array out = array_new(k % 2 ? WHET_F16 : WHET_BF16, ROWS, n, 0, false);
            whet_stats stats[ROWS];
            fill_logits(&in, &rng);
            whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = n, .in = in.first};
            rows.out = plain.first;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            const float *expected = (const float *)(const void *)plain.first;
            rows.out = out.first;
            rows.out_type = out.type;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            check_rounded(names[k], &out, expected);
            rows.mask = zeros;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            check_rounded(names[k], &out, expected);
            rows.mask = NULL;
            rows.stats = stats;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            check_rounded(names[k], &out, expected);
            guarded_free(in.memory);
            guarded_free(plain.memory);
            guarded_free(out.memory);
        }
    }
}

TEST(masks_of_both_types_are_added) {
    struct rng rng = rng_seeded(21);
    static const size_t some[] = {1, 2, 16, 17, 33, 127, 1000, 4097, 8193};
    static const char *const names[] = {"softmax", "adaptive", "ssmax:0.4", "target:1"};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        for (int kind = 0; kind < 12; kind++) {
            layout l = {.rows = 3, .n = some[i], .mask_gap = 7};
            l.masks = kind % 2 ? ONE_MASK : MASK_TO_EACH;
            l.mask_type = kind / 2 % 2 ? WHET_F16 : WHET_F32;
            l.in_type = l.out_type = (whet_type)(kind / 4);
            whet_policy policy = policy_named(names[(size_t)kind % 4]);
            check_layout(&l, &policy, &rng);
            l.in_place = true;
            check_layout(&l, &policy, &rng);
        }
    }
    print_worst();
}

TEST(strides_may_leave_gaps_and_go_backwards) {
    struct rng rng = rng_seeded(22);
    static const size_t some[] = {1, 2, 17, 33, 1000, 4097};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        for (int kind = 0; kind < 16; kind++) {
            layout l = {.rows = 4, .n = some[i], .stats_gap = kind % 3 ? 0 : 24};
            l.in_gap = kind & 1 ? 5 : 0;
            l.out_gap = kind & 2 ? 3 : 0;
            l.in_backwards = kind & 4;
            l.out_backwards = kind & 8;
            l.in_type = l.out_type = (whet_type)(kind % 3);
            whet_policy policy = whet_policy_adaptive();
            check_layout(&l, &policy, &rng);
            l.in_place = true;
            check_layout(&l, &policy, &rng);
        }
    }
}

/* Rows of n, all at once and one by one, in place if wanted. */
static void check_many_rows(size_t row_count, size_t n, const char *name, bool in_place) {
    struct rng rng = rng_seeded(23 + n);
    size_t bytes = row_count * n * sizeof(float);
    float *in = guarded_new(bytes);
    float *out = guarded_new(bytes);
    float *one = guarded_new(n * sizeof(float));
    rng_fill_normal(&rng, in, row_count * n, 0, 1.5f);
    for (size_t bad = 5; bad < row_count; bad += 37) { /* NaN, infinite, masked in part or all */
        float *row = in + bad * n;
        row[bad % n] = bad % 4 == 0 ? NAN : bad % 4 == 1 ? INFINITY : -INFINITY;
        for (size_t i = 0; bad % 4 == 3 && i < n; i++)
            row[i] = -INFINITY;
    }
    memcpy(out, in, bytes);
    whet_policy policy = policy_named(name);
    whet_rows rows = {
        .size = sizeof rows, .rows = row_count, .n = n, .in = in_place ? out : in, .out = out};
    size_t first_bad = row_count, expected_bad = row_count, wrong = 0;
    whet_status status = whet_softmax(&rows, &policy, &first_bad);
    for (size_t r = 0; r < row_count; r++) {
        whet_rows single = {.size = sizeof rows, .rows = 1, .n = n, .in = in + r * n, .out = one};
        if (whet_softmax(&single, &policy, NULL) == WHET_NOT_FINITE && expected_bad == row_count)
            expected_bad = r;
        for (size_t i = 0; i < n; i++)
            wrong += !(isnan(one[i]) ? isnan(out[r * n + i]) != 0
                                     : same_bytes(&one[i], &out[r * n + i], sizeof(float)));
    }
    CHECK_MSG(wrong == 0, "%s, n = %zu: %zu entries differ", name, n, wrong);
    CHECK_INT(status, expected_bad < row_count ? WHET_NOT_FINITE : WHET_OK);
    CHECK_INT(first_bad, expected_bad);
    guarded_free(in);
    guarded_free(out);
    guarded_free(one);
}

TEST(many_rows_at_once_are_the_same_as_one_by_one) {
    static const size_t lengths[] = {1,  2,  3,  4,  5,  8,   15,   16,   17,
                                     31, 55, 56, 57, 64, 100, 4001, 4096, 9001};
    static const char *const names[] = {"softmax", "adaptive", "ssmax:0.7"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t p = 0; p < sizeof names / sizeof *names; p++)
            check_many_rows(lengths[i] < 1000   ? 5 + 97 * (i % 3)
                            : emulated()        ? 20
                            : lengths[i] > 9000 ? 45
                                                : 530, /* large enough to go past the caches */
                            lengths[i], names[p], i % 2 == 0);
}

/* All rows but the last keep their exponentials in the last one's place, unless logits lie there;
 * here the last row is not finite, an ordinary one, or all masked. */
TEST(many_long_rows_at_once_are_the_same_as_one_by_one) {
    static const char *const names[] = {"adaptive", "softmax", "target:3"};
    check_many_rows(265, 8208, names[0], false); /* large enough to go past the caches */
    for (size_t p = 0; !emulated() && p < sizeof names / sizeof *names; p++) {
        check_many_rows(265, 8208, names[p], p > 0);
        check_many_rows(303, 8192, names[p], false);
        check_many_rows(228, 12304, names[p], false);
    }
}

TEST(short_rows_agree_with_the_reference_whatever_their_number) {
    enum { ROWS = 61, N_MAX = 60 };
    static float in[ROWS * N_MAX], out[ROWS * N_MAX];
    struct rng rng = rng_seeded(24);
    for (size_t n = 1; n <= N_MAX; n += emulated() ? 7 : 1) {
        rng_fill_normal(&rng, in, ROWS * n, 0, n % 2 ? 1 : 5);
        for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
            whet_policy policy = policy_named(temperatures[t]);
            whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = n, .in = in, .out = out};
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            for (size_t r = 0; r < ROWS; r++) {
                double logits[N_MAX];
                for (size_t i = 0; i < n; i++)
                    logits[i] = (double)in[r * n + i];
                whet_stats stats = {0};
                whet_rows single = {
                    .size = sizeof rows, .rows = 1, .n = n, .in = in + r * n, .stats = &stats};
                CHECK_INT(whet_entropy(&single, &policy, NULL), WHET_OK);
                double off = beta_depends_on_logits(&policy) ? BETA_LIMIT * fmax(1, stats.beta) : 0;
                compare_result(temperatures[t], logits, n, out + r * n, &stats, off);
            }
        }
    }
    print_worst();
}

/* ---- empty and bad rows ---- */

TEST(rows_with_everything_masked_are_zeros) {
    static float row[4097];
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            row[j] = -INFINITY;
        }
        check_all_temperatures(row, sizes[i], "everything masked");
    }
    check_all_temperatures(row, 0, "no entries");
}

/* Row r is bad for odd r; where in the row, and how, changes. */
TEST(bad_rows_are_nan_and_the_others_right) {
    struct rng rng = rng_seeded(30);
    enum { ROWS = 9 };
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        size_t n = sizes[i];
        float *in = malloc(ROWS * n * sizeof *in);
        float *out = malloc(ROWS * n * sizeof *out);
        double *logits = malloc(n * sizeof *logits);
        REQUIRE(in && out && logits);
        rng_fill_normal(&rng, in, ROWS * n, 0, 1);
        for (size_t row = 1; row < ROWS; row += 2) {
            size_t at = (size_t)rng_integer(&rng, 0, (int64_t)n - 1);
            for (size_t j = 0; row >= 5 && j < n; j++) {
                in[row * n + j] = -INFINITY; /* alone among masked entries */
            }
            in[row * n + at] = row % 4 == 1 ? NAN : INFINITY;
        }
        for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
            whet_policy policy = policy_named(temperatures[t]);
            whet_stats stats[ROWS];
            size_t first_bad = 99;
            whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = n, .in = in, .out = out};
            CHECK_INT(whet_softmax(&rows, &policy, &first_bad), WHET_NOT_FINITE);
            CHECK_INT(first_bad, 1);
            for (size_t at = 0; at < ROWS * n; at++) {
                CHECK_MSG(isnan(out[at]) == (at / n % 2 == 1), "%s, n = %zu", temperatures[t], n);
            }
            rows.stats = stats;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_NOT_FINITE);
            for (size_t row = 0; row < ROWS; row++) {
                for (size_t j = 0; j < n; j++) {
                    logits[j] = (double)in[row * n + j];
                }
                compare_row(temperatures[t], logits, n, &policy, out + row * n, &stats[row]);
            }
            first_bad = 99;
            CHECK_INT(whet_entropy(&rows, &policy, &first_bad), WHET_NOT_FINITE);
            CHECK_INT(first_bad, 1);
        }
        free(in);
        free(out);
        free(logits);
    }
}

TEST(bad_rows_are_nan_in_every_type_and_in_place) {
    for (whet_type type = WHET_F32; type <= WHET_BF16; type++) {
        for (size_t n = 1; n <= 5000; n = 3 * n + 1) {
            array a = array_new(type, 3, n, 2, false);
            struct rng rng = rng_seeded(31);
            fill_logits(&a, &rng);
            array_set(&a, 1, n / 2, NAN);
            whet_rows rows = {.size = sizeof rows, .rows = 3, .n = n, .in = a.first};
            rows.in_stride = rows.out_stride = a.stride;
            rows.in_type = rows.out_type = type;
            rows.out = a.first;
            size_t first_bad = 99;
            CHECK_INT(whet_softmax(&rows, NULL, &first_bad), WHET_NOT_FINITE);
            CHECK_INT(first_bad, 1);
            for (size_t i = 0; i < n; i++) {
                CHECK(isnan(array_get(&a, 1, i)));
                CHECK(array_get(&a, 0, i) >= 0 && array_get(&a, 2, i) >= 0);
            }
            guarded_free(a.memory);
        }
    }
}

/* In a long row the bad entry may come in any piece, the first or the last. */
TEST(long_rows_are_bad_wherever_the_bad_entry_is) {
    enum { LENGTH = 3 * 4096 + 5 };
    static float row[LENGTH];
    static float out[LENGTH];
    struct rng rng = rng_seeded(32);
    static const size_t places[] = {0, 4095, 4096, 9000, LENGTH - 6, LENGTH - 5, LENGTH - 1};
    static const char *const names[] = {"softmax", "adaptive", "target:2", "length:30"};
    for (size_t i = 0; i < 7 * 2 * 2; i++) {
        for (size_t j = 0; j < LENGTH; j++) {
            row[j] = i < 14 ? (float)rng_normal(&rng, 0, 1) : -INFINITY;
        }
        row[places[i % 7]] = i / 7 % 2 ? NAN : INFINITY;
        for (size_t k = 0; k < 8; k++) {
            whet_policy policy = policy_named(names[k % 4]);
            whet_stats stats = {0};
            size_t first_bad = 99;
            whet_rows rows = {.size = sizeof rows, .rows = 1, .n = LENGTH, .in = row, .out = out};
            rows.stats = k < 4 ? &stats : NULL;
            memset(out, 0, sizeof out);
            CHECK_INT(whet_softmax(&rows, &policy, &first_bad), WHET_NOT_FINITE);
            CHECK_INT(first_bad, 0);
            size_t numbers = 0;
            for (size_t j = 0; j < LENGTH; j++) {
                numbers += out[j] == out[j];
            }
            CHECK_MSG(numbers == 0, "%s, bad at %zu: %zu numbers", names[k % 4], places[i % 7],
                      numbers);
            CHECK_INT(k < 4 ? stats.n : LENGTH, i < 14 || k >= 4 ? LENGTH : 1);
        }
    }
}

/* Only -inf masks, and what it masks may be anything. */
TEST(a_mask_hides_bad_logits_and_is_bad_itself_only_above_minus_infinity) {
    const float in[6] = {NAN, 1, INFINITY, 2, -INFINITY, 3};
    float mask[6] = {-INFINITY, 0, -INFINITY, 0, 0, -INFINITY};
    float out[6];
    whet_stats stats;
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = 6, .in = in, .out = out};
    rows.mask = mask;
    rows.stats = &stats;
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
    CHECK_INT(stats.n, 2);
    CHECK_NEAR(out[3], 1 / (1 + exp(-1)), 1e-6);
    CHECK(out[0] == 0 && out[2] == 0 && out[4] == 0 && out[5] == 0);
    const float bad[] = {NAN, INFINITY};
    for (size_t i = 0; i < 2; i++) {
        mask[1] = bad[i];
        CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_NOT_FINITE);
        CHECK(isnan(out[0]) && isnan(out[3]));
    }
}

/* ---- nothing to do ---- */

TEST(no_rows_and_no_entries_are_fine) {
    whet_stats stats[2] = {{.n = 7}, {.n = 7}};
    whet_rows rows = {.size = sizeof rows};
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
    CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_OK);
    rows.n = 5;
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
    rows.n = 0;
    rows.rows = 2;
    rows.stats = stats;
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
    for (size_t i = 0; i < 2; i++) {
        whet_stats empty = whet_stats_empty();
        CHECK(same_stats(&stats[i], &empty));
    }
}

TEST(entropy_alone_writes_no_probabilities) {
    float in[64];
    float out[64];
    struct rng rng = rng_seeded(40);
    rng_fill_normal(&rng, in, 64, 0, 1);
    memset(out, 0x5a, sizeof out);
    float before[64];
    memcpy(before, in, sizeof before);
    whet_stats stats[2];
    for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
        whet_policy policy = policy_named(temperatures[t]);
        whet_rows rows = {.size = sizeof rows, .rows = 2, .n = 32, .in = in, .out = out};
        rows.stats = stats;
        CHECK_INT(whet_entropy(&rows, &policy, NULL), WHET_OK);
        rows.out = in; /* not looked at, so no overlap either */
        rows.out_stride = 1;
        rows.out_type = WHET_CUSTOM;
        CHECK_INT(whet_entropy(&rows, &policy, NULL), WHET_OK);
    }
    for (size_t i = 0; i < sizeof out; i++) {
        CHECK(((unsigned char *)out)[i] == 0x5a);
    }
    CHECK(same_bytes(in, before, sizeof in));
}

TEST(input_rows_may_share_entries) {
    float in[20];
    float out[4 * 8];
    double logits[8];
    whet_stats stats[4];
    struct rng rng = rng_seeded(41);
    rng_fill_normal(&rng, in, 20, 0, 1);
    whet_policy policy = whet_policy_adaptive();
    whet_rows rows = {.size = sizeof rows, .rows = 4, .n = 8, .in = in, .in_stride = 3, .out = out};
    rows.stats = stats;
    CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
    for (size_t row = 0; row < 4; row++) {
        for (size_t i = 0; i < 8; i++) {
            logits[i] = (double)in[row * 3 + i];
        }
        compare_row("sliding window", logits, 8, &policy, out + row * 8, &stats[row]);
    }
}
