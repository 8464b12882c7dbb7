/* Rows against the reference: see compare.h. */
#include "row/compare.h"

#include "reference/reference.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double worst_entropy;
static double worst_beta;
static double worst_probability;

void print_worst(void) {
    printf("     worst: entropy %.2g of max(1, H), beta %.2g of max(1, beta), probability %.2g\n",
           worst_entropy, worst_beta, worst_probability);
    worst_entropy = worst_beta = worst_probability = 0;
}

whet_policy policy_named(const char *name) {
    whet_policy policy = whet_policy_softmax();
    char message[200] = "";
    CHECK_MSG(whet_policy_parse(name, &policy, message, sizeof message) == WHET_OK, "%s: %s", name,
              message);
    return policy;
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

bool same_stats(const whet_stats *a, const whet_stats *b) {
    return a->n == b->n && same(a->max, b->max) && same(a->z, b->z) && same(a->s, b->s) &&
           same(a->logsumexp, b->logsumexp) && same(a->entropy, b->entropy) &&
           same(a->beta, b->beta) && same(a->entropy_after, b->entropy_after) &&
           same(a->max_prob, b->max_prob) && a->flags == b->flags && a->reserved == b->reserved;
}

static double relative_to_one(double actual, double expected) {
    return same(actual, expected) ? 0 : fabs(actual - expected) / fmax(1, fabs(expected));
}

/* NaN is larger than any limit, and is remembered as such. */
static void remember(double *worst, double error) {
    if (!(error <= *worst)) {
        *worst = error;
    }
}

static void compare_stats(const char *what, const double *logits, size_t n, const whet_stats *stats,
                          const whet_stats *expected) {
    const double none = -(double)INFINITY;
    double entropy = relative_to_one(stats->entropy, expected->entropy);
    double beta = relative_to_one(stats->beta, expected->beta);
    /* at the beta reported */
    double after = isnan(expected->beta) || expected->flags & WHET_ROW_EMPTY
                       ? expected->entropy_after
                       : reference_entropy(logits, n, none, stats->beta);
    double after_error = relative_to_one(stats->entropy_after, after);
    remember(&worst_entropy, fmax(entropy, after_error));
    remember(&worst_beta, beta);
    CHECK_MSG(stats->n == expected->n, "%s: n is %llu, not %llu", what,
              (unsigned long long)stats->n, (unsigned long long)expected->n);
    CHECK_MSG(stats->flags == expected->flags && stats->reserved == 0, "%s: flags %u, not %u", what,
              stats->flags, expected->flags);
    CHECK_MSG(same(stats->max, expected->max), "%s: max is %.9g, not %.9g", what, stats->max,
              expected->max);
    CHECK_MSG(entropy <= ENTROPY_LIMIT, "%s: entropy is %.9g, not %.9g", what, stats->entropy,
              expected->entropy);
    CHECK_MSG(beta <= BETA_LIMIT, "%s: beta is %.9g, not %.9g", what, stats->beta, expected->beta);
    CHECK_MSG(after_error <= ENTROPY_LIMIT, "%s: entropy after is %.9g, not %.9g", what,
              stats->entropy_after, after);
    CHECK_MSG(same(stats->logsumexp, expected->logsumexp) ||
                  fabs(stats->logsumexp - expected->logsumexp) <= ENTROPY_LIMIT,
              "%s: logsumexp is %.9g, not %.9g", what, stats->logsumexp, expected->logsumexp);
    CHECK_MSG(same(stats->z, expected->z) ||
                  fabs(stats->z - expected->z) <= ENTROPY_LIMIT * expected->z,
              "%s: z is %.9g, not %.9g", what, stats->z, expected->z);
    CHECK_MSG(same(stats->s, expected->s) ||
                  fabs(stats->s - expected->s) <= ENTROPY_LIMIT * (expected->z - expected->s),
              "%s: s is %.9g, not %.9g", what, stats->s, expected->s);
}

/* The mean of e - max under p. */
static double mean_distance(const double *logits, const double *p, size_t n, double max) {
    double mean = 0;
    for (size_t i = 0; i < n; i++) {
        mean += p[i] > 0 ? p[i] * (logits[i] - max) : 0;
    }
    return mean;
}

/* How far off p may be, where beta itself is known to within beta_error. */
static double probability_limit(double p, double distance, double beta_error) {
    double relative = PROBABILITY_LIMIT + (p > 0 ? beta_error * fabs(distance) : 0);
    return fmax(relative * p, PROBABILITY_ABSOLUTE_LIMIT);
}

/* Returns the largest probability there is. */
static double compare_probabilities(const char *what, const double *logits, size_t n,
                                    const float *result, const whet_stats *stats,
                                    double beta_error) {
    double *p = malloc((n ? n : 1) * sizeof *p);
    REQUIRE(p != NULL);
    reference_probabilities(logits, n, -(double)INFINITY, stats->beta, p);
    double mean = mean_distance(logits, p, n, stats->max);
    size_t wrong = 0;
    size_t first = 0;
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)result[i] - p[i]);
        double limit = probability_limit(p[i], logits[i] - stats->max - mean, beta_error);
        bool masked_is_zero = logits[i] != -(double)INFINITY || result[i] == 0;
        if (!(error <= limit) || !masked_is_zero || signbit(result[i])) {
            first = wrong++ ? first : i;
        }
        if (p[i] > PROBABILITY_ABSOLUTE_LIMIT / PROBABILITY_LIMIT && beta_error == 0) {
            remember(&worst_probability, error / p[i]);
        }
        largest = fmax(largest, p[i]);
    }
    CHECK_MSG(wrong == 0, "%s: %zu of %zu wrong, at %zu %.9g for %.9g", what, wrong, n, first,
              n ? (double)result[first] : 0, n ? p[first] : 0);
    free(p);
    return largest;
}

static void compare_constant(const char *what, size_t n, const float *result, float value) {
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        wrong += !same((double)result[i], (double)value) || (value == 0 && signbit(result[i]));
    }
    CHECK_MSG(wrong == 0, "%s: %zu of %zu are not %g", what, wrong, n, (double)value);
}

void compare_result(const char *what, const double *logits, size_t n, const float *result,
                    const whet_stats *stats, double beta_error) {
    if (stats->flags & WHET_ROW_NOT_FINITE) {
        compare_constant(what, n, result, NAN);
        return;
    }
    if (stats->flags & WHET_ROW_EMPTY) {
        compare_constant(what, n, result, 0);
        return;
    }
    double largest = compare_probabilities(what, logits, n, result, stats, beta_error);
    CHECK_MSG(fabs(stats->max_prob - largest) <= PROBABILITY_LIMIT * largest,
              "%s: largest is %.9g, not %.9g", what, stats->max_prob, largest);
}

void compare_row(const char *what, const double *logits, size_t n, const whet_policy *policy,
                 const float *result, const whet_stats *stats) {
    whet_stats expected;
    reference_row(logits, n, -(double)INFINITY, policy, NULL, &expected);
    compare_stats(what, logits, n, stats, &expected);
    compare_result(what, logits, n, result, stats, 0);
}
