/* Curves through points whose curve is known; and the statistics of evaluations. */
#include "support/check.h"

#include "base/random.h"
#include "base/statistics.h"
#include "retrieval/fit.h"

#include <math.h>

enum { POINTS = 400 };

static double paper(double h) { return (((-0.037 * h + 0.481) * h - 2.3) * h + 4.917) * h - 1.791; }

static retrieval_fit points_of(retrieval_fit_point *points, double (*curve)(double), double end) {
    for (size_t i = 0; i < POINTS; i++) {
        double h = end * (double)(i + 1) / POINTS;
        points[i] = (retrieval_fit_point){.entropy = h, .beta = curve(h), .is_used = true};
    }
    return (retrieval_fit){.points = points, .count = POINTS};
}

TEST(a_polynomial_is_found_again) {
    retrieval_fit_point points[POINTS];
    retrieval_fit fit = points_of(points, paper, 6);
    lab_error error = {0};
    REQUIRE(retrieval_fit_curves(&fit, 4, &error));
    CHECK_NEAR(fit.least.error, 0, 1e-9);
    const double expected[] = {-0.037, 0.481, -2.3, 4.917, -1.791};
    for (size_t i = 0; i < 5; i++)
        CHECK_NEAR(fit.least.policy.value[i], expected[i], 1e-7);
}

TEST(the_monotone_curve_never_falls_and_is_a_policy) {
    retrieval_fit_point points[POINTS];
    retrieval_fit fit = points_of(points, paper, 6); /* which falls from 4.4 on */
    lab_error error = {0};
    REQUIRE(retrieval_fit_curves(&fit, 4, &error));
    whet_policy policy;
    REQUIRE(whet_policy_parse(fit.monotone.name, &policy, NULL, 0) == WHET_OK);
    double last = 0;
    for (int i = 0; i < 180; i++) {
        double h = 0.05 * i;
        whet_stats stats = whet_stats_empty();
        stats.n = 10;
        stats.entropy = h;
        double beta = whet_policy_beta(&policy, &stats);
        CHECK_MSG(beta >= last - 1e-9, "beta falls at H = %g", h);
        last = beta;
    }
    CHECK(fit.monotone.error < 0.7 && fit.monotone.error > fit.least.error);
}

static double rising(double h) { return 1 + h * h; }

TEST(a_curve_that_rises_is_found_by_both) {
    retrieval_fit_point points[POINTS];
    retrieval_fit fit = points_of(points, rising, 3);
    lab_error error = {0};
    REQUIRE(retrieval_fit_curves(&fit, 3, &error));
    CHECK_NEAR(fit.least.error, 0, 1e-9);
    CHECK_NEAR(fit.monotone.error, 0, 1e-3);
}

TEST(too_few_points_are_refused) {
    retrieval_fit_point points[POINTS];
    retrieval_fit fit = points_of(points, rising, 3);
    fit.count = 4;
    lab_error error = {0};
    CHECK(!retrieval_fit_curves(&fit, 4, &error));
    CHECK_INT(error.kind, LAB_INPUT);
}

TEST(intervals_are_those_of_the_textbooks) {
    const double values[] = {1, 2, 3, 4};
    lab_interval mean = lab_mean_interval(values, 4);
    CHECK_NEAR(mean.mean, 2.5, 1e-12);
    CHECK_NEAR(mean.high - mean.mean, 3.182 * sqrt(5.0 / 3 / 4), 1e-9);
    lab_interval share = lab_share_interval(90, 100);
    CHECK_NEAR(share.low, 0.8256, 1e-4);
    CHECK_NEAR(share.high, 0.9448, 1e-4);
    CHECK_NEAR(lab_share_interval(0, 10).low, 0, 1e-12);
    CHECK_NEAR(share.error, 0.03, 1e-12);
    CHECK_NEAR(lab_even_split_probability(5, 0), 2.0 / 32, 1e-12);
    CHECK_NEAR(lab_even_split_probability(3, 3), 1, 1e-12);
    CHECK_NEAR(lab_even_split_probability(400, 300), 1.79e-4, 2e-5);
    CHECK_NEAR(lab_student_95(9), 2.262, 1e-9);
    CHECK_NEAR(lab_student_95(60), 2.000, 1e-3);
}

/* A table of heads and sets whose values are what the head, the set and chance add up to. */
static lab_interval of_table(double heads_deviation, double sets_deviation, double rest,
                             uint64_t seed) {
    enum { HEADS = 8, SETS = 400 };
    static double values[HEADS][SETS];
    double means[HEADS], squares = 0, column_squares = 0;
    lab_random random = lab_random_start(seed);
    for (size_t h = 0; h < HEADS; h++)
        for (size_t s = 0; s < SETS; s++)
            values[h][s] = rest * lab_random_normal(&random);
    for (size_t h = 0; h < HEADS; h++) {
        double own = heads_deviation * lab_random_normal(&random);
        for (size_t s = 0; s < SETS; s++)
            values[h][s] += own;
    }
    for (size_t s = 0; s < SETS; s++) {
        double own = sets_deviation * lab_random_normal(&random), sum = 0;
        for (size_t h = 0; h < HEADS; h++) {
            values[h][s] += own;
            sum += values[h][s];
            squares += values[h][s] * values[h][s];
        }
        column_squares += sum * sum;
    }
    for (size_t h = 0; h < HEADS; h++) {
        means[h] = 0;
        for (size_t s = 0; s < SETS; s++)
            means[h] += values[h][s] / SETS;
    }
    return lab_crossed_interval(means, HEADS, SETS, squares, column_squares);
}

TEST(heads_that_met_the_same_sets_share_their_luck) {
    static const double spreads[][3] = {{0.5, 0.1, 1}, {0, 5, 1}, {0.1, 2, 0.5}, {0, 0, 1}};
    for (size_t i = 0; i < 4; i++) {
        double heads = spreads[i][0], sets = spreads[i][1], rest = spreads[i][2];
        double truth = sqrt(heads * heads / 8 + sets * sets / 400 + rest * rest / 3200);
        double squares = 0;
        int covered = 0;
        enum { REPEATS = 400 };
        for (uint64_t seed = 0; seed < REPEATS; seed++) {
            lab_interval got = of_table(heads, sets, rest, 1000 * i + seed);
            squares += got.error * got.error / REPEATS;
            covered += got.low < 0 && got.high > 0;
        }
        /* what is nothing is never found to be less than nothing, so errors may come out larger */
        CHECK(sqrt(squares) / truth > 0.95 && sqrt(squares) / truth < 1.2);
        CHECK(covered > REPEATS * 92 / 100);
    }
}
