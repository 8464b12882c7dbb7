// The beta that n calls for: on rows for which it is known, and means over sequences.
#include "model/probe_parts.h"

#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 5, HEADS = 3 };

static const double gap = 3;

// Rows with one logit at the top and n - 1 that lie `gap` below: the sum is 1 + (n - 1) e^(-beta
// gap).
static void add_row(probe_result *r, size_t size, size_t sequence, size_t head, double n) {
    static gap_histogram all;
    float *values = r->gaps + ((size * r->sequences + sequence) * HEADS + head) * PROBE_GAP_VALUES;
    memset(&all, 0, sizeof all);
    gaps_add(&all, 160, 1, 10);
    gaps_add(&all, 160 - (int64_t)(gap * GAP_BINS_PER_NAT), (uint32_t)n - 1, 7);
    probe_gap_values(&all, values);
}

static probe_result made_up(void) {
    probe_result r = {.policies = 1, .sizes = SIZES, .sequences = 2, .layers = 1, .heads = HEADS};
    size_t count = (size_t)SIZES * 2 * HEADS * PROBE_GAP_VALUES;
    r.gaps = malloc(count * sizeof *r.gaps);
    REQUIRE(r.gaps);
    for (size_t i = 0; i < count; i++)
        r.gaps[i] = NAN;
    for (size_t s = 0; s < SIZES; s++) {
        r.tokens[s] = 64.0 * pow(4, (double)s);
        for (size_t i = 0; i < 2; i++) {
            add_row(&r, s, i, 0, r.tokens[s]);
            add_row(&r, s, i, 1, 64);
        }
    }
    return r;
}

TEST(a_head_whose_crowd_grows_needs_a_beta_that_grows) {
    probe_result r = made_up();
    // The second bin's middle lies half a bin higher than its lower edge, where the logits are.
    double distance = gap - 0.5 / GAP_BINS_PER_NAT;
    for (size_t s = 0; s < SIZES; s++) {
        double expected = 1 + log((r.tokens[s] - 1) / 63) / distance;
        CHECK_NEAR(probe_beta_called_for(&r, s, 0, 0), expected, 0.01 * expected);
        CHECK_NEAR(probe_within(&r, s, 0, 0, 1), 1, 0);
        CHECK_NEAR(probe_within(&r, s, 0, 0, 3), r.tokens[s], 0);
    }
    CHECK(probe_exponent(&r, 0, 0) > 0.5 && probe_exponent(&r, 0, 0) < 1.5);
    probe_free(&r);
}

TEST(a_head_whose_crowd_stays_needs_none) {
    probe_result r = made_up();
    for (size_t s = 0; s < SIZES; s++)
        CHECK_NEAR(probe_beta_called_for(&r, s, 0, 1), 1, 1e-6);
    CHECK_NEAR(probe_exponent(&r, 0, 1), 0, 1e-6);
    probe_free(&r);
}

TEST(a_power_of_ln_n_is_found_again) {
    probe_result r = made_up();
    // Crowds chosen such that beta is (ln n / ln n0)^0.7.
    for (size_t s = 0; s < SIZES; s++) {
        double beta = pow(log(r.tokens[s]) / log(64), 0.7), distance = gap - 0.5 / GAP_BINS_PER_NAT;
        for (size_t i = 0; i < 2; i++)
            add_row(&r, s, i, 2, 1 + round(63 * exp((beta - 1) * distance)));
    }
    CHECK_NEAR(probe_exponent(&r, 0, 2), 0.7, 0.02);
    probe_free(&r);
}

TEST(what_was_not_recorded_is_unknown) {
    probe_result r = made_up(), none = {.sizes = SIZES, .sequences = 2, .layers = 1, .heads = 1};
    CHECK(isnan(probe_beta_called_for(&r, 2, 0, 2)) && isnan(probe_exponent(&r, 0, 2)));
    CHECK(isnan(probe_beta_called_for(&none, 2, 0, 0)) && isnan(probe_within(&none, 0, 0, 0, 0)));
    // Two equal logits at the top: no beta makes one of them win.
    for (size_t i = 0; i < 2; i++) {
        add_row(&r, 0, i, 2, 2);
        gap_histogram tie = {.top = 0};
        gaps_add(&tie, 0, 200, 0);
        probe_gap_values(&tie, r.gaps + ((2 * r.sequences + i) * HEADS + 2) * PROBE_GAP_VALUES);
    }
    CHECK(isnan(probe_beta_called_for(&r, 2, 0, 2)));
    probe_free(&r);
}
