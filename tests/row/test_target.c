/*
 * The solver of `target`, driven by sums in double, and by sums as rough as
 * f32 exponentials make them.
 */
#include "policy/registry.h"
#include "row/stats.h"
#include "support/check.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>

#define N_MAX 4097

static double logits[N_MAX];
static size_t n;

static double max_logit(void) {
    double max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        max = fmax(max, logits[i]);
    }
    return max;
}

/* The sums at some beta; rough ones round beta log2 e and every exponential to f32. */
static row_sums sums_at(double beta, bool rough) {
    double max = max_logit();
    row_sums sums = {0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        double d = logits[i] - max;
        double e = exp(beta * d);
        if (rough) {
            double c = (double)(float)(beta * 1.4426950408889634);
            e = (double)(float)exp2(c * d);
        }
        sums.z += e;
        sums.s += d * e;
        sums.q += d * d * e;
    }
    return sums;
}

static double entropy_at(double beta) {
    row_sums sums = sums_at(beta, false);
    return log(sums.z) - beta * sums.s / sums.z;
}

static whet_stats statistics(bool rough) {
    row_sums sums = sums_at(1, rough);
    whet_stats stats = {.n = n, .max = max_logit(), .z = sums.z, .s = sums.s};
    whet_stats_complete(&stats);
    return stats;
}

static beta_solver solved(double goal, double cap, bool rough) {
    whet_policy policy = whet_policy_target(goal, cap);
    whet_stats stats = statistics(rough);
    beta_solver solver;
    whet_temperature_target.solver->start(&solver, &policy, &stats);
    while (!solver.done) {
        row_sums sums = sums_at(solver.beta, rough);
        CHECK(solver.beta >= 1 && solver.beta <= cap);
        whet_temperature_target.solver->step(&solver, sums.z, sums.s, sums.q);
    }
    CHECK(solver.beta >= 1 && solver.beta <= cap);
    return solver;
}

/* The same by bisection, as far as double goes. */
static double bisected(double goal, double cap) {
    double low = 1;
    double high = cap;
    for (int i = 0; i < 200; i++) {
        double middle = sqrt(low * high);
        if (entropy_at(middle) > goal) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return sqrt(low * high);
}

static void fill(struct rng *rng, size_t count, int shape, double scale) {
    n = count;
    for (size_t i = 0; i < n; i++) {
        double normal = rng_normal(rng, 0, 1);
        double uniform = rng_uniform(rng, 0, 1);
        double shapes[] = {normal, uniform, -log(1 - uniform), floor(4 * normal) / 4, normal > 0};
        logits[i] = scale * shapes[shape];
    }
}

/* Of random size, and of a scale between exp(low) and exp(high). */
static void fill_random(struct rng *rng, size_t largest, int shape, double low, double high) {
    size_t count = (size_t)rng_integer(rng, 3, (int64_t)largest);
    double scale = exp(rng_uniform(rng, low, high));
    fill(rng, count, shape, scale);
}

TEST(rows_already_sharper_keep_beta_one) {
    struct rng rng = rng_seeded(1);
    fill(&rng, 100, 0, 3);
    double own = statistics(false).entropy;
    const double goals[] = {own, own * 1.0001, own + 1, 100};
    for (size_t i = 0; i < 4; i++) {
        beta_solver solver = solved(goals[i], 256, false);
        CHECK_NEAR(solver.beta, 1, 0);
        CHECK_INT(solver.flags, 0);
        CHECK_INT(solver.steps, 0);
    }
}

TEST(the_entropy_wanted_is_reached) {
    struct rng rng = rng_seeded(2);
    unsigned total = 0;
    unsigned rows = 0;
    for (int trial = 0; trial < 1500; trial++) {
        fill_random(&rng, 1000, trial % 4, -3, 3);
        double own = statistics(false).entropy;
        double goal = own * rng_uniform(&rng, 0.02, 1);
        if (!(goal > 0)) {
            continue;
        }
        beta_solver solver = solved(goal, 256, false);
        if (solver.flags & WHET_ROW_CAPPED) {
            CHECK_NEAR(solver.beta, 256, 0);
            CHECK(entropy_at(256) >= goal * (1 - 1e-12));
            continue;
        }
        CHECK_NEAR(entropy_at(solver.beta), goal, 1e-8 * fmin(1, goal) + 1e-13);
        CHECK(solver.steps < 20);
        total += solver.steps;
        rows++;
    }
    CHECK_MSG(rows > 1000 && total < 6 * rows, "%u steps for %u rows", total, rows);
}

TEST(beta_agrees_with_bisection) {
    struct rng rng = rng_seeded(3);
    for (int trial = 0; trial < 100; trial++) {
        fill_random(&rng, 200, trial % 3, -2, 3);
        double goal = statistics(false).entropy * rng_uniform(&rng, 0.1, 0.99);
        beta_solver solver = solved(goal, 256, false);
        if (!(solver.flags & WHET_ROW_CAPPED)) {
            double beta = bisected(goal, 256);
            CHECK_NEAR(solver.beta, beta, 1e-7 * beta);
        }
    }
}

TEST(rough_sums_give_beta_to_their_own_accuracy) {
    struct rng rng = rng_seeded(4);
    unsigned total = 0;
    unsigned rows = 0;
    for (int trial = 0; trial < 300; trial++) {
        fill_random(&rng, 1000, trial % 4, -2, 4);
        double goal = statistics(false).entropy * rng_uniform(&rng, 0.05, 0.99);
        beta_solver solver = solved(goal, 256, true);
        if (!(solver.flags & WHET_ROW_CAPPED)) {
            CHECK_NEAR(entropy_at(solver.beta), goal, 1e-6 * fmax(1, goal));
            total += solver.steps;
            rows++;
        }
    }
    CHECK_MSG(total < 7 * rows, "%u steps for %u rows", total, rows);
}

TEST(awkward_sizes_are_solved) {
    struct rng rng = rng_seeded(5);
    const size_t sizes[] = {2, 15, 16, 17, 31, 33, 127, 1000, 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fill(&rng, sizes[i], 0, 1);
        double goal = 0.3 * statistics(false).entropy;
        beta_solver solver = solved(goal, 1e6, false);
        CHECK_INT(solver.flags, 0);
        CHECK_NEAR(entropy_at(solver.beta), goal, 1e-8);
    }
}

TEST(a_single_entry_is_as_sharp_as_can_be) {
    n = 1;
    logits[0] = -3;
    beta_solver solver = solved(0.5, 256, false);
    CHECK_NEAR(solver.beta, 1, 0);
    CHECK_INT(solver.flags, 0);
}

TEST(goals_beyond_the_cap_are_flagged) {
    struct rng rng = rng_seeded(6);
    fill(&rng, 100, 0, 0.01);
    beta_solver solver = solved(0.5, 256, false);
    CHECK_NEAR(solver.beta, 256, 0);
    CHECK_INT(solver.flags, WHET_ROW_CAPPED);
    solver = solved(0.5, 1e6, false);
    CHECK_INT(solver.flags, 0);
    CHECK(solver.beta > 256);
    solver = solved(0.5, 1, false);
    CHECK_NEAR(solver.beta, 1, 0);
    CHECK_INT(solver.flags, WHET_ROW_CAPPED);
}

/* Two entries share the maximum: entropies above ln 2 can be had, ln 2 itself and less cannot. */
TEST(ties_bound_what_can_be_reached) {
    const double tied[] = {2, 2, 1, 0, -1, 1.5};
    n = 6;
    for (size_t i = 0; i < n; i++) {
        logits[i] = tied[i];
    }
    const double caps[] = {30, 50, 256, 1e6, 1e300};
    for (size_t i = 0; i < 5; i++) {
        for (int rough = 0; rough < 2; rough++) {
            const double none[] = {log(2), nextafter(log(2), 0), nextafter(log(2), 1), 0.69, 1e-3};
            for (size_t k = 0; k < 5; k++) {
                beta_solver solver = solved(none[k], caps[i], rough);
                CHECK_NEAR(solver.beta, fmin(caps[i], 1e30), 0);
                CHECK_INT(solver.flags, WHET_ROW_CAPPED);
            }
            beta_solver solver = solved(log(2) + 1e-3, caps[i], rough);
            CHECK_INT(solver.flags, 0);
            CHECK_NEAR(entropy_at(solver.beta), log(2) + 1e-3, 1e-7);
        }
    }
}

TEST(many_ties_are_counted_exactly) {
    for (size_t multiplicity = 1; multiplicity <= 1000; multiplicity += 37) {
        n = multiplicity + 500;
        for (size_t i = 0; i < n; i++) {
            logits[i] = i < multiplicity ? 1 : 0;
        }
        double bound = log((double)multiplicity);
        if (bound > 0) {
            beta_solver solver = solved(bound, 256, true);
            CHECK_INT(solver.flags, WHET_ROW_CAPPED);
        }
        beta_solver solver = solved(bound + 1e-6, 256, true);
        CHECK_INT(solver.flags, 0);
        CHECK_NEAR(entropy_at(solver.beta), bound + 1e-6, 1e-7);
    }
}

TEST(uniform_rows_cannot_be_sharpened) {
    n = 64;
    for (size_t i = 0; i < n; i++) {
        logits[i] = 0.25;
    }
    beta_solver solver = solved(2, 256, false);
    CHECK_NEAR(solver.beta, 256, 0);
    CHECK_INT(solver.flags, WHET_ROW_CAPPED);
    solver = solved(log(64), 256, false);
    CHECK_NEAR(solver.beta, 1, 0);
    CHECK_INT(solver.flags, 0);
}

TEST(large_logits_and_low_goals_are_solved) {
    struct rng rng = rng_seeded(7);
    fill(&rng, 1000, 0, 1e4);
    logits[0] = max_logit() - 0.5;
    const double goals[] = {0.6, 0.1, 1e-2, 1e-4, 1e-6, 1e-8};
    for (size_t i = 0; i < sizeof goals / sizeof goals[0]; i++) {
        double goal = goals[i];
        beta_solver solver = solved(goal, 256, false);
        CHECK_INT(solver.flags, 0);
        CHECK_NEAR(entropy_at(solver.beta), goal, 1e-7 * goal + 1e-15);
    }
}

TEST(an_outlier_below_does_not_mislead) {
    struct rng rng = rng_seeded(8);
    fill(&rng, 500, 1, 1);
    logits[17] = -1e9;
    beta_solver solver = solved(3, 256, false);
    CHECK_INT(solver.flags, 0);
    CHECK_NEAR(entropy_at(solver.beta), 3, 1e-8);
    CHECK(solver.steps < 20);
}

TEST(sums_that_are_nan_end_the_search) {
    whet_policy policy = whet_policy_target(1, 256);
    whet_stats stats = {.n = 10, .max = 0, .z = 8, .s = -1};
    whet_stats_complete(&stats);
    beta_solver solver;
    whet_temperature_target.solver->start(&solver, &policy, &stats);
    unsigned calls = 0;
    for (; !solver.done && calls < 1000; calls++) {
        whet_temperature_target.solver->step(&solver, calls ? NAN : 1, calls ? NAN : 0,
                                             calls ? NAN : 0);
    }
    CHECK(calls < 100);
}

TEST(whet_softmax_applies_the_beta_that_is_the_solution) {
    struct rng rng = rng_seeded(9);
    static float row[N_MAX];
    for (int trial = 0; trial < 100; trial++) {
        fill_random(&rng, N_MAX, trial % 3, -1, 3);
        for (size_t i = 0; i < n; i++) {
            row[i] = (float)logits[i];
            logits[i] = (double)row[i];
        }
        double goal = statistics(false).entropy * rng_uniform(&rng, 0.1, 0.95);
        if (goal < 0.05) {
            continue; /* there f32 sums know H, and so beta, to fewer digits */
        }
        whet_policy policy = whet_policy_target(goal, 256);
        whet_stats stats = whet_stats_empty();
        whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = row, .stats = &stats};
        rows.out = row;
        CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
        if (stats.flags & WHET_ROW_CAPPED) {
            CHECK(entropy_at(256) > goal - 1e-6);
            continue;
        }
        double beta = bisected(goal, 256);
        CHECK_NEAR(stats.beta, beta, 1e-5 * beta);
        CHECK_NEAR(stats.entropy_after, goal, 2e-6 * fmax(1, goal));
    }
}

TEST(strength_weakens_what_was_solved_for) {
    const float row[] = {0, 1, 2, 3, 1.5f};
    float out[5];
    whet_stats whole = whet_stats_empty();
    whet_stats half = whet_stats_empty();
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = 5, .in = row, .stats = &whole};
    rows.out = out;
    whet_policy policy = whet_policy_target(0.5, 256);
    CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
    policy = whet_policy_with_strength(policy, 0.5);
    rows.stats = &half;
    CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
    CHECK(whole.beta > 1);
    CHECK_NEAR(half.beta, 1 + 0.5 * (whole.beta - 1), 1e-6);
}
