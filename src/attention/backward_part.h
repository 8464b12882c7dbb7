/*
 * The backward pass over a part of the keys of longer rows, as its users in other places of the
 * project see it. Each part is a plan of its own. Its first run finds what rows come to over the
 * part's keys; these sums add up, and with those of all parts a second run computes the part's
 * gradients: those of its keys, and its share of those of queries and parameters.
 */
#ifndef WHET_BACKWARD_PART_H
#define WHET_BACKWARD_PART_H

#include "attention/geometry.h"
#include "row/map_row.h"
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

/* A row that is computed by itself: all maps except softmax, and every row if statistics have
 * gradients. */
typedef struct part_row {
    uint64_t index; /* [batch][head][query] */
    const kv_slice *slice;
    const query_row *row;
    const whet_stats *stats;  /* as given */
    row_view logits;          /* of the part's keys; without a sink */
    row_gradients *gradients; /* NULL in runs for logits */
} part_row;

typedef enum backward_run {
    RUN_LOGITS, /* keys alone; for rows that are computed by themselves */
    RUN_SUMS,
    RUN_GRADIENTS
} backward_run;

typedef struct backward_part {
    backward_run run;
    bool is_first;       /* adds what policies and sinks get of whole rows; one part must */
    backward_sums *rows; /* [batch][head][query] of the plan: found, or those of all parts */
    /* Called for each row that is computed by itself, in tasks: looks at its logits; at what
     * arrives at its weights, too; or replaces both, as whet_row_backward does. False: not finite.
     */
    bool (*visit)(void *context, part_row *row);
    void *context;
} backward_part;

#endif
