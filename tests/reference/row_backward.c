/*
 * The backward pass of one row, twice. For attention: how beta moves with its
 * policy's parameters (by differences) and with the logits (by what an entropy's
 * derivative is), and how the gradients of a map's coefficients become those of
 * its logits. For rows: a loss and its differences, without any of that.
 */
#include "reference/parts.h"

/* Half the difference between beta with `number` a little larger and a little smaller. */
static double derivative_by(const double *logits, size_t n, double sink, const whet_policy *policy,
                            const whet_stats *stats, whet_policy *moved, double *number) {
    double at = *number;
    double step = 1e-7 * fmax(1, fabs(at)); /* hardly ever across a kink */
    double beta[2];
    if (!isfinite(at)) {
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        whet_stats own = *stats;
        *number = at + (i ? step : -step);
        beta[i] = reference_beta(logits, n, sink, moved, &own);
    }
    *moved = *policy;
    return (beta[1] - beta[0]) / (2 * step);
}

whet_policy_gradient reference_parameter_derivatives(const double *logits, size_t n, double sink,
                                                     const whet_policy *policy,
                                                     const whet_stats *stats) {
    whet_policy_gradient result = {.strength = 0};
    whet_policy moved = *policy;
    for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        result.value[i] = derivative_by(logits, n, sink, policy, stats, &moved, &moved.value[i]);
    }
    result.strength = derivative_by(logits, n, sink, policy, stats, &moved, &moved.strength);
    result.hold = derivative_by(logits, n, sink, policy, stats, &moved, &moved.hold);
    return result;
}

/* d beta / d entropy. */
static double entropy_derivative(const double *logits, size_t n, double sink,
                                 const whet_policy *policy, const whet_stats *stats) {
    double beta[2];
    double step = 1e-6;
    for (int i = 0; i < 2; i++) {
        whet_stats own = *stats;
        own.entropy += i ? step : -step;
        beta[i] = reference_beta(logits, n, sink, policy, &own);
    }
    return (beta[1] - beta[0]) / (2 * step);
}

void reference_beta_gradient(const double *logits, size_t n, double sink, const whet_policy *policy,
                             const whet_stats *stats, double *result, double *sizes) {
    bool target = policy->temperature == WHET_POLICY_TARGET;
    double beta = target ? 1 + (stats->beta - 1) / policy->strength : 1;
    double max = reference_largest(logits, n, sink);
    double z = 0, mean = 0, variance = 0;
    reference_fill(result, n + 1, 0);
    for (size_t i = 0; i <= n; i++) {
        result[i] = reference_weight(i < n ? logits[i] : sink, max, beta);
        z += result[i];
    }
    for (size_t i = 0; i <= n; i++) {
        result[i] /= z;
        mean += result[i] > 0 ? result[i] * ((i < n ? logits[i] : sink) - max) : 0;
    }
    for (size_t i = 0; i <= n; i++) {
        double d = (i < n ? logits[i] : sink) - max - mean;
        variance += result[i] > 0 ? result[i] * d * d : 0;
        sizes[i] = result[i] > 0 ? result[i] * (fabs(d + mean) + fabs(mean)) : 0;
        result[i] = result[i] > 0 ? -result[i] * d : 0;
    }
    double factor = 0;
    if (!target) {
        factor = entropy_derivative(logits, n, sink, policy, stats);
    } else if (!(stats->flags & WHET_ROW_CAPPED) && beta > 1) {
        factor = policy->strength * beta / variance;
    }
    for (size_t i = 0; i <= n; i++) {
        result[i] *= factor;
        sizes[i] *= fabs(factor);
    }
}

/* ---- maps ---- */

/* sum of s g over sum of s (or over one). */
static double mean_of(const double *s, const double *g, size_t n, bool normalised) {
    double sum = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        sum += s[i] > 0 ? s[i] * g[i] : 0;
        total += s[i];
    }
    return normalised ? sum / total : sum;
}

/* p_i = sigma(e_i) times (1 - sigma(e_j)) of all later j: a logit raises its own part, and lowers
 * those of all before it. */
static void stick_back(const double *logits, size_t n, const double *p, const double *g,
                       double *result) {
    double before = 0;
    for (size_t i = 0; i < n; i++) {
        result[i] = p[i] * sigma(-logits[i]) * g[i] - sigma(logits[i]) * before;
        before += p[i] * g[i];
    }
}

/* p = max(r, 0) / S with r = exp(e) - 1 and S = sum |r|: an entry moves S, also where p is zero. */
static void softpick_back(const double *logits, size_t n, const double *p, const double *g,
                          double *result) {
    double shift = fmax(0, reference_largest(logits, n, -(double)INFINITY));
    double sum = 0, mean = 0;
    for (size_t i = 0; i < n; i++) {
        double r =
            logits[i] < 1 ? expm1(logits[i]) * exp(-shift) : exp(logits[i] - shift) - exp(-shift);
        sum += logits[i] == -(double)INFINITY ? 0 : fabs(r);
        mean += p[i] > 0 ? p[i] * g[i] : 0;
    }
    for (size_t i = 0; i < n; i++) {
        double sign = (logits[i] > 0) - (logits[i] < 0);
        double e = sum > 0 ? exp(logits[i] - shift) / sum : 0;
        result[i] = e > 0 ? e * ((sign > 0 ? g[i] : 0) - sign * mean) : 0;
    }
}

/* From the gradients g of the coefficients p of n entries to those of their logits. */
static void map_gradient(const whet_policy *policy, const double *logits, size_t n, const double *p,
                         const double *g, double *result) {
    bool is_entmax = policy->map == WHET_POLICY_ENTMAX;
    if (policy->map == WHET_POLICY_STICK_BREAKING) {
        stick_back(logits, n, p, g, result);
        return;
    }
    if (policy->map == WHET_POLICY_SOFTPICK) {
        softpick_back(logits, n, p, g, result);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        result[i] = policy->map == WHET_POLICY_HARDMAX   ? 0
                    : policy->map == WHET_POLICY_SIGMOID ? p[i] * (1 - p[i])
                    : is_entmax && p[i] > 0              ? pow(p[i], 2 - policy->map_value[0])
                                                         : p[i];
    }
    double mean = policy->map == WHET_POLICY_SIGMOID ? 0 : mean_of(result, g, n, is_entmax);
    for (size_t i = 0; i < n; i++) {
        result[i] *= result[i] > 0 ? g[i] - mean : 0;
    }
}

/* The gradient of a map's number: of sigmoid's b if it was given, of entmax's alpha by differences
 * of sum p g. */
static double map_number(const whet_policy *policy, const double *logits, size_t n, const double *g,
                         const double *beta_grads, double *p) {
    double sum = 0, step = 1e-7; /* hardly ever across a kink */
    for (size_t i = 0; policy->map == WHET_POLICY_SIGMOID && i < n; i++) {
        sum -= isnan(policy->map_value[0]) ? 0 : beta_grads[i];
    }
    for (int side = -1; policy->map == WHET_POLICY_ENTMAX && side < 2; side += 2) {
        reference_entmax(logits, n, policy->map_value[0] + side * step, p);
        for (size_t i = 0; i < n; i++) {
            sum += side * p[i] * g[i] / (2 * step);
        }
    }
    return sum;
}

/* What u e adds up to: e counts from the maximum, lest parts of a large sum cancel. */
static double by_beta_of(const double *u, const double *logits, size_t n, double max) {
    double sum = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        sum += u[i] != 0 ? u[i] * (logits[i] - max) : 0;
        total += u[i];
    }
    return sum + total * max;
}

/* The terms of the same sum, each u with what rounding does to it. */
static double beta_size_grad(const double *u, const double *p, const double *logits, size_t n,
                             double max, double noise) {
    double sum = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        double size = p[i] > 0 || u[i] != 0 ? fabs(u[i]) + p[i] * noise : 0;
        sum += size > 0 ? size * fabs(logits[i] - max) : 0;
        total += u[i];
    }
    return sum + fabs(total * max);
}

/*
 * What rounding of logits does to the same sum beside: a small distance has that of the logits it
 * is between, and the slope p^(2 - a) of entmax that of p, which the threshold leaves little of.
 */
static double rounded_size(const whet_policy *policy, const whet_stats *stats, const double *logits,
                           size_t n, const double *p, const double *u, double steepest,
                           double noise) {
    double sum = 0, size = LOGIT_PARTS;
    for (size_t i = 0; i < n; i++) {
        size = p[i] > 0 ? fmax(size, fabs(logits[i])) : size;
    }
    double derivative =
        policy->map == WHET_POLICY_ENTMAX ? steepest + noise * stats->beta * size : 0;
    bool is_sum = reference_sums_to_one(policy); /* and so is u, to zero: e counts from anywhere */
    for (size_t i = 0; i < n; i++) {
        sum += fabs(u[i]) * size * PRODUCT_NOISE;
        sum += !is_sum && u[i] != 0 ? fabs(u[i] * logits[i]) : 0;
        sum += p[i] > 0 ? derivative * fabs(logits[i] - stats->max) : 0;
    }
    return sum;
}

/* Adds what goes through beta. */
static void add_through_beta(const double *row, size_t n, double sink, const whet_policy *policy,
                             const whet_stats *stats, double beta_grad, double size, double *result,
                             double *sizes) {
    double *beta_grads = reference_allocate(2 * (n + 1), sizeof *beta_grads);
    double *beta_sizes = beta_grads + n + 1;
    reference_beta_gradient(row, n, sink, policy, stats, beta_grads, beta_sizes);
    for (size_t i = 0; i <= n; i++) {
        result[i] += beta_grad * beta_grads[i];
        sizes[i] += size * beta_sizes[i];
    }
    free(beta_grads);
}

reference_row_grads reference_map_back(const double *row, size_t n, double sink,
                                       const whet_policy *policy, const whet_stats *stats,
                                       double terms, double entropy_after_grad, double *g,
                                       double *result, double *sizes) {
    size_t entries = n + (reference_takes_sink(policy) && sink > -(double)INFINITY);
    double *logits = reference_allocate(3 * (n + 1), sizeof *logits);
    double *scaled = logits + n + 1;
    double *p = scaled + n + 1;
    reference_row_grads grads = {.beta = 0};
    memcpy(logits, row, n * sizeof *logits);
    logits[n] = sink;
    for (size_t i = 0; i <= n; i++) {
        double none = -(double)INFINITY;
        scaled[i] = logits[i] == none ? none : fmax(1e-30, stats->beta) * logits[i];
    }
    g[n] = result[n] = 0;
    reference_map(policy, scaled, entries, stats->n, p);
    for (size_t i = 0; entropy_after_grad != 0 && i < entries; i++) {
        g[i] -= p[i] > 0 ? entropy_after_grad * (log(p[i]) + 1) : 0;
    }
    map_gradient(policy, scaled, entries, p, g, result);
    double largest_p = policy->map == WHET_POLICY_ENTMAX, largest = 0;
    for (size_t i = 0; i < entries; i++) {
        largest = fmax(largest, fabs(result[i]));
        largest_p = fmax(largest_p, p[i]);
    }
    double noise = terms * PRODUCT_NOISE;
    grads.beta = by_beta_of(result, logits, entries, stats->max);
    double beta_size = beta_size_grad(result, p, logits, entries, stats->max, noise);
    grads.beta_size = beta_size;
    grads.beta_size +=
        rounded_size(policy, stats, logits, entries, p, result, largest + noise, noise);
    grads.map_value = map_number(policy, scaled, entries, g, result, p);
    for (size_t i = 0; i <= n; i++) {
        result[i] *= stats->beta;
        sizes[i] = stats->beta * (largest + largest_p * noise);
    }
    add_through_beta(row, n, sink, policy, stats, grads.beta, beta_size, result, sizes);
    free(logits);
    return grads;
}

/* ---- a loss and its differences ---- */

double reference_loss_of(const reference_loss *loss) {
    whet_stats stats;
    double *p = reference_allocate(loss->n, sizeof *p);
    if (loss->has_beta) {
        reference_row_at_beta(loss->logits, loss->n, loss->sink, loss->beta, &loss->policy, p,
                              &stats);
    } else {
        reference_row(loss->logits, loss->n, loss->sink, &loss->policy, p, &stats);
    }
    double sum = 0;
    for (size_t i = 0; loss->result_grad && i < loss->n; i++) {
        sum += loss->logits[i] == -(double)INFINITY ? 0 : p[i] * loss->result_grad[i];
    }
    sum += loss->logsumexp_grad != 0 ? loss->logsumexp_grad * stats.logsumexp : 0;
    sum += loss->entropy_grad != 0 ? loss->entropy_grad * stats.entropy : 0;
    sum += loss->entropy_after_grad != 0 ? loss->entropy_after_grad * stats.entropy_after : 0;
    free(p);
    return sum;
}

/* Two differences of four points each, which agree unless something happens between the points. A
 * kink at the number itself shows in what both sides differ by, which is half as much at half the
 * distance where there is none. */
double reference_derivative(const reference_loss *loss, double *number, double step) {
    static const double places[4] = {-2, -1, 1, 2};
    const double before = *number, here = reference_loss_of(loss);
    double derivative[2], bend[2];
    for (int i = 0; i < 2; i++) {
        double value[4];
        for (int k = 0; k < 4; k++) {
            *number = before + places[k] * step;
            value[k] = reference_loss_of(loss);
        }
        derivative[i] = (value[0] - 8 * value[1] + 8 * value[2] - value[3]) / (12 * step);
        bend[i] = (value[1] + value[2] - 2 * here) / step;
        step *= 0.5;
    }
    *number = before;
    double limit = 1e-7 + 1e-6 * fabs(derivative[1]);
    bool is_smooth =
        fabs(derivative[0] - derivative[1]) <= limit && fabs(bend[1] - bend[0] / 2) <= limit;
    return is_smooth ? derivative[1] : (double)NAN;
}

double reference_beta_derivative(const reference_loss *loss, double step) {
    whet_stats stats;
    reference_loss at = *loss;
    if (!loss->has_beta) {
        reference_row(loss->logits, loss->n, loss->sink, &loss->policy, NULL, &stats);
        at.has_beta = true;
        at.beta = stats.beta;
    }
    return reference_derivative(&at, &at.beta, step);
}
