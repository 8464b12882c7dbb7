/* Temperatures that are the same for every row: plain softmax and fixed. */
#include "policy/registry.h"

const whet_policy whet_plain_policy = {.temperature = WHET_POLICY_SOFTMAX,
                                       .map = WHET_POLICY_SOFTMAX,
                                       .strength = 1,
                                       .threshold = -INFINITY,
                                       .floor = -INFINITY,
                                       .hold = INFINITY};

whet_policy whet_policy_softmax(void) { return whet_plain_policy; }

static void plain_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    (void)policy;
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = 1;
}

const temperature_descriptor whet_temperature_plain = {.kind = WHET_POLICY_SOFTMAX,
                                                       .betas = plain_betas};

const policy_entry whet_entry_softmax = {
    .name = "softmax",
    .temperature = &whet_temperature_plain,
    .preset = whet_policy_softmax,
    .info = {"softmax", "beta = 1: plain softmax", "softmax", 1}};

whet_policy whet_policy_fixed(double beta) {
    whet_policy policy = whet_policy_of(WHET_POLICY_FIXED, WHET_POLICY_SOFTMAX);
    policy.value[0] = beta;
    return policy;
}

static whet_policy preset_fixed(void) { return whet_policy_fixed(1); }

static void fixed_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = policy->value[0];
}

static double fixed_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                               double variance, whet_policy_gradient *parameters) {
    (void)policy;
    (void)stats;
    (void)beta;
    (void)variance;
    parameters->value[0] = 1;
    return 0;
}

static const policy_parameter fixed_parameters[] = {{.name = "B",
                                                     .rule = "fixed needs a finite B > 0",
                                                     .offset = POLICY_VALUE(0),
                                                     .gradient = GRADIENT_VALUE(0),
                                                     .low = 0,
                                                     .high = INFINITY,
                                                     .flags = PARAMETER_OPEN}};

const temperature_descriptor whet_temperature_fixed = {.kind = WHET_POLICY_FIXED,
                                                       .parameters = fixed_parameters,
                                                       .parameter_count =
                                                           COUNT_OF(fixed_parameters),
                                                       .betas = fixed_betas,
                                                       .derivative = fixed_derivative};

const policy_entry whet_entry_fixed = {
    .name = "fixed",
    .temperature = &whet_temperature_fixed,
    .preset = preset_fixed,
    .info = {"fixed:B", "beta = B, that is temperature 1/B", "fixed:2", 1}};
