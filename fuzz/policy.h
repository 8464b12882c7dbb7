/* Policies made from an input's bytes: of every kind, and with any numbers, sound or not. */
#ifndef WHET_FUZZ_POLICY_H
#define WHET_FUZZ_POLICY_H

#include "input.h"
#include "whet.h"

/* A beta of the caller's own; the context is the beta, or NULL for one that follows the entropy. */
static inline double fuzz_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    *dbeta_dentropy = 1;
    return context ? *(const double *)context : 1 + stats->entropy;
}

static inline whet_policy fuzz_polynomial(fuzz_input *input) {
    double coefficients[WHET_POLY_DEGREE_MAX + 1];
    unsigned degree = fuzz_below(input, WHET_POLY_DEGREE_MAX + 2);
    for (unsigned i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        coefficients[i] = fuzz_double(input);
    }
    double threshold = fuzz_flag(input) ? -INFINITY : fuzz_double(input);
    double floor = fuzz_flag(input) ? 1 : fuzz_double(input);
    double hold = fuzz_flag(input) ? INFINITY : fuzz_double(input);
    return whet_policy_poly(coefficients, degree, threshold, floor, hold);
}

/* Any bytes at all in the place of a policy, but for the function, which would be called. */
static inline whet_policy fuzz_broken_policy(fuzz_input *input) {
    whet_policy policy = whet_policy_adaptive();
    unsigned char *bytes = (unsigned char *)&policy;
    for (unsigned i = fuzz_below(input, 8); i > 0; i--) {
        unsigned at = fuzz_below(input, sizeof policy);
        bytes[at] = (unsigned char)fuzz_bytes(input, 1);
    }
    policy.function = NULL;
    return policy;
}

/* `beta` must outlive the policy. */
static inline whet_policy fuzz_unweakened_policy(fuzz_input *input, double *beta) {
    double first;
    double second;
    switch (fuzz_below(input, 21)) {
    case 1:
        return whet_policy_fixed(fuzz_double(input));
    case 2:
        return whet_policy_adaptive();
    case 3:
        return whet_policy_adaptive_hold();
    case 4:
        return fuzz_polynomial(input);
    case 5:
        return whet_policy_exp(fuzz_double(input));
    case 6:
        first = fuzz_double(input);
        return whet_policy_target(first, fuzz_flag(input) ? 256 : fuzz_double(input));
    case 7:
        first = fuzz_double(input);
        return whet_policy_ssmax(first, fuzz_flag(input) ? 0 : fuzz_double(input));
    case 8:
        return whet_policy_length(fuzz_double(input));
    case 9:
        return whet_policy_linear(fuzz_double(input));
    case 10:
        return whet_policy_topk(fuzz_flag(input) ? fuzz_below(input, 16) : fuzz_bytes(input, 8));
    case 11:
        return whet_policy_hardmax();
    case 12:
        return whet_policy_sparsemax();
    case 13:
        return whet_policy_entmax15();
    case 14:
        return whet_policy_entmax(1 + (double)fuzz_bytes(input, 2) / 65535);
    case 15:
        return whet_policy_softmax1();
    case 16:
        return whet_policy_sigmoid(fuzz_double(input));
    case 17:
        return whet_policy_stick_breaking();
    case 18:
        return whet_policy_custom(fuzz_beta, NULL);
    case 19:
        *beta = fuzz_double(input);
        return whet_policy_custom(fuzz_beta, beta);
    case 20:
        first = fuzz_double(input);
        second = fuzz_double(input);
        return whet_policy_hinge(first, second, fuzz_double(input));
    default:
        return whet_policy_softmax();
    }
}

/* Made by the functions for it. A temperature and a map may come together that do not go together,
 * which is for whet_policy_check to say. */
static inline whet_policy fuzz_policy(fuzz_input *input, double *beta) {
    whet_policy policy = fuzz_unweakened_policy(input, beta);
    if (fuzz_below(input, 4) == 1) {
        whet_policy map = fuzz_unweakened_policy(input, beta);
        policy = whet_policy_compose(policy, map);
    }
    if (fuzz_rarely(input, 8)) {
        policy = whet_policy_with_strength(policy, fuzz_double(input));
    }
    return policy;
}

static inline whet_policy fuzz_any_policy(fuzz_input *input, double *beta) {
    return fuzz_rarely(input, 16) ? fuzz_broken_policy(input) : fuzz_policy(input, beta);
}

/* Whether the result of the policy's map does, apart from what a sink takes. */
static inline bool fuzz_sums_to_one(const whet_policy *policy) {
    return policy->map != WHET_POLICY_SOFTMAX1 && policy->map != WHET_POLICY_SIGMOID &&
           policy->map != WHET_POLICY_STICK_BREAKING;
}

/* Whether beta is 1, so that one may be given in its place. */
static inline bool fuzz_leaves_beta(const whet_policy *policy) {
    return policy->temperature == WHET_POLICY_SOFTMAX;
}

#endif
