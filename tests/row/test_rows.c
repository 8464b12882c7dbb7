/*
 * whet_softmax and whet_entropy, one row at a time, against the reference: every
 * temperature over awkward lengths and kinds of logits, functions of the
 * caller's, every policy of the table, rows up to millions of entries, with the
 * limits that whet.h promises.
 */
#include "reference/reference.h"
#include "row/compare.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

TEST(every_temperature_agrees_with_the_reference) {
    static float row[4097];
    struct rng rng = rng_seeded(1);
    for (size_t i = 0; i < ROW_SIZE_COUNT; i++) {
        rng_fill_normal(&rng, row, row_sizes[i], 0, 1);
        check_all_temperatures(row, row_sizes[i], "normal");
        rng_fill_normal(&rng, row, row_sizes[i], -3, 6);
        check_all_temperatures(row, row_sizes[i], "sharp");
        rng_fill_normal(&rng, row, row_sizes[i], 0.5, 0.05);
        check_all_temperatures(row, row_sizes[i], "flat");
    }
    print_worst();
}

TEST(masked_entries_change_nothing_for_the_others) {
    static float row[4097];
    struct rng rng = rng_seeded(2);
    for (size_t i = 0; i < ROW_SIZE_COUNT; i++) {
        rng_fill_normal(&rng, row, row_sizes[i], 0, 2);
        for (size_t j = 0; j < row_sizes[i]; j++) {
            if (j > 0 && rng_bits(&rng) % 3 == 0) {
                row[j] = -INFINITY;
            }
        }
        check_all_temperatures(row, row_sizes[i], "masked");
    }
    print_worst();
}

/* Up to 1e4 in size: far apart, or far from zero. */
TEST(large_logits_agree_with_the_reference) {
    static float row[4097];
    struct rng rng = rng_seeded(3);
    for (size_t i = 0; i < ROW_SIZE_COUNT; i++) {
        rng_fill_uniform(&rng, row, row_sizes[i], -1e4, 1e4);
        check_all_temperatures(row, row_sizes[i], "from -1e4 to 1e4");
        rng_fill_normal(&rng, row, row_sizes[i], 9990, 2);
        check_all_temperatures(row, row_sizes[i], "near 1e4");
        rng_fill_normal(&rng, row, row_sizes[i], -9990, 2);
        check_all_temperatures(row, row_sizes[i], "near -1e4");
    }
    print_worst();
}

TEST(equal_logits_are_spread_evenly) {
    static float row[4097];
    for (size_t i = 0; i < ROW_SIZE_COUNT; i++) {
        for (size_t j = 0; j < row_sizes[i]; j++) {
            row[j] = 2.5f;
        }
        whet_policy policies[] = {whet_policy_softmax(), whet_policy_adaptive(),
                                  whet_policy_fixed(7), whet_policy_exp(1)};
        for (size_t p = 0; p < 4; p++) {
            check_one_row("equal logits", row, row_sizes[i], &policies[p]);
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
    for (size_t i = 0; i < ROW_SIZE_COUNT; i++) {
        rng_fill_normal(&rng, row, row_sizes[i], 0, 1.5);
        check_one_row("custom", row, row_sizes[i], &policy);
        check_one_row("custom, half as strong", row, row_sizes[i], &weaker);
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
