/*
 * llama4: the temperature that Llama 4 and some of Mistral's models give long contexts,
 * beta = 1 + s ln(1 + floor((position + offset) / n0)). It looks at the query's position
 * alone, not at how many keys the query sees.
 */
#include "policy/registry.h"

whet_policy whet_policy_llama4(double s, double n0, double offset) {
    whet_policy policy = whet_policy_of(WHET_POLICY_LLAMA4, WHET_POLICY_SOFTMAX);
    policy.value[0] = s;
    policy.value[1] = n0;
    policy.value[2] = offset;
    return policy;
}

static whet_policy preset(void) { return whet_policy_llama4(0.1, 8192, 1); }

/* Positions before the first step, negative ones among them, count as step 0. */
static double log_steps(const whet_policy *policy, int64_t position) {
    double steps = floor(((double)position + policy->value[2]) / policy->value[1]);
    return steps > 0 ? log1p(steps) : 0;
}

static void betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = 1 + policy->value[0] * log_steps(policy, batch->position[i]);
}

static double derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                         double variance, whet_policy_gradient *parameters) {
    (void)beta;
    (void)variance;
    parameters->value[0] = log_steps(policy, stats->position);
    return 0;
}

static const policy_parameter parameters[] = {
    {.name = "s",
     .rule = "llama4 needs a finite s",
     .offset = POLICY_VALUE(0),
     .gradient = GRADIENT_VALUE(0),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_OPTIONAL},
    {.name = "n0",
     .rule = "llama4 needs a finite n0 > 0",
     .offset = POLICY_VALUE(1),
     .gradient = NO_GRADIENT,
     .low = 0,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_OPTIONAL},
    {.name = "offset",
     .rule = "llama4 needs a finite offset",
     .offset = POLICY_VALUE(2),
     .gradient = NO_GRADIENT,
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_OPTIONAL},
};

const temperature_descriptor whet_temperature_llama4 = {.kind = WHET_POLICY_LLAMA4,
                                                        .needs = NEEDS_POSITION,
                                                        .parameters = parameters,
                                                        .parameter_count = COUNT_OF(parameters),
                                                        .betas = betas,
                                                        .derivative = derivative};

const policy_entry whet_entry_llama4 = {
    .name = "llama4",
    .temperature = &whet_temperature_llama4,
    .preset = preset,
    .info = {"llama4[:s[:n0[:offset]]]",
             "beta = 1 + s ln(1 + floor((position + offset) / n0)); s 0.1, n0 8192, offset 1",
             "llama4", 1}};
