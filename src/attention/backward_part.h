/*
 * The backward pass over a part of the keys of longer rows, as its users in other places of the
 * project see it. Each part is a plan of its own. Its first run finds what rows come to over the
 * part's keys; these sums add up, and with those of all parts a second run computes the part's
 * gradients: those of its keys, and its share of those of queries and parameters.
 */
#ifndef WHET_BACKWARD_PART_H
#define WHET_BACKWARD_PART_H

#include "whet.h"
#include <stdbool.h>

/* What a row comes to over some keys, with g the gradients of their weights; see backward.h. */
typedef struct backward_sums {
    double peak;       /* the largest logit, the sink among them; -inf for none */
    double base;       /* g there; a sink's is 0 */
    double z, s;       /* sums of exp(beta d), d exp(beta d), with d = e - peak */
    double a, b;       /* the same times g - base */
    double z0, s0, q0; /* moments at beta0, where that is not 1 */
} backward_sums;

/* Adds those of further keys. The exponents are those of a row's beta and beta0. */
void whet_backward_add_sums(backward_sums *into, const backward_sums *more, double exp2_scale,
                            double exp2_scale0);

typedef struct backward_part {
    bool finds_sums;     /* in the first run, which writes nothing else */
    backward_sums *rows; /* [batch][head][query] of the plan: found, or those of all parts */
} backward_part;

/*
 * Plans one run; `part` must outlive the plan. The first run has no gradients to write except
 * `betas`, which must be given but is not written. Gradients of policies and sinks are complete in
 * every part, so only one may ask for them. Rows may have the map softmax only, and there are no
 * gradients of statistics (WHET_ERROR_UNSUPPORTED). skip must be 0.
 */
whet_status whet_plan_backward_part(const whet_gradients *gradients, const backward_part *part,
                                    whet_plan *plan);

#endif
