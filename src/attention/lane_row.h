/*
 * The way back through a map that is not a temperature, for one row of a panel:
 * once the logits and the gradients of the weights of all its keys are in the
 * tiles, the row is taken out, led back through as a whole by src/row, and put
 * back as weights and gradients of the logits.
 */
#ifndef WHET_LANE_ROW_H
#define WHET_LANE_ROW_H

#include "attention/geometry.h"

/* A lane of tiles that hold the keys first <= j < end, all of those that the row sees among them.
 */
typedef struct map_lane {
    const key_stream *stream;
    const query_row *row;
    float *logits, *slopes; /* the lane's entries for the first key ... */
    size_t step;            /* ... and how far away those for the next one are */
    size_t first, end;
    double common;                  /* what the slopes lack of the gradients of weights */
    float *row_logits, *row_slopes; /* room for all keys of a row and its sink */
} map_lane;

/* Weights and slopes of one value; 0 where the logit is masked. */
void whet_map_lane_fill(const map_lane *lane, float value);

/* False if something is not finite: filled with NaN then. Adds to the gradients of the policy's
 * numbers and of the sink. */
bool whet_map_lane_turn(const map_lane *lane, whet_policy_gradient *numbers, double *sink);

#endif
