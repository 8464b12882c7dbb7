/* Rows against the reference: see compare.h. */
#include "row/compare.h"

#include "reference/reference.h"
#include "support/check.h"
#include "support/guarded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const size_t row_sizes[ROW_SIZE_COUNT] = {1,    2,    3,    7,    8,    9,    15,  16,
                                          17,   31,   33,   63,   64,   65,   127, 128,
                                          1000, 1023, 1024, 1025, 4095, 4096, 4097};

const char *const row_temperatures[ROW_TEMPERATURE_COUNT] = {
    "softmax",
    "fixed:0.25",
    "fixed:3",
    "adaptive",
    "adaptive:hold",
    "adaptive:strength=0.5",
    "adaptive:hold:strength=2",
    "poly:0.1/-0.2/1.5:threshold=1:floor=0.5",
    "poly:-0.02/0.3/1:hold=3",
    "poly:0.5",
    "exp:2",
    "exp:3:strength=0.3",
    "target:1.5",
    "target:3:strength=0.7",
    "target:0.2:cap=8",
    "ssmax:0.4",
    "ssmax:0.2:0.5",
    "length:16",
    "linear:64:strength=0.1",
    "hinge:-0.3:0.4:32",
};

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
           same(a->max_prob, b->max_prob) && same(a->min, b->min) && a->argmax == b->argmax &&
           a->position == b->position && same(a->sink_share, b->sink_share) &&
           a->flags == b->flags && a->reserved == b->reserved;
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

/* `after` is the entropy of the result at the beta reported. */
static void compare_stats(const char *what, const whet_stats *stats, const whet_stats *expected,
                          double after) {
    double entropy = relative_to_one(stats->entropy, expected->entropy);
    double beta = relative_to_one(stats->beta, expected->beta);
    double after_error = relative_to_one(stats->entropy_after, after);
    remember(&worst_entropy, fmax(entropy, after_error));
    remember(&worst_beta, beta);
    CHECK_MSG(stats->n == expected->n, "%s: n is %llu, not %llu", what,
              (unsigned long long)stats->n, (unsigned long long)expected->n);
    CHECK_MSG(stats->flags == expected->flags && stats->reserved == 0, "%s: flags %u, not %u", what,
              stats->flags, expected->flags);
    CHECK_MSG(same(stats->max, expected->max), "%s: max is %.9g, not %.9g", what, stats->max,
              expected->max);
    CHECK_MSG(same(stats->min, expected->min), "%s: min is %.9g, not %.9g", what, stats->min,
              expected->min);
    CHECK_MSG(stats->argmax == expected->argmax, "%s: argmax is %llu, not %llu", what,
              (unsigned long long)stats->argmax, (unsigned long long)expected->argmax);
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
    double after = !whet_policy_is_temperature(policy) || expected.flags & WHET_ROW_EMPTY ||
                           isnan(expected.beta)
                       ? expected.entropy_after
                       : reference_entropy(logits, n, -(double)INFINITY, stats->beta);
    compare_stats(what, stats, &expected, after);
    compare_result(what, logits, n, result, stats, 0);
}

/* ---- any policy ---- */

/* Rounding to the type of a result, the smallest numbers of f16 included. */
static double rounding_of(whet_type type, double value) {
    return type == WHET_F16    ? fmax(0x1p-11 * value, 0x1p-25)
           : type == WHET_BF16 ? 0x1p-8 * value
                               : 0;
}

static bool is_near(double actual, double expected, double rounding) {
    double limit = fmax(PROBABILITY_LIMIT * expected, PROBABILITY_ABSOLUTE_LIMIT) + rounding;
    return same(actual, expected) || fabs(actual - expected) <= limit;
}

static void compare_entries(const char *what, const full_row *row, const double *p,
                            const double *result, whet_type type) {
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < row->n; i++) {
        bool is_right = row->logits[i] == -(double)INFINITY && !isnan(p[i])
                            ? result[i] == 0 && !signbit(result[i])
                            : is_near(result[i], p[i], rounding_of(type, p[i]));
        if (!is_right) {
            first = wrong++ ? first : i;
        }
    }
    CHECK_MSG(wrong == 0, "%s: %zu of %zu wrong, at %zu %.9g for %.9g", what, wrong, row->n, first,
              row->n ? result[first] : 0, row->n ? p[first] : 0);
}

void compare_full_row(const char *what, const full_row *row, const whet_policy *policy,
                      const double *result, whet_type type, const whet_stats *stats) {
    whet_stats expected, at;
    double *p = malloc((row->n ? row->n : 1) * sizeof *p);
    REQUIRE(p != NULL);
    if (row->beta) {
        reference_row_at_beta(row->logits, row->n, row->sink, *row->beta, policy, NULL, &expected);
    } else {
        reference_row(row->logits, row->n, row->sink, policy, NULL, &expected);
    }
    /* what follows from beta, at the one reported */
    reference_row_at_beta(row->logits, row->n, row->sink, stats->beta, policy, p, &at);
    compare_stats(what, stats, &expected, at.entropy_after);
    CHECK_MSG(stats->position == row->position, "%s: position %lld, not %lld", what,
              (long long)stats->position, (long long)row->position);
    CHECK_MSG(is_near(stats->max_prob, at.max_prob, 0), "%s: largest is %.9g, not %.9g", what,
              stats->max_prob, at.max_prob);
    CHECK_MSG(is_near(stats->sink_share, at.sink_share, 0), "%s: first is %.9g, not %.9g", what,
              stats->sink_share, at.sink_share);
    if (result) {
        compare_entries(what, row, p, result, type);
    }
    free(p);
}

void each_composition(composition_function function, void *context) {
    for (size_t t = 0; whet_policy_table(t); t++) {
        for (size_t m = 0; whet_policy_table(t)->is_temperature && whet_policy_table(m); m++) {
            const whet_policy_info *temperature = whet_policy_table(t), *map = whet_policy_table(m);
            whet_policy both =
                whet_policy_compose(policy_named(temperature->example), policy_named(map->example));
            if (map->is_temperature || whet_policy_check(&both, NULL, 0) != WHET_OK) {
                continue;
            }
            char name[200];
            snprintf(name, sizeof name, "%s+%s", temperature->example, map->example);
            function(name, &both, context);
        }
    }
}

bool beta_depends_on_logits(const whet_policy *policy) {
    return policy->temperature != WHET_POLICY_SOFTMAX && policy->temperature != WHET_POLICY_FIXED &&
           policy->temperature != WHET_POLICY_SSMAX && policy->temperature != WHET_POLICY_LENGTH &&
           policy->temperature != WHET_POLICY_LINEAR;
}

void check_one_row(const char *what, const float *row, size_t n, const whet_policy *policy) {
    double *logits = malloc((n ? n : 1) * sizeof *logits);
    REQUIRE(logits != NULL);
    for (size_t i = 0; i < n; i++) {
        logits[i] = (double)row[i];
    }
    float *in = guarded_new(n * sizeof(float));
    float *out = guarded_new(n * sizeof(float));
    memcpy(in, row, n * sizeof(float));
    whet_stats stats;
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = in, .out = out};
    rows.stats = &stats;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    compare_row(what, logits, n, policy, out, &stats);

    /* a result without statistics, in place, and the same statistics without a result */
    float *alone = guarded_new(n * sizeof(float));
    rows.out = alone;
    rows.stats = NULL;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    /* here beta is not reported, and may be another by what it may be off */
    double beta_error = BETA_LIMIT * fmax(1, stats.beta);
    compare_result(what, logits, n, alone, &stats, beta_depends_on_logits(policy) ? beta_error : 0);
    memcpy(out, in, n * sizeof(float));
    rows.in = rows.out = out;
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    CHECK_MSG(same_bytes(alone, out, n * sizeof(float)), "%s in place", what);
    rows.in = in;
    whet_stats entropy;
    rows.out = NULL;
    rows.stats = &entropy;
    CHECK_INT(whet_entropy(&rows, policy, NULL), WHET_OK);
    CHECK_MSG(same_stats(&entropy, &stats), "%s by whet_entropy", what);
    guarded_free(in);
    guarded_free(out);
    guarded_free(alone);
    free(logits);
}

void check_all_temperatures(const float *row, size_t n, const char *content) {
    for (size_t t = 0; t < ROW_TEMPERATURE_COUNT; t++) {
        char what[100];
        whet_policy policy = policy_named(row_temperatures[t]);
        snprintf(what, sizeof what, "%s, n = %zu, %s", row_temperatures[t], n, content);
        check_one_row(what, row, n, &policy);
    }
}

array array_new(whet_type type, size_t rows, size_t n, size_t gap, bool backwards) {
    size_t size = reference_size(type);
    size_t step = n + gap;
    array a = {type, rows, n, NULL, NULL, (ptrdiff_t)step};
    a.memory = guarded_new(((rows - 1) * step + n) * size);
    a.first = a.memory;
    if (backwards) {
        a.first += (rows - 1) * step * size;
        a.stride = -a.stride;
    }
    return a;
}

char *array_at(const array *a, size_t row, size_t i) {
    ptrdiff_t size = (ptrdiff_t)reference_size(a->type);
    return a->first + ((ptrdiff_t)row * a->stride + (ptrdiff_t)i) * size;
}

void array_set(const array *a, size_t row, size_t i, float value) {
    uint16_t bits = a->type == WHET_F16 ? reference_to_f16(value) : reference_to_bf16(value);
    memcpy(array_at(a, row, i), a->type == WHET_F32 ? (void *)&value : (void *)&bits,
           reference_size(a->type));
}

double array_get(const array *a, size_t row, size_t i) {
    return reference_load(array_at(a, row, i), a->type);
}

void fill_logits(array *a, struct rng *rng) {
    for (size_t row = 0; row < a->rows; row++) {
        for (size_t i = 0; i < a->n; i++) {
            double x = fmax(-7.9, fmin(7.9, rng_normal(rng, 0, 2)));
            array_set(a, row, i, (float)(nearbyint(x * 256) / 256));
        }
    }
}
