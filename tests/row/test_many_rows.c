/*
 * Many rows at once: the same as one by one, bad and masked rows among them, with
 * too many entries for the caches; and short rows, which are taken
 * several together, against the reference.
 */
#include "row/compare.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* What many rows are that are not plain. */
typedef struct narrow {
    size_t rows, n;
    whet_type in_type, out_type;
    enum { UNMASKED, MASK_FOR_ALL, MASK_FOR_EACH } masks;
    whet_type mask_type;
    size_t in_gap, out_gap, mask_gap;
    bool in_backwards, out_backwards, in_place;
} narrow;

/* NaN, masked, and masked altogether here and there. */
static void spoil(array *a) {
    for (size_t row = 9; row < a->rows; row += 41) {
        array_set(a, row, row % a->n, row % 2 ? NAN : -INFINITY);
        for (size_t i = 0; row % 4 == 2 && i < a->n; i++) {
            array_set(a, row, i, -INFINITY);
        }
    }
}

static size_t differences(const array *a, const array *b) {
    size_t wrong = 0;
    for (size_t at = 0; at < a->rows * a->n; at++) {
        wrong += !same_bytes(array_at(a, at / a->n, at % a->n), array_at(b, at / a->n, at % a->n),
                             a->type == WHET_F32 ? sizeof(float) : sizeof(uint16_t));
    }
    return wrong;
}

/* Taken together and, as statistics have them, one by one. */
static void check_narrow_rows(narrow w, const char *name) {
    struct rng rng = rng_seeded(40 + w.n);
    array in = array_new(w.in_type, w.rows, w.n, w.in_gap, w.in_backwards);
    array mask = array_new(w.mask_type, w.masks == MASK_FOR_EACH ? w.rows : 1, w.n, w.mask_gap, 0);
    array out = array_new(w.out_type, w.rows, w.n, w.out_gap, w.out_backwards);
    array one = array_new(w.out_type, w.rows, w.n, w.out_gap, w.out_backwards);
    fill_logits(&in, &rng);
    fill_logits(&mask, &rng);
    spoil(&in);
    for (size_t row = 0; row < mask.rows; row++) {
        array_set(&mask, row, (row + w.n / 2) % w.n, -INFINITY);
    }
    whet_stats *stats = malloc(w.rows * sizeof *stats);
    REQUIRE(stats);
    whet_policy policy = policy_named(name);
    whet_rows rows = {.size = sizeof rows, .rows = w.rows, .n = w.n, .in = in.first};
    rows.in_type = w.in_type;
    rows.in_stride = in.stride;
    rows.mask = w.masks == UNMASKED ? NULL : mask.first;
    rows.mask_type = w.mask_type;
    rows.mask_stride = w.masks == MASK_FOR_EACH ? mask.stride : 0;
    rows.out = one.first;
    rows.out_type = w.out_type;
    rows.out_stride = one.stride;
    rows.stats = stats;
    size_t expected_bad = w.rows, first_bad = expected_bad;
    whet_status expected = whet_softmax(&rows, &policy, &expected_bad);
    const array *written = w.in_place ? &in : &out;
    rows.out = written->first;
    rows.out_stride = written->stride;
    rows.stats = NULL;
    CHECK_INT(whet_softmax(&rows, &policy, &first_bad), expected);
    CHECK_INT(first_bad, expected_bad);
    size_t wrong = differences(written, &one);
    CHECK_MSG(wrong == 0, "%s, types %d and %d, mask %d, %zu rows of %zu: %zu differ", name,
              (int)w.in_type, (int)w.out_type, (int)w.masks, w.rows, w.n, wrong);
    guarded_free(in.memory);
    guarded_free(mask.memory);
    guarded_free(out.memory);
    guarded_free(one.memory);
    free(stats);
}

TEST(many_narrow_rows_are_the_same_with_statistics_and_without) {
    static const size_t lengths[] = {1, 2, 5, 16, 33, 56, 57, 100, 1000, 2048, 2049};
    static const char *const names[] = {"softmax", "adaptive", "ssmax:0.7"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t k = 0; k < 24; k++) {
            narrow w = {.n = lengths[i], .masks = k % 3, .mask_type = k / 3 % 2};
            w.rows = emulated() ? 60 : w.n < 1000 ? 4200 / w.n + 200 : 70;
            w.in_type = (whet_type)(k / 6 % 3);
            w.out_type = (whet_type)((k / 2 + i) % 3);
            w.in_gap = k % 4 == 1 ? 3 : 0;
            w.mask_gap = k % 5 == 2 ? 4 : 0;
            w.out_gap = k % 7 == 3 ? 5 : 0;
            w.in_backwards = k % 8 == 5;
            w.out_backwards = k % 9 == 4;
            w.in_place = k % 2 && w.in_type == w.out_type;
            check_narrow_rows(w, names[(i + k) % 3]);
        }
    }
}

TEST(short_rows_agree_with_the_reference_whatever_their_number) {
    enum { ROWS = 61, N_MAX = 60 };
    static float in[ROWS * N_MAX], out[ROWS * N_MAX];
    struct rng rng = rng_seeded(24);
    for (size_t n = 1; n <= N_MAX; n += emulated() ? 7 : 1) {
        rng_fill_normal(&rng, in, ROWS * n, 0, n % 2 ? 1 : 5);
        for (size_t t = 0; t < ROW_TEMPERATURE_COUNT; t++) {
            whet_policy policy = policy_named(row_temperatures[t]);
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
                compare_result(row_temperatures[t], logits, n, out + r * n, &stats, off);
            }
        }
    }
    print_worst();
}
