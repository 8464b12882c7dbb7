/*
 * Properties that hold whatever the numbers are, on random rows of every kind:
 * what the theory in the paper says of softmax at any temperature, and what
 * whet.h says of statistics that are merged.
 */
#include "row/compare.h"
#include "support/check.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_MAX = 3000, TRIALS = 150 };

static const char *const temperatures[] = {"softmax",   "fixed:0.5", "fixed:4",       "adaptive",
                                           "exp:3",     "target:1",  "adaptive:hold", "ssmax:0.3",
                                           "length:20", "linear:800"};
#define TEMPERATURE_COUNT (sizeof temperatures / sizeof temperatures[0])

/* Maps that sum to one as well. */
static const char *const maps[] = {"topk:5", "hardmax", "sparsemax", "entmax15", "entmax:1.3"};
#define MAP_COUNT (sizeof maps / sizeof maps[0])

static float row[N_MAX];
static float result[N_MAX];
static whet_stats stats;

static void run(const whet_policy *policy, const float *in, size_t n, float *out) {
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = in};
    rows.out = out;
    rows.stats = &stats;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
}

/* A row of any length, spread and offset, some with masked entries. */
static size_t random_row(struct rng *rng) {
    size_t n = (size_t)rng_integer(rng, 1, rng_bits(rng) % 2 ? 40 : N_MAX);
    double deviation = exp(rng_uniform(rng, -4, 3));
    rng_fill_normal(rng, row, n, rng_uniform(rng, -50, 50), deviation);
    bool masks = rng_bits(rng) % 3 == 0;
    for (size_t i = 1; masks && i < n; i++) {
        if (rng_bits(rng) % 4 == 0) {
            row[i] = -INFINITY;
        }
    }
    return n;
}

static double sum_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
    }
    return sum;
}

TEST(results_sum_to_one) {
    struct rng rng = rng_seeded(1);
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        for (size_t t = 0; t < TEMPERATURE_COUNT + MAP_COUNT; t++) {
            const char *name =
                t < TEMPERATURE_COUNT ? temperatures[t] : maps[t - TEMPERATURE_COUNT];
            whet_policy policy = policy_named(name);
            run(&policy, row, n, result);
            double sum = sum_of(result, n);
            CHECK_MSG(fabs(sum - 1) <= 2e-6, "%s, n = %zu: %.9g", name, n, sum);
        }
    }
}

static size_t count_different(const float *a, const float *b, size_t n) {
    size_t different = 0;
    for (size_t i = 0; i < n; i++) {
        different += fabs((double)a[i] - (double)b[i]) > 5e-6 * (double)a[i] + 1e-9;
    }
    return different;
}

/* Multiples of 1/256 stay what they are when a power of two is added. Exponentials are counted
 * from a power of two near the maximum, so that theirs need not round alike. */
TEST(shifting_all_logits_changes_nothing) {
    struct rng rng = rng_seeded(2);
    static float shifted[N_MAX];
    static float other[N_MAX];
    const float shifts[] = {1, -1, 64, -1024, 4096};
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        for (size_t i = 0; i < n; i++) {
            row[i] = (float)(nearbyint(fmod((double)row[i], 16) * 256) / 256);
            row[i] = isnan(row[i]) ? -INFINITY : row[i];
        }
        float shift = shifts[rng_bits(&rng) % 5];
        for (size_t i = 0; i < n; i++) {
            shifted[i] = row[i] + shift;
        }
        for (size_t t = 0; t < TEMPERATURE_COUNT + MAP_COUNT; t++) {
            const char *name =
                t < TEMPERATURE_COUNT ? temperatures[t] : maps[t - TEMPERATURE_COUNT];
            whet_policy policy = policy_named(name);
            run(&policy, row, n, result);
            whet_stats before = stats;
            run(&policy, shifted, n, other);
            CHECK_MSG(count_different(result, other, n) == 0, "%s, n = %zu, by %g", name, n,
                      (double)shift);
            CHECK_NEAR(stats.entropy, before.entropy, 1e-6 * fmax(1, before.entropy));
            CHECK_NEAR(stats.logsumexp, before.logsumexp + (double)shift, 1e-6);
        }
    }
}

TEST(an_entry_with_all_the_weight_gets_exactly_one) {
    struct rng rng = rng_seeded(8);
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = trial % 2 ? 1 : random_row(&rng);
        size_t at = (size_t)rng_integer(&rng, 0, (int64_t)n - 1);
        for (size_t i = 0; i < n; i++) {
            row[i] = -INFINITY;
        }
        row[at] = (float)rng_uniform(&rng, -100, 100);
        for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
            whet_policy policy = policy_named(temperatures[t]);
            run(&policy, row, n, result);
            CHECK_MSG(result[at] == 1, "%s, n = %zu: %.9g", temperatures[t], n, (double)result[at]);
        }
    }
}

static void shuffle(struct rng *rng, size_t *order, size_t n) {
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)rng_integer(rng, 0, (int64_t)i - 1);
        size_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}

TEST(permuting_logits_permutes_the_result) {
    struct rng rng = rng_seeded(3);
    static size_t order[N_MAX];
    static float permuted[N_MAX];
    static float other[N_MAX];
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        shuffle(&rng, order, n);
        for (size_t i = 0; i < n; i++) {
            permuted[i] = row[order[i]];
        }
        for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
            whet_policy policy = policy_named(temperatures[t]);
            run(&policy, row, n, result);
            whet_stats before = stats;
            run(&policy, permuted, n, other);
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++) {
                double p = (double)result[order[i]];
                /* beta may be another by its rounding, which moves p by that times e - max */
                double distance = p > 0 ? (double)permuted[i] - stats.max : 0;
                double change = fabs(before.beta - stats.beta) * fabs(distance);
                double limit = fmax((4e-6 + 2 * change) * p, 1e-9);
                wrong += !(fabs((double)other[i] - p) <= limit);
            }
            CHECK_MSG(wrong == 0, "%s, n = %zu: %zu wrong", temperatures[t], n, wrong);
            CHECK_NEAR(stats.entropy, before.entropy, 2e-6 * fmax(1, before.entropy));
            CHECK_NEAR(stats.beta, before.beta, BETA_LIMIT * fmax(1, before.beta));
            CHECK_INT(stats.n, before.n);
        }
    }
}

/* (1/n) exp(-delta beta) <= p <= (1/n) exp(delta beta), delta the spread of the logits. */
TEST(coefficients_obey_both_bounds_of_lemma_2_1) {
    struct rng rng = rng_seeded(4);
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        double low = (double)INFINITY;
        double high = -(double)INFINITY;
        for (size_t i = 0; i < n; i++) {
            low = row[i] > -INFINITY ? fmin(low, (double)row[i]) : low;
            high = fmax(high, (double)row[i]);
        }
        for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
            whet_policy policy = policy_named(temperatures[t]);
            run(&policy, row, n, result);
            double each = 1 / (double)stats.n;
            double spread = stats.beta * (high - low);
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++) {
                double p = (double)result[i];
                bool in_bounds = p >= each * exp(-spread) * (1 - 4e-6) - 1e-9 &&
                                 p <= each * exp(spread) * (1 + 4e-6) + 1e-9;
                wrong += row[i] > -INFINITY && !in_bounds;
            }
            CHECK_MSG(wrong == 0, "%s, n = %zu: %zu out of bounds", temperatures[t], n, wrong);
        }
    }
}

/* Logits of two values, the larger once: the upper bound is nearly met as n grows. */
TEST(the_sharpest_head_disperses_as_the_lemma_says) {
    size_t n = 65536;
    float *logits = malloc(n * sizeof *logits);
    float *p = malloc(n * sizeof *p);
    REQUIRE(logits && p);
    whet_policy policy = whet_policy_softmax();
    for (size_t i = 0; i < n; i++) {
        logits[i] = i == 100 ? 4 : 0;
    }
    run(&policy, logits, n, p);
    double bound = exp(4) / (double)n;
    CHECK((double)p[100] <= bound);
    CHECK_NEAR(p[100], exp(4) / ((double)n - 1 + exp(4)), 4e-6 * bound);
    free(logits);
    free(p);
}

TEST(entropy_does_not_rise_with_beta) {
    struct rng rng = rng_seeded(5);
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        double before = log((double)n);
        double largest_before = 0;
        for (int step = 0; step < 36; step++) {
            double beta = 0.01 * pow(1.3, step);
            whet_policy policy = whet_policy_fixed(beta);
            run(&policy, row, n, result);
            double slack = 4e-6 * fmax(1, before); /* what two entropies may be off by */
            CHECK_MSG(stats.entropy_after <= before + slack, "n = %zu, beta %g: %.9g after %.9g", n,
                      beta, stats.entropy_after, before);
            CHECK_MSG(stats.max_prob >= largest_before * (1 - 8e-6), "n = %zu, beta %g", n, beta);
            before = stats.entropy_after;
            largest_before = stats.max_prob;
        }
    }
}

TEST(adaptive_never_raises_entropy) {
    struct rng rng = rng_seeded(6);
    static const char *const names[] = {"adaptive", "adaptive:hold", "adaptive:strength=0.3",
                                        "exp:2",    "target:1",      "length:30"};
    size_t sharpened = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        for (size_t t = 0; t < 6; t++) {
            whet_policy policy = policy_named(names[t]);
            run(&policy, row, n, result);
            CHECK_MSG(stats.beta >= 1, "%s: beta %.9g", names[t], stats.beta);
            CHECK_MSG(stats.entropy_after <= stats.entropy + 1e-6 * fmax(1, stats.entropy),
                      "%s, n = %zu: %.9g after %.9g", names[t], n, stats.entropy_after,
                      stats.entropy);
            sharpened += stats.entropy_after < 0.9 * stats.entropy;
        }
    }
    CHECK(sharpened > 100); /* so that the test has seen something */
}

/* ---- pieces ---- */

static whet_stats stats_of(const float *in, size_t n) {
    whet_stats piece = {0};
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = in, .stats = &piece};
    CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_OK);
    return piece;
}

static void check_near_stats(const whet_stats *a, const whet_stats *b) {
    CHECK_INT(a->n, b->n);
    CHECK_NEAR(a->max, b->max, 0);
    CHECK_NEAR(a->z, b->z, 2e-6 * b->z);
    CHECK_NEAR(a->s, b->s, 2e-6 * (b->z - b->s));
    CHECK_NEAR(a->entropy, b->entropy, 2e-6 * fmax(1, b->entropy));
    CHECK_NEAR(a->logsumexp, b->logsumexp, 2e-6);
    CHECK_INT(a->flags, b->flags);
}

TEST(pieces_of_a_stream_merge_into_the_whole) {
    struct rng rng = rng_seeded(7);
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        whet_stats whole = stats_of(row, n);
        whet_stats sum = whet_stats_empty();
        for (size_t start = 0; start < n;) {
            size_t left = n - start;
            size_t count = (size_t)rng_integer(&rng, 0, (int64_t)(left < 500 ? left : 500));
            whet_stats piece = stats_of(row + start, count);
            whet_stats_merge(&sum, &piece, &sum);
            start += count;
        }
        check_near_stats(&sum, &whole);
        whet_policy policy = whet_policy_adaptive();
        CHECK_NEAR(whet_policy_beta(&policy, &sum), whet_policy_beta(&policy, &whole), BETA_LIMIT);
    }
}

TEST(merging_is_associative_and_commutative) {
    struct rng rng = rng_seeded(8);
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        size_t first = (size_t)rng_integer(&rng, 0, (int64_t)n);
        size_t second = (size_t)rng_integer(&rng, (int64_t)first, (int64_t)n);
        whet_stats a = stats_of(row, first);
        whet_stats b = stats_of(row + first, second - first);
        whet_stats c = stats_of(row + second, n - second);
        whet_stats ab, bc, left, right, other;
        whet_stats_merge(&a, &b, &ab);
        whet_stats_merge(&b, &c, &bc);
        whet_stats_merge(&ab, &c, &left);
        whet_stats_merge(&a, &bc, &right);
        whet_stats_merge(&c, &ab, &other);
        CHECK_NEAR(left.z, right.z, 1e-13 * left.z);
        CHECK_NEAR(left.s, right.s, 1e-13 * (left.z - left.s));
        CHECK_NEAR(left.entropy, right.entropy, 1e-12 * fmax(1, left.entropy));
        CHECK_NEAR(left.entropy, other.entropy, 1e-12 * fmax(1, left.entropy));
        CHECK_INT(left.n, right.n);
        CHECK(left.max == right.max && left.max == other.max);
    }
}

/* What a driver that streams does: statistics first, beta from them, then piece by piece. */
TEST(streamed_probabilities_are_those_of_the_whole_row) {
    struct rng rng = rng_seeded(9);
    whet_policy policy = whet_policy_adaptive();
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t n = random_row(&rng);
        size_t cut = (size_t)rng_integer(&rng, 0, (int64_t)n);
        run(&policy, row, n, result);
        double beta = stats.beta;
        double total = stats.max_prob; /* of the largest logit */
        whet_stats a = stats_of(row, cut);
        whet_stats b = stats_of(row + cut, n - cut);
        whet_stats both;
        whet_stats_merge(&a, &b, &both);
        CHECK_NEAR(whet_policy_beta(&policy, &both), beta, BETA_LIMIT);
        size_t wrong = 0;
        for (size_t i = 0; i < n; i++) {
            double p = row[i] > -INFINITY ? total * exp(beta * ((double)row[i] - both.max)) : 0;
            wrong += !(fabs((double)result[i] - p) <= fmax(8e-6 * p, 1e-9));
        }
        CHECK_MSG(wrong == 0, "n = %zu cut at %zu: %zu wrong", n, cut, wrong);
    }
}
