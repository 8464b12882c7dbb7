/*
 * Intervals of paired ratios: which ordered values they end at, and that the
 * order within pairs does not matter.
 */
#include "paired.h"
#include "support/check.h"

#include <math.h>

TEST(the_median_of_an_even_number_lies_between_the_middle_two) {
    const double values[] = {4, 1, 3, 2};
    CHECK_NEAR(bench_paired_median(values, 3), 3, 0);
    CHECK_NEAR(bench_paired_median(values, 4), 2.5, 0);
}

TEST(too_few_pairs_have_no_interval) {
    const double logarithms[PAIRS_MIN] = {0};
    paired_ratio ratio = bench_paired_ratio(logarithms, PAIRS_MIN - 1);
    CHECK_NEAR(ratio.median, 1, 0);
    CHECK_NEAR(ratio.low, 0, 0);
    CHECK(isinf(ratio.high));
    CHECK_INT(ratio.pairs, PAIRS_MIN - 1);
}

TEST(six_pairs_have_an_interval_from_the_smallest_to_the_largest) {
    const double logarithms[PAIRS_MIN] = {0.3, -0.2, 0.1, 0, 0.2, -0.1};
    paired_ratio ratio = bench_paired_ratio(logarithms, PAIRS_MIN);
    CHECK_NEAR(ratio.median, exp(0.05), 1e-12);
    CHECK_NEAR(ratio.low, exp(-0.2), 1e-12);
    CHECK_NEAR(ratio.high, exp(0.3), 1e-12);
}

TEST(the_interval_is_that_of_the_sign_test) {
    /* of twelve tosses at most two are heads with a probability of 79 / 4096, at most three with
     * 299 / 4096 */
    double logarithms[12];
    for (int i = 0; i < 12; i++)
        logarithms[i] = 0.01 * i;
    paired_ratio ratio = bench_paired_ratio(logarithms, 12);
    CHECK_NEAR(ratio.low, exp(0.02), 1e-12);
    CHECK_NEAR(ratio.high, exp(0.09), 1e-12);
}

TEST(being_first_in_a_pair_cancels) {
    double logarithms[PAIRS_MAX];
    for (int i = 0; i < PAIRS_MAX; i++)
        logarithms[i] = 0.05 + (i % 2 ? 0.2 : -0.2);
    paired_ratio ratio = bench_paired_ratio(logarithms, PAIRS_MAX);
    CHECK_NEAR(ratio.low, exp(0.05), 1e-12);
    CHECK_NEAR(ratio.high, exp(0.05), 1e-12);
    CHECK_INT(ratio.pairs, PAIRS_MAX);
}

TEST(a_few_pairs_that_were_disturbed_do_not_move_the_interval) {
    double logarithms[100];
    for (int i = 0; i < 100; i++)
        logarithms[i] = i % 10 == 0 ? 3 : 0.001 * (i % 7 - 3);
    paired_ratio ratio = bench_paired_ratio(logarithms, 100);
    CHECK(ratio.low > 0.99 && ratio.high < 1.01);
}
