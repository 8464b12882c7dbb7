/*
 * One row through a map in its row form, which is right for every policy: any
 * temperature, any map, a sink, gradients of statistics. In double throughout;
 * src/row and src/isa have faster forms of what is used most.
 */
#ifndef WHET_MAP_ROW_H
#define WHET_MAP_ROW_H

#include "row/one_row.h"

/* The coefficients of a row at stats->beta to row->out, unless that is NULL; sets entropy_after,
 * max_prob and sink_share. The row is finite and not empty. */
void whet_map_row(const row_view *row, const row_job *job, whet_stats *stats);

/*
 * The steps of that, for rows whose logits are in pieces: a row as its map sees it, the start of
 * the search for its solution (policy/map.h), the coefficients of a piece once the solution is
 * known, and what they come to in the statistics. Those of pieces add up, but for the largest.
 */
typedef struct map_coefficients {
    double largest, entropy;
    double first; /* the first entry's */
} map_coefficients;

map_row whet_map_row_of(const row_view *row, const row_job *job, const whet_stats *stats);
map_search whet_map_start(const map_row *m, const map_descriptor *map);
map_coefficients whet_map_store(const map_row *m, const map_descriptor *map,
                                const map_solution *solution);
void whet_map_report(const map_descriptor *map, const map_solution *solution,
                     const map_coefficients *all, whet_stats *stats);

/* What arrives at a row, and what leaves it besides the gradient of its logits (row->out). */
typedef struct row_gradients {
    const row_view *out;                      /* dL / d result, as logits of a view; ... */
    double common;                            /* ... all of its entries lack this, not a sink's */
    double logsumexp, entropy, entropy_after; /* dL / d statistics */
    bool wants_beta;                          /* also where it moves with nothing */
    float *weights;                           /* receives the coefficients, or NULL */
    ordered_ends ends;                        /* of a piece, under an ordered map */
    whet_policy_gradient *parameters;         /* added to, or NULL */
    double beta, sink;                        /* set: dL / d beta and the sink */
} row_gradients;

/*
 * The steps of the backward pass for rows whose logits are in pieces: the sums of a piece, which
 * add up, and its gradients once those of the whole row are known. The sink is a piece of its own,
 * a row of no entries. d is counted from the row's maximum, g from `base`.
 *
 * Of ordered maps, sums are those of a piece as if it were the whole row. Both the gradient of beta
 * and `ends` are linear in what earlier pieces come to. For its gradients, a piece also needs the
 * row's ends around it (row_gradients), which follow from those of all pieces.
 */
typedef struct map_part_sums {
    double peak, base;                 /* the largest logit of the pieces, and g there */
    double weights, gradients, probe;  /* see map_terms; NaN if something that arrives is */
    double own, own_d, plain, plain_d; /* own g, own g d, own, own d */
    double shared, shared_d;
    double z0, s0, q0; /* moments at beta0, where that is not 1 */
    /* ordered maps alone: */
    ordered_ends ends;         /* what a piece adds to `before`, and what it leaves */
    double moved, moved_after; /* of u e: the sum, and what it gains by each unit of `before` */
} map_part_sums;

map_part_sums whet_map_no_sums(void);
map_part_sums whet_map_part_sums(const row_view *row, const row_job *job, const whet_stats *stats,
                                 const map_solution *solution, row_gradients *gradients);
void whet_map_add_sums(map_part_sums *into, const map_part_sums *more); /* of later entries */

/* Sets the gradient of beta, and of the sink if the row has one; adds a piece's share of those of
 * parameters, and with `is_first` what the temperature's get of the whole row. As
 * whet_map_row_backward otherwise. */
bool whet_map_part_backward(const row_view *row, const row_job *job, const whet_stats *stats,
                            const map_solution *solution, const map_part_sums *all, bool is_first,
                            row_gradients *gradients);

/* The backward pass at stats->beta. `weights` may be the row itself. False if what arrives is not
 * finite: the gradient is then NaN, and nothing was added. */
bool whet_map_row_backward(const row_view *row, const row_job *job, const whet_stats *stats,
                           row_gradients *gradients);

#endif
