/* From a temperature to the beta that is used: strength, bounds, batches of rows; and how beta
 * moves with the logits. */
#ifndef WHET_BETA_H
#define WHET_BETA_H

#include "policy/descriptor.h"

/*
 * A larger beta than this says nothing more: it already puts everything on the
 * largest logits, however close the next ones are. Keeping to it means that
 * beta times a difference of logits is never inf times zero.
 */
#define POLICY_BETA_MAX 1e30

/*
 * beta as the kernels use it: the factor beta log2 e of an exponent of 2, kept positive
 * and finite (an inverse temperature of zero becomes a tiny one). Rounding it to f32
 * moves a probability p by 6e-8 ln p relative, well within the documented accuracy.
 */
static inline float whet_exp2_scale(double beta) {
    double scale = beta * 1.4426950408889634;
    if (!(scale > 1e-30))
        scale = 1e-30;
    if (scale > 1e30)
        scale = 1e30;
    return (float)scale;
}

/* The same for code in double: beta itself, and above zero. */
static inline double whet_positive_beta(double beta) { return beta > 1e-30 ? beta : 1e-30; }

/* Between 0, where all entries are alike, and POLICY_BETA_MAX; NaN stays NaN. */
static inline double whet_bound_beta(double beta) {
    if (beta > POLICY_BETA_MAX)
        return POLICY_BETA_MAX;
    return beta < 0 ? 0 : beta;
}

/* Whether a beta given by the caller is used unchanged, so that it has a gradient. */
static inline bool whet_beta_is_free(double beta) { return beta >= 0 && beta <= POLICY_BETA_MAX; }

/* beta -> 1 + strength (beta - 1), within bounds. */
double whet_apply_strength(const whet_policy *policy, double beta);

/* The betas of a batch, strength and bounds included. Not for temperatures that search. */
void whet_betas(const whet_policy *policy, const beta_batch *batch, double *beta);

/* Whether beta is 1 because the temperature does nothing: a beta given by the caller may then
 * replace it. */
bool whet_beta_is_one(const whet_policy *policy);

/* Whether every row has the same beta. */
bool whet_beta_is_constant(const whet_policy *policy);

/*
 * How a row's beta moves with its logits and with the policy's parameters. With w =
 * softmax(beta0 e) and m_w = sum w e,
 *
 *     d beta / d e_j = -factor w_j (e_j - m_w)
 *
 * Temperatures of the entropy have beta0 = 1, so that w follows from the row's z and s;
 * for a searched one beta0 is its beta before strength, and it also needs the variance of
 * e under w (others ignore it). parameters is d beta / d each parameter. stats are the
 * row's, including beta. beta does not move where the row is empty or not finite, or
 * where a threshold, floor, cap or bound decides; nor does target's at strength 0, where
 * its full beta cannot be recovered.
 */
typedef struct beta_derivative {
    double beta0;
    double factor;
    whet_policy_gradient parameters;
} beta_derivative;

/* Adds to each parameter's gradient its share of the gradient of beta. */
void whet_add_parameters(const whet_policy_gradient *derivatives, double beta_grad,
                         whet_policy_gradient *sums);

double whet_beta0(const whet_policy *policy, const whet_stats *stats);
void whet_differentiate_beta(const whet_policy *policy, const whet_stats *stats, double variance,
                             beta_derivative *result);

#endif
