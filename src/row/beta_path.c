/*
 * How beta depends on what it was made from: the derivatives that go with the
 * rules in policy.c and target.c. First those of the rule itself, with respect
 * to the entropy and to each of the policy's numbers; strength then multiplies
 * them all and has one of its own. What decided beta is told by its value: a
 * rule that gave no more than its floor did not decide.
 */
#include "row/policy.h"
#include "row/row.h"

#include <math.h>

/* Coefficients, the entropy below `hold`, and `hold` itself beyond. Returns d beta / d entropy. */
static double poly_path(const whet_policy *policy, double entropy, double beta,
                        whet_policy_gradient *numbers) {
    double h = fmin(entropy, policy->hold);
    if (h <= policy->threshold || !(beta > policy->floor)) {
        return 0;
    }
    double power = 1;
    double slope = 0;
    for (unsigned i = 0; i <= policy->degree; i++) {
        numbers->value[policy->degree - i] = power;
        power *= h;
    }
    for (unsigned i = 0; i < policy->degree; i++) {
        slope = slope * h + policy->value[i] * (double)(policy->degree - i);
    }
    if (entropy > policy->hold) {
        numbers->hold = slope;
        return 0;
    }
    return slope;
}

/* The derivatives of beta before strength: returns that by the entropy, and notes the others. */
static double full_path(const whet_policy *policy, const whet_stats *stats, double beta,
                        double custom_slope, whet_policy_gradient *numbers) {
    double first = policy->value[0];
    switch (policy->kind) {
    case WHET_POLICY_FIXED:
        numbers->value[0] = 1;
        return 0;
    case WHET_POLICY_POLY:
        return poly_path(policy, stats->entropy, beta, numbers);
    case WHET_POLICY_EXP:
        numbers->value[0] = beta > 1 ? -beta : 0;
        return beta > 1 ? beta : 0;
    case WHET_POLICY_SSMAX:
        numbers->value[0] = log((double)stats->n);
        numbers->value[1] = 1;
        return 0;
    case WHET_POLICY_LENGTH:
        numbers->value[0] = beta > 1 ? -beta / (log(first) * first) : 0;
        return 0;
    case WHET_POLICY_LINEAR:
        numbers->value[0] = beta > 1 ? -beta / first : 0;
        return 0;
    default:
        return custom_slope;
    }
}

/* The same for target, whose entropy at beta is H: returns the factor. */
static double target_path(const whet_policy *policy, const whet_stats *stats, double beta,
                          double variance, whet_policy_gradient *numbers) {
    if (stats->flags & WHET_ROW_CAPPED) {
        numbers->value[1] = policy->value[1] <= POLICY_BETA_MAX;
        return 0;
    }
    if (!(beta > 1 && variance > 0)) {
        return 0;
    }
    numbers->value[0] = -1 / (beta * variance);
    return beta / variance;
}

static void weaken_path(double strength, beta_path *path) {
    path->factor *= strength;
    path->numbers.hold *= strength;
    for (unsigned i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        path->numbers.value[i] *= strength;
    }
}

/* Whether beta before strength, and beta itself, are inside the bounds they are kept to. */
static bool is_free(double full, double beta) {
    return fabs(full) <= POLICY_BETA_MAX && beta > 0 && beta < POLICY_BETA_MAX;
}

double whet_beta_path_start(const whet_policy *policy, const whet_stats *stats) {
    if (!policy || policy->kind != WHET_POLICY_TARGET || !(policy->strength > 0)) {
        return 1;
    }
    return policy->strength == 1 ? stats->beta : 1 + (stats->beta - 1) / policy->strength;
}

void whet_beta_path(const whet_policy *policy, const whet_stats *stats, double variance,
                    beta_path *path) {
    *path = (beta_path){.beta0 = whet_beta_path_start(policy, stats)};
    if (!policy || !whet_policy_is_temperature(policy) ||
        (stats->flags & (WHET_ROW_EMPTY | WHET_ROW_NOT_FINITE))) {
        return;
    }
    bool is_target = policy->kind == WHET_POLICY_TARGET;
    double slope = 0;
    double full = is_target ? path->beta0 : whet_policy_full_beta(policy, stats, &slope);
    if (!is_free(full, stats->beta)) {
        return;
    }
    path->factor = is_target ? target_path(policy, stats, full, variance, &path->numbers)
                             : full_path(policy, stats, full, slope, &path->numbers);
    weaken_path(policy->strength, path);
    path->numbers.strength = full - 1;
}
