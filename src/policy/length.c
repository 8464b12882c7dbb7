/* Temperatures that follow the number of entries: ssmax, length, linear and hinge. */
#include "policy/registry.h"

static whet_policy by_length(whet_policy_kind kind, double first, double second) {
    whet_policy policy = whet_policy_of((uint32_t)kind, WHET_POLICY_SOFTMAX);
    policy.value[0] = first;
    policy.value[1] = second;
    return policy;
}

/* ---- ssmax ---- */

whet_policy whet_policy_ssmax_power(double s, double b, double g) {
    whet_policy policy = by_length(WHET_POLICY_SSMAX, s, b);
    policy.value[2] = g;
    return policy;
}

whet_policy whet_policy_ssmax(double s, double b) { return whet_policy_ssmax_power(s, b, 1); }

static whet_policy preset_ssmax(void) { return whet_policy_ssmax(1, 0); }

/* (ln n)^g, the same bits as ln n for g = 1. */
static double ssmax_power(const whet_policy *policy, uint64_t n) {
    double log_n = log((double)n);
    return policy->value[2] == 1 ? log_n : pow(log_n, policy->value[2]);
}

static void ssmax_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = batch->n[i]
                      ? policy->value[0] * ssmax_power(policy, batch->n[i]) + policy->value[1]
                      : 1;
}

static double ssmax_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                               double variance, whet_policy_gradient *parameters) {
    (void)beta;
    (void)variance;
    double power = ssmax_power(policy, stats->n);
    parameters->value[0] = power;
    parameters->value[1] = 1;
    if (stats->n > 1) /* (ln 1)^g is 0 for every g > 0 */
        parameters->value[2] = policy->value[0] * power * log(log((double)stats->n));
    return 0;
}

static const policy_parameter ssmax_parameters[] = {
    {.name = "s",
     .rule = "ssmax needs a finite s",
     .offset = POLICY_VALUE(0),
     .gradient = GRADIENT_VALUE(0),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_LEARNABLE},
    {.name = "b",
     .rule = "ssmax needs a finite b",
     .offset = POLICY_VALUE(1),
     .gradient = GRADIENT_VALUE(1),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_OPTIONAL | PARAMETER_LEARNABLE},
    {.name = "g",
     .rule = "ssmax needs a finite g >= 0",
     .offset = POLICY_VALUE(2),
     .gradient = GRADIENT_VALUE(2),
     .low = 0,
     .high = INFINITY,
     .flags = PARAMETER_HIGH_OPEN | PARAMETER_OPTIONAL},
};

const temperature_descriptor whet_temperature_ssmax = {.kind = WHET_POLICY_SSMAX,
                                                       .needs = NEEDS_COUNT,
                                                       .parameters = ssmax_parameters,
                                                       .parameter_count =
                                                           COUNT_OF(ssmax_parameters),
                                                       .betas = ssmax_betas,
                                                       .derivative = ssmax_derivative};

const policy_entry whet_entry_ssmax = {
    .name = "ssmax",
    .temperature = &whet_temperature_ssmax,
    .preset = preset_ssmax,
    .info = {"ssmax:s[:b[:g]]", "beta = s (ln n)^g + b", "ssmax:0.43", 1}};

/* ---- length ---- */

whet_policy whet_policy_length(double n0) { return by_length(WHET_POLICY_LENGTH, n0, 0); }

static whet_policy preset_length(void) { return whet_policy_length(2); }

static void length_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = fmax(1, log((double)batch->n[i]) / log(policy->value[0]));
}

static double length_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                                double variance, whet_policy_gradient *parameters) {
    (void)stats;
    (void)variance;
    double n0 = policy->value[0];
    parameters->value[0] = beta > 1 ? -beta / (log(n0) * n0) : 0;
    return 0;
}

static const policy_parameter length_parameters[] = {{.name = "n0",
                                                      .rule = "length needs a finite n0 > 1",
                                                      .offset = POLICY_VALUE(0),
                                                      .gradient = GRADIENT_VALUE(0),
                                                      .low = 1,
                                                      .high = INFINITY,
                                                      .flags = PARAMETER_OPEN}};

const temperature_descriptor whet_temperature_length = {.kind = WHET_POLICY_LENGTH,
                                                        .needs = NEEDS_COUNT,
                                                        .parameters = length_parameters,
                                                        .parameter_count =
                                                            COUNT_OF(length_parameters),
                                                        .betas = length_betas,
                                                        .derivative = length_derivative};

const policy_entry whet_entry_length = {
    .name = "length",
    .temperature = &whet_temperature_length,
    .preset = preset_length,
    .info = {"length:n0", "beta = max(1, ln n / ln n0)", "length:16", 1}};

/* ---- linear ---- */

whet_policy whet_policy_linear(double n0) { return by_length(WHET_POLICY_LINEAR, n0, 0); }

static whet_policy preset_linear(void) { return whet_policy_linear(1); }

static void linear_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = fmax(1, (double)batch->n[i] / policy->value[0]);
}

static double linear_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                                double variance, whet_policy_gradient *parameters) {
    (void)stats;
    (void)variance;
    parameters->value[0] = beta > 1 ? -beta / policy->value[0] : 0;
    return 0;
}

static const policy_parameter linear_parameters[] = {{.name = "n0",
                                                      .rule = "linear needs a finite n0 > 0",
                                                      .offset = POLICY_VALUE(0),
                                                      .gradient = GRADIENT_VALUE(0),
                                                      .low = 0,
                                                      .high = INFINITY,
                                                      .flags = PARAMETER_OPEN}};

const temperature_descriptor whet_temperature_linear = {.kind = WHET_POLICY_LINEAR,
                                                        .needs = NEEDS_COUNT,
                                                        .parameters = linear_parameters,
                                                        .parameter_count =
                                                            COUNT_OF(linear_parameters),
                                                        .betas = linear_betas,
                                                        .derivative = linear_derivative};

const policy_entry whet_entry_linear = {
    .name = "linear",
    .temperature = &whet_temperature_linear,
    .preset = preset_linear,
    .info = {"linear:n0", "beta = max(1, n / n0)", "linear:1024", 1}};

/* ---- hinge ---- */

whet_policy whet_policy_hinge(double a, double h, double n0) {
    whet_policy policy = by_length(WHET_POLICY_HINGE, a, h);
    policy.value[2] = n0;
    return policy;
}

static whet_policy preset_hinge(void) { return whet_policy_hinge(0, 0, 1); }

/* max(0, ln(n / n0)); the quotient itself may leave the range of numbers. */
static double hinge_excess(const whet_policy *policy, uint64_t n) {
    return fmax(0, log((double)n) - log(policy->value[2]));
}

static void hinge_betas(const whet_policy *policy, const beta_batch *rows, double *beta) {
    for (size_t i = 0; i < rows->count; i++)
        beta[i] = rows->n[i]
                      ? exp(policy->value[0] + policy->value[1] * hinge_excess(policy, rows->n[i]))
                      : 1;
}

static double hinge_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                               double variance, whet_policy_gradient *parameters) {
    (void)variance;
    double excess = hinge_excess(policy, stats->n);
    parameters->value[0] = beta;
    parameters->value[1] = beta * excess;
    parameters->value[2] = excess > 0 ? -beta * policy->value[1] / policy->value[2] : 0;
    return 0;
}

static const policy_parameter hinge_parameters[] = {
    {.name = "a",
     .rule = "hinge needs a finite a",
     .offset = POLICY_VALUE(0),
     .gradient = GRADIENT_VALUE(0),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_LEARNABLE},
    {.name = "h",
     .rule = "hinge needs a finite h",
     .offset = POLICY_VALUE(1),
     .gradient = GRADIENT_VALUE(1),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_LEARNABLE},
    {.name = "n0",
     .rule = "hinge needs a finite n0 > 0",
     .offset = POLICY_VALUE(2),
     .gradient = GRADIENT_VALUE(2),
     .low = 0,
     .high = INFINITY,
     .flags = PARAMETER_OPEN},
};

const temperature_descriptor whet_temperature_hinge = {.kind = WHET_POLICY_HINGE,
                                                       .needs = NEEDS_COUNT,
                                                       .parameters = hinge_parameters,
                                                       .parameter_count =
                                                           COUNT_OF(hinge_parameters),
                                                       .betas = hinge_betas,
                                                       .derivative = hinge_derivative};

const policy_entry whet_entry_hinge = {
    .name = "hinge",
    .temperature = &whet_temperature_hinge,
    .preset = preset_hinge,
    .info = {"hinge:a:h:n0", "beta = exp(a + h max(0, ln(n / n0)))", "hinge:0.1:0.05:16", 1}};
