/*
 * The row form of a map, which every map has: passes over a row find a few numbers, after
 * which each coefficient follows from its logit. It works in double throughout, costs a
 * few passes and copies nothing; row/map_row.c runs it for one row, forward and backward.
 * Kernels for panels of rows are separate (see panel_form).
 *
 * A sink that the map takes is one more entry after the last.
 */
#ifndef WHET_POLICY_MAP_H
#define WHET_POLICY_MAP_H

#include "policy/entmax.h"
#include "row/view.h"
#include <math.h>

/* One row as a map sees it. */
typedef struct map_row {
    const whet_policy *policy;
    const row_view *row;     /* its logits; coefficients go to row->out unless that is NULL */
    const whet_stats *stats; /* n and max: the row is finite and not empty */
    double beta;             /* above zero */
    float sink;              /* -inf if there is none, or the map takes none */
    uint64_t visible;        /* what ln n means to MAP_BY_VISIBLE */
} map_row;

/* Entries of the row, the sink among them. */
static inline double map_row_entries(const map_row *row) {
    return (double)row->stats->n + (row->sink > -INFINITY);
}

/* What the passes over a row have found out. */
typedef struct map_solution {
    double beta;
    double found[4];
} map_solution;

/*
 * The search for that solution, as a state machine that is driven by the code that holds the
 * logits: a whole row, or pieces of it in several places.
 *
 *     map->start(row, &search);
 *     map->settle(row, &search);        // for a whole row, unless that is NULL
 *     while (!search.done) {
 *         map_sums sums = map_sums_none(search.sums);
 *         map->sum(row, &search, &sums);    // once, or for each piece and the sink
 *         map->step(row, &search, &sums);
 *     }
 *
 * The sums of pieces add up (map_sums_add). map_row.stats are always those of the whole row.
 */
#define MAP_SUMS_MAX 256

typedef struct map_search {
    map_solution solution; /* complete when done */
    bool done;
    size_t sums; /* values that the next step needs */
    /* private to the map */
    entmax_solver entmax;
    uint64_t k;
    uint32_t prefix;
    unsigned shift;
} map_search;

typedef struct map_sums {
    size_t count;
    double lowest; /* a minimum; the others are sums */
    double value[MAP_SUMS_MAX];
} map_sums;

static inline map_sums map_sums_none(size_t count) {
    map_sums sums;
    sums.count = count;
    sums.lowest = INFINITY;
    for (size_t i = 0; i < count; i++)
        sums.value[i] = 0;
    return sums;
}

static inline void map_sums_add(map_sums *sums, const map_sums *more) {
    sums->lowest = more->lowest < sums->lowest ? more->lowest : sums->lowest;
    for (size_t i = 0; i < sums->count; i++)
        sums->value[i] += more->value[i];
}

/* A coefficient from its logit. */
typedef double (*map_function)(double logit, const map_solution *solution);

/*
 * The gradient through an entry with coefficient p. With g the gradient of the
 * coefficient and D = sum mean g (with MAP_MEAN_OVER_SUM over sum mean), the
 * gradient of beta e is
 *
 *     own g - shared D
 *
 * and that of the map's first parameter is sum parameter (g - D).
 */
typedef struct map_terms {
    double own, shared, mean, parameter;
} map_terms;

/* own g - shared D, such that nothing cancels where the two are the same. */
static inline double map_gradient_of(map_terms terms, double g, double mean) {
    double common = terms.own * (g - mean);
    return terms.own == terms.shared ? common : common + (terms.own - terms.shared) * mean;
}

/* What an ordered map reports of its result. */
typedef struct map_result {
    double largest, first; /* coefficients */
    double rest;           /* before: what later entries left to the row; after: what it leaves */
} map_result;

/*
 * What reaches a logit besides through its coefficient: through beta, and from
 * gradients of the row's own statistics. With d = e - max and sums over the row,
 * its sink included,
 *
 *     through_beta exp(beta0 d) (d - mean0) + exp(d) (from_logsumexp + from_entropy (d - mean1))
 */
typedef struct row_movement {
    bool is_zero;
    double max;
    double beta0, mean0, through_beta;
    double mean1, from_logsumexp, from_entropy;
} row_movement;

static inline double row_movement_at(const row_movement *m, double logit) {
    double d = logit - m->max;
    double result = 0;
    if (m->through_beta != 0)
        result += m->through_beta * exp(m->beta0 * d) * (d - m->mean0);
    if (m->from_logsumexp != 0 || m->from_entropy != 0)
        result += exp(d) * (m->from_logsumexp + m->from_entropy * (d - m->mean1));
    return result;
}

/* The stick at both ends of some entries of a row: what earlier entries would get of a whole one,
 * and what later ones leave. */
typedef struct ordered_ends {
    double before, rest;
} ordered_ends;

static inline ordered_ends ordered_whole_row(void) { return (ordered_ends){0, 1}; }

/*
 * The backward pass of an ordered map: `grad` plus `common` is what arrives at the
 * coefficients, row->out receives the gradient of the logits.
 * First called with stores = false: returns false if what arrives is not finite;
 * sets *beta_grad, unless that is NULL, to the sum of u e, with u the gradient of
 * beta e, and *passed, unless that is NULL, to the ends as later and earlier entries see
 * them. Then with
 * stores = true: beta u plus the movement, and coefficients to `weights` unless
 * that is NULL (it may be the row itself).
 */
typedef struct map_gradient {
    const row_view *grad;
    double common;
    ordered_ends ends;
    ordered_ends *passed;
    bool stores;
    const row_movement *movement;
    float *weights;
    double *beta_grad;
} map_gradient;

#endif
