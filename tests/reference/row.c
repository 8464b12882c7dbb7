/*
 * One row by definition: its statistics, beta of every policy that is a
 * temperature, and the result.
 */
#include "reference/parts.h"

static bool is_bad(double logit) { return isnan(logit) || logit == (double)INFINITY; }

static bool any_bad(const double *logits, size_t n, double sink) {
    for (size_t i = 0; i < n; i++) {
        if (is_bad(logits[i])) {
            return true;
        }
    }
    return is_bad(sink);
}

double reference_largest(const double *logits, size_t n, double sink) {
    double max = sink;
    for (size_t i = 0; i < n; i++) {
        max = fmax(max, logits[i]);
    }
    return max;
}

double reference_weight(double logit, double max, double beta) {
    return logit == -(double)INFINITY ? 0 : exp(beta * (logit - max));
}

static double sum_of_weights(const double *logits, size_t n, double sink, double beta) {
    double max = reference_largest(logits, n, sink);
    double z = reference_weight(sink, max, beta);
    for (size_t i = 0; i < n; i++) {
        z += reference_weight(logits[i], max, beta);
    }
    return z;
}

/* H = -sum p ln p, with ln p = beta (e - max) - ln Z. */
double reference_entropy(const double *logits, size_t n, double sink, double beta) {
    double max = reference_largest(logits, n, sink);
    if (max == -(double)INFINITY) {
        return 0;
    }
    double w = reference_weight(sink, max, beta);
    double z = w;
    double sum = w > 0 ? w * beta * (sink - max) : 0;
    for (size_t i = 0; i < n; i++) {
        w = reference_weight(logits[i], max, beta);
        z += w;
        sum += w > 0 ? w * beta * (logits[i] - max) : 0;
    }
    return fmax(0, log(z) - sum / z);
}

void reference_probabilities(const double *logits, size_t n, double sink, double beta, double *p) {
    double max = reference_largest(logits, n, sink);
    double z = max == -(double)INFINITY ? 1 : sum_of_weights(logits, n, sink, beta);
    for (size_t i = 0; i < n; i++) {
        p[i] = reference_weight(logits[i], max, beta) / z;
    }
}

/* d exp(d) of one entry. */
static double weighted_term(double logit, double max) {
    return logit == -(double)INFINITY ? 0 : (logit - max) * exp(logit - max);
}

static void describe(const double *logits, size_t n, double sink, whet_stats *stats) {
    double max = reference_largest(logits, n, sink);
    *stats = (whet_stats){
        .max = max, .logsumexp = max, .min = (double)INFINITY, .argmax = UINT64_MAX, .beta = 1};
    for (size_t i = 0; i < n; i++) {
        if (logits[i] == -(double)INFINITY) {
            continue;
        }
        stats->n++;
        stats->min = fmin(stats->min, logits[i]);
        if (stats->argmax == UINT64_MAX || logits[i] > logits[stats->argmax]) {
            stats->argmax = i;
        }
    }
    stats->flags = stats->n == 0 ? WHET_ROW_EMPTY : 0;
    if (max == -(double)INFINITY) {
        return;
    }
    stats->z = sum_of_weights(logits, n, sink, 1);
    stats->s = weighted_term(sink, max);
    for (size_t i = 0; i < n; i++) {
        stats->s += weighted_term(logits[i], max);
    }
    stats->logsumexp = max + log(stats->z);
    stats->entropy = reference_entropy(logits, n, sink, 1);
}

/* ---- temperatures ---- */

static double poly_beta(const whet_policy *policy, double entropy) {
    double h = entropy > policy->hold ? policy->hold : entropy;
    double beta = 0;
    for (unsigned i = 0; i <= policy->degree; i++) {
        beta += policy->value[i] * pow(h, policy->degree - i);
    }
    return h <= policy->threshold ? 1 : fmax(beta, policy->floor);
}

/* By bisection, down to the last bit. */
static double target_beta(const double *logits, size_t n, double sink, double goal, double cap,
                          uint32_t *flags) {
    if (reference_entropy(logits, n, sink, 1) <= goal) {
        return 1;
    }
    if (reference_entropy(logits, n, sink, cap) >= goal) {
        *flags |= WHET_ROW_CAPPED;
        return cap;
    }
    double low = 1;
    double high = cap;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) {
            return low;
        }
        if (reference_entropy(logits, n, sink, middle) > goal) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

static double beta_before_strength(const double *logits, size_t n, double sink,
                                   const whet_policy *policy, whet_stats *stats) {
    double first = policy->value[0];
    double count = (double)stats->n;
    double derivative = 0;
    switch (policy->temperature) {
    case WHET_POLICY_SOFTMAX:
        return 1;
    case WHET_POLICY_FIXED:
        return first;
    case WHET_POLICY_POLY:
        return poly_beta(policy, stats->entropy);
    case WHET_POLICY_EXP:
        return fmax(1, exp(stats->entropy - first));
    case WHET_POLICY_TARGET:
        return target_beta(logits, n, sink, first, policy->value[1], &stats->flags);
    case WHET_POLICY_SSMAX:
        return first * pow(log(count), policy->value[2]) + policy->value[1];
    case WHET_POLICY_LENGTH:
        return fmax(1, log(count) / log(first));
    case WHET_POLICY_LINEAR:
        return fmax(1, count / first);
    case WHET_POLICY_HINGE:
        return exp(first + policy->value[1] * fmax(0, log(count / policy->value[2])));
    case WHET_POLICY_LLAMA4:
        return 1 + first * log(1 + fmax(0, floor(((double)stats->position + policy->value[2]) /
                                                 policy->value[1])));
    case WHET_POLICY_CUSTOM:
        return policy->function(stats, &derivative, policy->context);
    default:
        fprintf(stderr, "the reference does not know policy %lu\n",
                (unsigned long)policy->temperature);
        abort();
    }
}

static double bounded(double beta) { return isnan(beta) ? beta : fmin(1e30, fmax(0, beta)); }

double reference_beta(const double *logits, size_t n, double sink, const whet_policy *policy,
                      whet_stats *stats) {
    double beta = beta_before_strength(logits, n, sink, policy, stats);
    return bounded(policy->strength == 1 ? beta : 1 + policy->strength * (beta - 1));
}

/* ---- the result ---- */

static void spoil(const double *logits, size_t n, double *p, whet_stats *stats) {
    const double nan = (double)NAN;
    *stats = (whet_stats){.max = nan,
                          .z = nan,
                          .s = nan,
                          .logsumexp = nan,
                          .entropy = nan,
                          .min = nan,
                          .argmax = UINT64_MAX,
                          .beta = nan,
                          .entropy_after = nan,
                          .max_prob = nan,
                          .sink_share = nan,
                          .flags = WHET_ROW_NOT_FINITE};
    for (size_t i = 0; i < n; i++) {
        stats->n += logits[i] != -(double)INFINITY;
    }
    reference_fill(p, n, nan);
}

static void sharpen(const double *logits, size_t n, double sink, double *p, whet_stats *stats) {
    stats->entropy_after = reference_entropy(logits, n, sink, stats->beta);
    double z = sum_of_weights(logits, n, sink, stats->beta);
    stats->max_prob = 1 / z;
    stats->sink_share = n ? reference_weight(logits[0], stats->max, stats->beta) / z : 0;
    if (p) {
        reference_probabilities(logits, n, sink, stats->beta, p);
    }
}

/* -p ln p. */
static double surprise(double p) { return p > 0 ? -p * log(p) : 0; }

/* The map of beta e; a beta of zero is as small as can be, so that the order of logits is kept. */
static void map_row(const double *logits, size_t n, double sink, const whet_policy *policy,
                    double *p, whet_stats *stats) {
    size_t entries = n + (reference_takes_sink(policy) && sink > -(double)INFINITY);
    double *all = reference_allocate(n + 1, sizeof *all);
    double *own = reference_allocate(n + 1, sizeof *own);
    for (size_t i = 0; i <= n; i++) {
        double logit = i < n ? logits[i] : sink;
        all[i] = logit == -(double)INFINITY ? logit : fmax(1e-30, stats->beta) * logit;
    }
    reference_map(policy, all, entries, stats->n, own);
    stats->sink_share = own[0];
    for (size_t i = 0; i < entries; i++) {
        stats->max_prob = fmax(stats->max_prob, own[i]);
        stats->entropy_after += surprise(own[i]);
    }
    if (!reference_sums_to_one(policy)) {
        stats->entropy_after = (double)NAN;
    }
    if (p) {
        memcpy(p, own, n * sizeof *p);
    }
    free(all);
    free(own);
}

/* At a given beta, or at the policy's own. */
static void any_row(const double *logits, size_t n, double sink, const double *beta,
                    const whet_policy *policy, double *p, whet_stats *stats) {
    if (any_bad(logits, n, sink)) {
        spoil(logits, n, p, stats);
        return;
    }
    describe(logits, n, sink, stats);
    if (stats->n > 0) {
        stats->beta = beta ? bounded(*beta) : reference_beta(logits, n, sink, policy, stats);
    }
    if (isnan(stats->beta)) {
        spoil(logits, n, p, stats);
    } else if (stats->max == -(double)INFINITY) {
        reference_fill(p, n, 0);
    } else if (policy->map == WHET_POLICY_SOFTMAX || stats->n == 0) {
        sharpen(logits, n, sink, p, stats);
    } else {
        map_row(logits, n, sink, policy, p, stats);
    }
}

void reference_row(const double *logits, size_t n, double sink, const whet_policy *policy,
                   double *p, whet_stats *stats) {
    any_row(logits, n, sink, NULL, policy, p, stats);
}

void reference_row_at_beta(const double *logits, size_t n, double sink, double beta,
                           const whet_policy *policy, double *p, whet_stats *stats) {
    any_row(logits, n, sink, &beta, policy, p, stats);
}
