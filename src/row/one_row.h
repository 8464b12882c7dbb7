/* One row from logits to statistics, beta and probabilities, a step at a time. */
#ifndef WHET_ONE_ROW_H
#define WHET_ONE_ROW_H

#include "policy/descriptor.h"
#include "row/view.h"

/* Rows of up to this many blocks note the maximum that each was taken at; a longer one is
 * searched for its maximum beforehand, so that all blocks are taken at that. */
#define NOTED_BLOCKS 512

/* Rows of up to so many entries go through the loops for panels, a row to a lane: see
 * short_rows.c. Longer ones gain nothing: transposing costs as much for each entry, the rest ever
 * less. */
#define SHORT_MAX 56

/*
 * A long row of f32 whose exponentials lie in place of its result, or all rows' in one place that
 * can be spared: whichever walk over a row of the same length comes next multiplies them on the
 * way, while it computes its own. One place for all is found in the caches again, and results that
 * are written but once can go past these.
 */
typedef struct row_pending {
    float *spare;        /* or NULL */
    int nontemporal;     /* as of row_pass; only with a place to spare */
    float *out;          /* of the row that is pending, NULL: none; */
    const float *values; /* its exponentials */
    float factor[NOTED_BLOCKS];
} row_pending;

/* What a call wants of its rows. */
typedef struct row_job {
    const whet_policy *policy;
    const temperature_descriptor *temperature;
    const map_descriptor *map;
    bool wants_stats;
    bool needs_count;    /* of unmasked entries, before beta can be told */
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

/* Ends a row whose sum z is not above zero: nothing unmasked, or not finite if z is NaN. */
void whet_row_finish_special(const row_view *row, double z, whet_stats *stats);

/* One row from logits to result; *stats is set as far as the job needs it, its flags always. */
void whet_one_row(const row_view *row, const row_job *job, whet_stats *stats);

/* Finishes what is pending, which has as many entries as the row. */
void whet_row_flush(const row_view *row);

#endif
