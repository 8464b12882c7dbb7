/*
 * What attention has to know of a policy besides its beta: everything here
 * depends on the kind of policy alone.
 */
#ifndef WHET_POLICY_TRAITS_H
#define WHET_POLICY_TRAITS_H

#include "attention/geometry.h"
#include <math.h>

static inline bool policy_is_map(const whet_policy *policy) {
    return !whet_policy_is_temperature(policy);
}

/* Plain softmax: the sums at its beta are the row's statistics. */
static inline bool policy_is_softmax(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_SOFTMAX;
}

/* softmax1 is softmax with one more logit of 0. */
static inline bool policy_has_zero_logit(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_SOFTMAX1;
}

/* Whether weights are exponentials of the logits: a temperature's, and softmax1's. */
static inline bool policy_takes_exponentials(const whet_policy *policy) {
    return whet_policy_is_temperature(policy) || policy_has_zero_logit(policy);
}

/* Whether beta is searched for, step by step, in sums over the row. */
static inline bool policy_has_target(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_TARGET;
}

/* Maps that leave out the entries below a threshold and are softmax of the rest. */
static inline bool policy_leaves_out(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_TOPK || policy->kind == WHET_POLICY_HARDMAX;
}

/* Maps that look for a threshold among all logits of a row. */
static inline bool policy_is_searched(const whet_policy *policy) {
    return policy_leaves_out(policy) || policy->kind == WHET_POLICY_ENTMAX;
}

/* Whether weights depend on those of later keys. */
static inline bool policy_goes_backwards(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_STICK_BREAKING;
}

/* Whether a sink is one more entry to a map: sigmoid looks at every logit by itself, and
 * stick-breaking comes to the sink last. */
static inline bool policy_takes_sink(const whet_policy *policy) {
    return policy->kind != WHET_POLICY_SIGMOID && policy->kind != WHET_POLICY_STICK_BREAKING;
}

/* Whether sigmoid's bias is ln n. */
static inline bool policy_bias_is_log_n(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_SIGMOID && isnan(policy->value[0]);
}

/* A row's policy with that bias filled in, n being the keys that limits and mask leave. */
whet_policy whet_row_policy(const kv_slice *slice, const query_row *row);

#endif
