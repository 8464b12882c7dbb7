/*
 * The forms in which rows come and go: every type in and out, masks of both
 * types, strides with gaps and backwards, in place, rows that share entries, and
 * requests with nothing to do. What is written is the f32 result, rounded, and
 * that agrees with the reference.
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
#include <string.h>

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
    if (!l->in_place) { /* the same without statistics, by which rows may be taken together */
        CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
        check_rounded(what, written, plain);
        CHECK_MSG(gaps_are_untouched(&out), "%s: written between rows", what);
    }
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

/* Rows that are transposed to be interleaved, or not: by type, mask and statistics. */
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
    for (size_t t = 0; t < ROW_TEMPERATURE_COUNT; t++) {
        whet_policy policy = policy_named(row_temperatures[t]);
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
