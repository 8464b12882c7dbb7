/*
 * Logits of a row that belong to no entry: a sink, which takes part in the
 * entropy and in the normalisation, and the zero of softmax1, which takes part in
 * the normalisation alone. Neither has a value or is counted. A sink of -inf is none.
 */
#ifndef WHET_EXTRA_LOGITS_H
#define WHET_EXTRA_LOGITS_H

#include "isa/kernels.h"
#include "row/stats.h"
#include <math.h>
#include <stdbool.h>

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

/* Its statistics, to be merged with those of the entries. */
static inline whet_stats extra_stats(double logit) {
    whet_stats piece = whet_stats_empty();
    if (logit == -(double)INFINITY)
        return piece;
    if (!isfinite(logit))
        return whet_stats_not_finite(0);
    piece.max = logit;
    piece.z = 1;
    whet_stats_complete(&piece);
    return piece;
}

/* The maximum with a logit of 0 among the others, and the weight of that logit; NaN is passed over.
 */
static inline float max_with_zero(float max) { return max > 0 ? max : 0; }
static inline double zero_logit_weight(double max, double beta) { return exp(-(beta * max)); }

#endif
