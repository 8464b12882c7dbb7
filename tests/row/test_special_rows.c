/*
 * Rows with everything masked, which are zeros, and rows with NaN or infinite
 * logits, which are NaN and are reported, among good ones that stay right:
 * wherever the bad entry is, in every type, in place and under a mask.
 */
#include "row/compare.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(rows_with_everything_masked_are_zeros) {
    static float row[4097];
    for (size_t i = 0; i < ROW_SIZE_COUNT; i++) {
        for (size_t j = 0; j < row_sizes[i]; j++) {
            row[j] = -INFINITY;
        }
        check_all_temperatures(row, row_sizes[i], "everything masked");
    }
    check_all_temperatures(row, 0, "no entries");
}

/* Every second row is non-finite; where in the row, and how, changes. */
TEST(bad_rows_are_nan_and_the_others_right) {
    struct rng rng = rng_seeded(30);
    enum { ROWS = 9 };
    for (size_t i = 0; i < ROW_SIZE_COUNT; i++) {
        size_t n = row_sizes[i];
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
        for (size_t t = 0; t < ROW_TEMPERATURE_COUNT; t++) {
            whet_policy policy = policy_named(row_temperatures[t]);
            whet_stats stats[ROWS];
            size_t first_bad = 99;
            whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = n, .in = in, .out = out};
            CHECK_INT(whet_softmax(&rows, &policy, &first_bad), WHET_NOT_FINITE);
            CHECK_INT(first_bad, 1);
            for (size_t at = 0; at < ROWS * n; at++) {
                CHECK_MSG(isnan(out[at]) == (at / n % 2 == 1), "%s, n = %zu", row_temperatures[t],
                          n);
            }
            rows.stats = stats;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_NOT_FINITE);
            for (size_t row = 0; row < ROWS; row++) {
                for (size_t j = 0; j < n; j++) {
                    logits[j] = (double)in[row * n + j];
                }
                compare_row(row_temperatures[t], logits, n, &policy, out + row * n, &stats[row]);
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
