/*
 * Beta from a row's statistics, for one row and for many, and its derivative. A
 * temperature's own rule is in its descriptor; strength and bounds, which all
 * temperatures share, are here. The value of beta shows what decided it: a rule that gave
 * no more than its floor did not.
 */
#include "policy/beta.h"
#include "base/last_error.h"
#include "policy/registry.h"

bool whet_beta_is_one(const whet_policy *policy) {
    return whet_temperature_of(policy) == &whet_temperature_plain;
}

bool whet_beta_is_constant(const whet_policy *policy) {
    return whet_temperature_of(policy)->needs == 0;
}

/* Strength 1 gives the very same beta, which 1 + (beta - 1) does not. */
double whet_apply_strength(const whet_policy *policy, double beta) {
    if (policy->strength == 1)
        return whet_bound_beta(beta);
    double limited = beta > POLICY_BETA_MAX    ? POLICY_BETA_MAX
                     : beta < -POLICY_BETA_MAX ? -POLICY_BETA_MAX /* -inf times 0 is NaN */
                                               : beta;
    return whet_bound_beta(1 + policy->strength * (limited - 1));
}

void whet_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    whet_temperature_of(policy)->betas(policy, batch, beta);
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = whet_apply_strength(policy, beta[i]);
}

/* Before strength, of one row. */
static double full_beta(const whet_policy *policy, const whet_stats *stats) {
    beta_batch one = {.count = 1,
                      .entropy = &stats->entropy,
                      .n = &stats->n,
                      .position = &stats->position,
                      .stats = stats};
    double beta;
    whet_temperature_of(policy)->betas(policy, &one, &beta);
    return beta;
}

static double refuse_beta(const char *why) {
    whet_refuse(WHET_ERROR_ARGUMENT, "%s", why);
    return NAN;
}

double whet_policy_beta(const whet_policy *policy, const whet_stats *stats) {
    if (!policy)
        return 1;
    const temperature_descriptor *t = whet_temperature_of(policy);
    if (!stats)
        return refuse_beta("stats is NULL");
    if (!t)
        return refuse_beta("temperature is not a kind of policy");
    if ((t->needs & NEEDS_STATS) && !policy->function)
        return refuse_beta("function is NULL, which a custom policy needs");
    if (t->needs & NEEDS_SEARCH)
        return refuse_beta("temperature is target, which needs the logits: whet_softmax has them");
    if (stats->flags & WHET_ROW_NOT_FINITE)
        return NAN;
    return whet_apply_strength(policy, full_beta(policy, stats));
}

/* ---- derivative ---- */

static void scale_derivative(double strength, beta_derivative *d) {
    d->factor *= strength;
    d->parameters.hold *= strength;
    for (unsigned i = 0; i <= WHET_POLY_DEGREE_MAX; i++)
        d->parameters.value[i] *= strength;
}

/* Whether beta before strength, and beta itself, are inside the bounds they are kept to. */
static bool is_free(double full, double beta) {
    return fabs(full) <= POLICY_BETA_MAX && beta > 0 && beta < POLICY_BETA_MAX;
}

double whet_beta0(const whet_policy *policy, const whet_stats *stats) {
    bool searches = whet_temperature_of(policy)->needs & NEEDS_SEARCH;
    if (!searches || !(policy->strength > 0))
        return 1;
    return policy->strength == 1 ? stats->beta : 1 + (stats->beta - 1) / policy->strength;
}

void whet_differentiate_beta(const whet_policy *policy, const whet_stats *stats, double variance,
                             beta_derivative *result) {
    const temperature_descriptor *t = whet_temperature_of(policy);
    *result = (beta_derivative){.beta0 = whet_beta0(policy, stats)};
    if (!policy || (stats->flags & (WHET_ROW_EMPTY | WHET_ROW_NOT_FINITE)))
        return;
    double full = t->needs & NEEDS_SEARCH ? result->beta0 : full_beta(policy, stats);
    if (!is_free(full, stats->beta))
        return;
    if (t->derivative)
        result->factor = t->derivative(policy, stats, full, variance, &result->parameters);
    scale_derivative(policy->strength, result);
    result->parameters.strength = full - 1;
}

/* The gradient of beta overflows only where beta is almost zero. */
static void add_parameter(double beta_grad, double derivative, double *sum) {
    if (derivative != 0 && isfinite(beta_grad))
        *sum += beta_grad * derivative;
}

void whet_add_parameters(const whet_policy_gradient *derivatives, double beta_grad,
                         whet_policy_gradient *sums) {
    for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++)
        add_parameter(beta_grad, derivatives->value[i], &sums->value[i]);
    add_parameter(beta_grad, derivatives->strength, &sums->strength);
    add_parameter(beta_grad, derivatives->hold, &sums->hold);
}
