/* A temperature of the caller's: a function of a row's statistics. It has no name that parses. */
#include "policy/registry.h"

whet_policy whet_policy_custom(whet_beta_function function, void *context) {
    whet_policy policy = whet_policy_of(WHET_POLICY_CUSTOM, WHET_POLICY_SOFTMAX);
    policy.function = function;
    policy.context = context;
    return policy;
}

static void custom_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    for (size_t i = 0; i < batch->count; i++) {
        double unused = 0;
        beta[i] = policy->function(&batch->stats[i], &unused, policy->context);
    }
}

static double custom_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                                double variance, whet_policy_gradient *parameters) {
    (void)beta;
    (void)variance;
    (void)parameters;
    double derivative = 0;
    policy->function(stats, &derivative, policy->context);
    return derivative;
}

const temperature_descriptor whet_temperature_custom = {.kind = WHET_POLICY_CUSTOM,
                                                        .needs = NEEDS_COUNT | NEEDS_POSITION |
                                                                 NEEDS_SUMS | NEEDS_STATS,
                                                        .betas = custom_betas,
                                                        .derivative = custom_derivative};
