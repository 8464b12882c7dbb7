/* One row from logits to statistics, beta and probabilities, a step at a time. */
#ifndef WHET_ONE_ROW_H
#define WHET_ONE_ROW_H

#include "policy/descriptor.h"
#include "row/view.h"

/* Rows of up to this many blocks note the maximum of each block; for longer rows the maximum is
 * found first, and all blocks are relative to it. */
#define NOTED_BLOCKS 512

/* Rows of up to this many entries go through the loops for panels, one row per lane: see
 * short_rows.c. Longer rows gain nothing: transposing costs the same for every entry, everything
 * else less and less. */
#define SHORT_MAX 56

/*
 * A long row of f32 whose exponentials are stored in place of its result, or, for all
 * rows, in one buffer that is free: the next walk over a row of the same length
 * multiplies them while it computes its own. One buffer for all rows stays in the caches,
 * and results that are written only once can bypass these.
 */
typedef struct row_pending {
    float *spare;        /* or NULL */
    int nontemporal;     /* as of row_pass; only with a place to spare */
    float *out;          /* of the row that is pending, NULL: none; */
    const float *values; /* its exponentials */
    float factor[NOTED_BLOCKS];
} row_pending;

/* What a call computes for its rows. */
typedef struct row_job {
    const whet_policy *policy;
    const temperature_descriptor *temperature;
    const map_descriptor *map;
    bool wants_stats;
    bool needs_count;    /* of unmasked entries, before beta is known */
    bool needs_sums;     /* Z and S */
    bool needs_extremes; /* min and argmax; found with the sums */
} row_job;

row_job whet_row_plan(const whet_policy *policy, bool wants_stats);

/* The largest logit, NaN passed over; and the sums at an exp2 scale with respect to some maximum,
 * the sink included. */
float whet_row_max(const row_view *row, float *buffer);
row_sums whet_row_moments(const row_view *row, float max, float exp2_scale, float *buffer);

/* Sets the smallest logit that is not masked, and where the largest of the row's own is. */
void whet_row_extremes(const row_view *row, float max, whet_stats *stats, float *buffer);

/*
 * The steps of whet_one_row. First the statistics as far as the job needs them, all flags clear;
 * then beta, noted in the statistics. A row that is empty or not finite is finished at once (see
 * below): false, or a beta of NaN.
 */
bool whet_row_describe(const row_view *row, const row_job *job, whet_stats *stats, float *buffer);
double whet_row_beta(const row_view *row, const row_job *job, whet_stats *stats, float *buffer);

/* The beta of a temperature that searches for it, by its solver, from the statistics of a described
 * row. The buffer is not used for contiguous f32 logits. */
double whet_row_search_beta(const row_view *row, const row_job *job, whet_stats *stats,
                            float *buffer);

/* Ends a row whose sum z is not above zero: nothing unmasked, or not finite if z is NaN. */
void whet_row_finish_special(const row_view *row, double z, whet_stats *stats);

/* One row from logits to result; *stats is set as far as the job needs it, its flags always. */
void whet_one_row(const row_view *row, const row_job *job, whet_stats *stats);

/* Finishes what is pending, which has as many entries as the row. */
void whet_row_flush(const row_view *row);

#endif
