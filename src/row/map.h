/*
 * What the maps and their way back share: a walk over a row block by block, and
 * what a map's passes find out about a row, after which each coefficient follows
 * from its logit. A map works in double throughout and costs a few
 * passes over the row; it copies and sorts nothing.
 */
#ifndef WHET_MAP_H
#define WHET_MAP_H

#include "row/row.h"

#include <math.h>
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

/* What the passes over a row have found out, and one coefficient from its logit and that. */
typedef double (*map_function)(double logit, const double *found);
typedef struct map_solution {
    map_function coefficient;
    double found[4];
} map_solution;

/* For every map whose coefficients depend on their own logit alone: all but stick-breaking. */
map_solution whet_map_solve(const whet_policy *policy, const row_view *row,
                            const whet_stats *stats);

map_solution whet_map_topk(const whet_policy *policy, const row_view *row, const whet_stats *stats);
map_solution whet_map_hardmax(const row_view *row, const whet_stats *stats);
map_solution whet_map_entmax(const whet_policy *policy, const row_view *row,
                             const whet_stats *stats);
map_solution whet_map_softmax1(const row_view *row, const whet_stats *stats);
map_solution whet_map_sigmoid(const whet_policy *policy, const whet_stats *stats);

void whet_map_stick_breaking(const row_view *row, whet_stats *stats);

/* sigma(e) and 1 - sigma(e), neither of them by a subtraction. */
typedef struct stick_parts {
    double taken, left;
} stick_parts;

static inline stick_parts stick_parts_at(double logit) {
    double small = exp(-fabs(logit)); /* sigma(-|e|) = small sigma(|e|) */
    double large_part = 1 / (1 + small);
    double small_part = small * large_part;
    return logit > 0 ? (stick_parts){large_part, small_part}
                     : (stick_parts){small_part, large_part};
}

#endif
