/*
 * Logits of a row that belong to no key: the sink of its head, and the logit 0
 * of softmax1. They take part in maximum and sums like any other, and have no
 * value. A sink of -inf is none.
 */
#ifndef WHET_EXTRA_LOGITS_H
#define WHET_EXTRA_LOGITS_H

#include "isa/kernels.h"
#include "whet.h"
#include <math.h>
#include <stdbool.h>

static inline float sink_of_head(const whet_attention *a, size_t head) {
    return a->sinks ? a->sinks[head] : -INFINITY;
}

/* False for NaN, too. */
static inline bool is_sink(double logit) { return logit > -(double)INFINITY; }

/* A logit's distance to the maximum and its weight exp2(scale distance); both 0 for none. */
typedef struct extra_logit {
    double distance, weight;
} extra_logit;

static inline extra_logit weigh_extra_logit(double logit, double max, double exp2_scale) {
    if (logit == -(double)INFINITY)
        return (extra_logit){0, 0};
    double distance = logit - max;
    return (extra_logit){distance, exp2(exp2_scale * distance)};
}

/* What it adds to z, s and q. */
static inline row_sums extra_sums(extra_logit extra) {
    if (extra.weight == 0)
        return (row_sums){0, 0, 0};
    return (row_sums){extra.weight, extra.distance * extra.weight,
                      extra.distance * extra.distance * extra.weight};
}

/* The maximum with a logit of 0 among the others, and the weight of that logit; NaN is passed over.
 */
static inline float max_with_zero(float max) { return max > 0 ? max : 0; }
static inline double zero_logit_weight(double max) { return exp(-max); }

#endif
