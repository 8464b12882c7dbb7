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
#include <string.h>

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

/* An integer that orders as the logit does; -0 and +0 give the same. */
static inline uint32_t whet_ordered_bits(float logit) {
    float without_sign_of_zero = logit + 0.0f;
    uint32_t bits;
    memcpy(&bits, &without_sign_of_zero, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static inline float whet_from_ordered_bits(uint32_t bits) {
    bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
    float logit;
    memcpy(&logit, &bits, sizeof logit);
    return logit;
}

/*
 * The search for an entmax threshold, as a state machine so that whoever holds
 * the logits can drive it, like whet_target_start. For a = 2 and 1.5, the exact
 * ones, threshold is tau and the sums are those over y = (a - 1) (e - max) - tau
 * where it is positive. For other a it is v = ln p of the largest entry, sum that
 * of all p and squares that of p / (1 + x / w): see map_sparse.c. tolerance is the
 * change not worth another pass, of tau relative to itself or of v; reach how far,
 * relative to itself, tau may be found from sums taken at another: a closed form
 * over a long way makes a small difference of large sums.
 */
typedef struct entmax_sums {
    double count;
    double sum;
    double squares;
    double lowest; /* the smallest y */
} entmax_sums;

typedef struct entmax_solver {
    double a;
    double tolerance, reach;
    double threshold;
    unsigned steps;
    int done;
} entmax_solver;

static inline bool whet_entmax_is_exact(double a) { return a == 2 || a == 1.5; }
void whet_entmax_start(entmax_solver *solver, double a, double tolerance, double reach);
void whet_entmax_step(entmax_solver *solver, const entmax_sums *sums);

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
