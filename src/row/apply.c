/* Beta on its way into the kernels, and what is reported of it afterwards. */
#include "row/row.h"
#include <math.h>

float whet_apply_beta(whet_stats *stats, double beta) {
    stats->beta = beta;
    return whet_beta_to_c(beta);
}

void whet_stats_after(whet_stats *stats, double z, double s) {
    double h = log(z) - stats->beta * (s / z);
    stats->entropy_after = h > 0 ? h : 0;
    stats->max_prob = 1.0 / z;
}

whet_stats whet_stats_not_finite(uint64_t n) {
    double nan = (double)NAN;
    return (whet_stats){.n = n,
                        .max = nan,
                        .z = nan,
                        .s = nan,
                        .logsumexp = nan,
                        .entropy = nan,
                        .beta = nan,
                        .entropy_after = nan,
                        .max_prob = nan,
                        .flags = WHET_ROW_NOT_FINITE};
}

bool whet_policy_is_constant(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_SOFTMAX || policy->kind == WHET_POLICY_FIXED;
}

bool whet_policy_needs_count(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_SSMAX || policy->kind == WHET_POLICY_LENGTH ||
           policy->kind == WHET_POLICY_LINEAR || policy->kind == WHET_POLICY_CUSTOM ||
           policy->kind == WHET_POLICY_SIGMOID;
}
