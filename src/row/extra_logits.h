/*
 * Logits that a row has besides its own entries: a sink, which takes part in the
 * entropy and in the normalisation, and the zero of softmax1, which takes part in
 * the normalisation alone. Neither has a value or is counted.
 */
#ifndef WHET_EXTRA_LOGITS_H
#define WHET_EXTRA_LOGITS_H

#include "isa/kernels.h"
#include "row/stats.h"
#include <math.h>

/* Statistics of the one logit, nothing for -inf. */
static inline whet_stats whet_extra_stats(double logit) {
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

/* Its share in the sums at an exp2 scale, relative to a maximum; zeros for -inf. */
static inline row_sums whet_extra_sums(double logit, double max, double exp2_scale) {
    if (logit == -(double)INFINITY)
        return (row_sums){0, 0, 0};
    double d = logit - max;
    double e = exp2(exp2_scale * d);
    return e == 0 ? (row_sums){0, 0, 0} : (row_sums){e, d * e, d * d * e};
}

#endif
