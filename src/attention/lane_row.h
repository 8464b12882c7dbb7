/*
 * One row of a panel: extracted from the panel's tiles, where it is a lane, so that
 * src/row can work on it as a whole, and put back.
 */
#ifndef WHET_LANE_ROW_H
#define WHET_LANE_ROW_H

#include "attention/geometry.h"

/* A lane of tiles that hold the keys first <= j < end, all of those that the row sees among them.
 */
typedef struct lane_row {
    const query_row *row;
    float *entries; /* the lane's entry for the first key ... */
    size_t stride;  /* ... and how far away that for the next one is */
    size_t first, end;
} lane_row;

/* The entries of the keys that the row sees, contiguous; returns their number. */
size_t whet_lane_take(const lane_row *lane, float *row);

/* Puts a row back; 0 where the logit is masked, as it is for all keys that the row does not see.
 * logits may be the lane itself. */
void whet_lane_put(const lane_row *lane, const lane_row *logits, const float *row);

/* The same with one value for all entries. */
void whet_lane_fill(const lane_row *lane, const lane_row *logits, float value);

#endif
