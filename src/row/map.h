/*
 * What the maps share: a walk over a row block by block, and the last pass,
 * which turns logits into coefficients, stores them and gathers what the
 * statistics say about them. A map works in double throughout and costs a few
 * passes over the row; it copies and sorts nothing.
 */
#ifndef WHET_MAP_H
#define WHET_MAP_H

#include "row/row.h"

#include <stdbool.h>

/*
 * A walk over a row:
 *
 *     row_walk walk;
 *     walk_begin(&walk, row);
 *     while (walk_next(&walk))
 *         ... walk.logits[0 ... walk.count - 1], at position walk.start ...
 */
typedef struct row_walk {
    const row_view *row;
    size_t start;
    size_t count;
    const float *logits;
    float buffer[ROW_BLOCK];
} row_walk;

static inline void walk_begin(row_walk *walk, const row_view *row) {
    walk->row = row;
    walk->start = 0;
    walk->count = 0;
}

static inline bool walk_next(row_walk *walk) {
    walk->start += walk->count;
    size_t left = walk->row->n - walk->start;
    if (left == 0) {
        return false;
    }
    walk->count = left < ROW_BLOCK ? left : ROW_BLOCK;
    walk->logits = whet_row_load(walk->row, walk->start, walk->count, walk->buffer);
    return true;
}

/* One coefficient from one logit and what the passes before have found out. */
typedef double (*map_function)(double logit, const double *found);

/*
 * The last pass of a map whose coefficients depend on their own logit alone.
 * Sets max_prob, and entropy_after to -sum p ln p.
 */
void whet_map_store(const row_view *row, map_function function, const double *found,
                    whet_stats *stats);

void whet_map_topk(const whet_policy *policy, const row_view *row, whet_stats *stats);
void whet_map_hardmax(const row_view *row, whet_stats *stats);
void whet_map_entmax(const whet_policy *policy, const row_view *row, whet_stats *stats);
void whet_map_softmax1(const row_view *row, whet_stats *stats);
void whet_map_sigmoid(const whet_policy *policy, const row_view *row, whet_stats *stats);
void whet_map_stick_breaking(const row_view *row, whet_stats *stats);

#endif
