/*
 * What the files of src/row share: access to one row of logits block by block
 * whatever its element type and mask, the statistics' arithmetic, and the
 * solver behind the policy `target`. Nothing is allocated and no long row is
 * copied as a whole: passes over a row convert a block at a time into a buffer
 * on the stack, and f32 rows without a mask are read where they lie, unless
 * their results are narrow and they are short (staged.c).
 */
#ifndef WHET_ROW_H
#define WHET_ROW_H

#include "isa/kernels.h"
#include "whet.h"
#include <stdbool.h>

/* Floats in a block: small enough that a block and its result stay in the first-level cache. */
#define ROW_BLOCK 4096

/* Rows of up to this many blocks note the maximum that each was taken at; a longer one is
 * searched for its maximum beforehand, so that all blocks are taken at that. */
#define NOTED_BLOCKS 512

/*
 * A long row of f32 whose exponentials lie in place of its result, or all rows' in one place that
 * can be spared: whichever walk over a row of the same length comes next multiplies them on the
 * way, while it computes its own. One place for all is found in the caches again, and results that
 * are written but once can go past these.
 */
typedef struct row_pending {
    float *spare;        /* or NULL */
    int stream;          /* as of row_step; only with a place to spare */
    float *out;          /* of the row that is pending, NULL: none; */
    const float *values; /* its exponentials */
    float factor[NOTED_BLOCKS];
} row_pending;

/* One row: where its logits come from and where its result goes. */
typedef struct row_view {
    const struct kernels *kernels;
    size_t n;
    const void *in;
    const void *mask; /* or NULL */
    void *out;        /* or NULL when only statistics are wanted */
    whet_type in_type;
    whet_type mask_type;
    whet_type out_type;
    row_pending *pending; /* where results may be left, or NULL; see whet_row_flush */
} row_view;

/*
 * The logits [start, start + count) with the mask added, count <= ROW_BLOCK:
 * the row itself where it is plain f32, or `buffer` filled with them.
 */
const float *whet_row_load(const row_view *row, size_t start, size_t count, float *buffer);

/* Stores count results from position start on, rounded to the output's type. */
void whet_row_store(const row_view *row, size_t start, size_t count, const float *values);

/* Sets a whole row's result to one value. */
void whet_row_fill(const row_view *row, float value);

/* How many logits the block at `start` has. */
size_t whet_row_block(const row_view *row, size_t start);

/*
 * The same row, to be walked several times: a short one that is not plain f32 is converted once
 * into `buffer` (ROW_BLOCK floats). Functions below take such a row and the same buffer, which
 * long rows are converted through.
 */
row_view whet_row_hold(const row_view *row, float *buffer);

/* What a call wants of its rows. */
typedef struct row_job {
    const whet_policy *policy;
    bool wants_stats;
    bool needs_count; /* of unmasked entries, before beta can be told */
    bool needs_sums;  /* Z and S */
} row_job;

row_job whet_row_plan(const whet_policy *policy, bool wants_stats);

/* The largest logit, NaN passed over; and the sums at c with respect to some maximum. */
float whet_row_max(const row_view *row, float *buffer);
row_sums whet_row_moments(const row_view *row, float max, float c, float *buffer);

/*
 * The steps of whet_one_row. First the statistics as far as the job needs them, all flags clear;
 * then beta (before whet_apply_beta). A row that is empty or not finite is finished at once (see
 * below): false, or a beta of NaN.
 */
bool whet_row_describe(const row_view *row, const row_job *job, whet_stats *stats, float *buffer);
double whet_row_beta(const row_view *row, const whet_policy *policy, whet_stats *stats,
                     float *buffer);

/* Ends a row whose sum z is not above zero: nothing unmasked, or not finite if z is NaN. */
void whet_row_finish_odd(const row_view *row, double z, whet_stats *stats);

/* One row from logits to result; *stats is set as far as the job needs it, its flags always. */
void whet_one_row(const row_view *row, const row_job *job, whet_stats *stats);

/* Finishes what is pending, which has as many entries as the row. */
void whet_row_flush(const row_view *row);

/* Whether results go past the caches: large outputs, of rows that are whole lines. A line that is
 * written in part past the caches and in part through them goes to memory and back in between. */
bool whet_rows_stream(const whet_rows *rows);

/* Many rows, or long ones, of plain f32: see pipeline.c. */
bool whet_pipeline_takes(const whet_rows *rows, const row_job *job, bool stores);
whet_status whet_pipeline_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

/* The same for rows of a few entries: see short_rows.c. Longer rows gain nothing: turning costs as
 * much for each entry, the rest ever less. */
#define SHORT_MAX 56
whet_status whet_short_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

/* Whichever of the two suits; the pipeline takes them. */
static inline whet_status whet_plain_rows(const whet_rows *rows, const row_job *job,
                                          size_t *first_bad_row) {
    return rows->n <= SHORT_MAX ? whet_short_rows(rows, job, first_bad_row)
                                : whet_pipeline_rows(rows, job, first_bad_row);
}

/* Rows of other types, or with a mask, that have up to half a block's entries: see staged.c. */
bool whet_staged_take(const whet_rows *rows, const row_job *job, bool stores);
whet_status whet_staged_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

/*
 * The way back through one row, for which row->out receives the gradient with
 * respect to the logits and grad->in holds the one with respect to the result
 * (no mask; grad->n and kernels as the row's). Adds what the policy's numbers get to *numbers
 * unless that is NULL. False if the row, or what arrives at its unmasked entries, is not finite:
 * the gradient is then NaN, and nothing was added.
 */
bool whet_row_backward(const row_view *row, const row_view *grad, const row_job *job,
                       whet_policy_gradient *numbers);

/* The same for the maps (kind >= 64); the row is held, finite and not empty. Unless it is NULL,
 * weights receives the coefficients and may be the row itself; it is not set where false is
 * returned. */
bool whet_map_row_backward(const whet_policy *policy, const row_view *row, const row_view *grad,
                           const whet_stats *stats, float *weights, whet_policy_gradient *numbers);

/* The same for one row of plain f32 under any policy, n > 0, masked entries -inf. grad_in may be
 * either of the others, weights (NULL but for maps; not set for an empty row either) the logits. */
bool whet_f32_row_backward(const whet_policy *policy, const float *logits, const float *grad_out,
                           size_t n, float *weights, float *grad_in, whet_policy_gradient *numbers);

/* Fills logsumexp and entropy from n, max, z and s; resets beta and what follows. */
void whet_stats_complete(whet_stats *stats);

/* whet_stats_merge, yet to be completed. */
whet_stats whet_stats_add(const whet_stats *a, const whet_stats *b);

/*
 * The result of a map that is not a temperature (whet_policy_kind >= 64):
 * stores it to row->out unless that is NULL and sets beta, entropy_after and
 * max_prob. stats has its first block of fields already; the row is finite and
 * not empty.
 */
void whet_map_row(const whet_policy *policy, const row_view *row, whet_stats *stats);

/*
 * Newton's method for `target`, as a state machine so that whoever holds the
 * logits can drive it, for one row or for many side by side:
 *
 *     whet_target_start(&solver, policy, stats);
 *     while (!solver.done)
 *         whet_target_step(&solver, z, s, q);   // the sums below at solver.beta
 *
 * with d = e - max over unmasked entries (the sink included):
 * z = sum exp(beta d), s = sum d exp(beta d), q = sum d d exp(beta d).
 * Afterwards solver.beta is the answer before strength, and solver.flags has
 * WHET_ROW_CAPPED if it is the cap for want of a solution.
 */
typedef struct target_solver {
    double goal; /* the entropy wanted */
    double cap;
    double low, high; /* bracket: entropy at low is above the goal, at high below */
    double beta;      /* where to evaluate next; in the end the answer */
    double start;     /* where Newton begins, once the cap has shown that there is a solution */
    unsigned steps;
    uint32_t flags;
    int done;
} target_solver;

void whet_target_start(target_solver *solver, const whet_policy *policy, const whet_stats *stats);
void whet_target_step(target_solver *solver, double z, double s, double q);

/*
 * How a beta is applied: returns the kernels' factor c = beta log2 e, kept
 * positive and finite (an inverse temperature of zero counts as almost none),
 * and notes beta in the statistics. Rounding c to f32 moves a probability p by
 * 6e-8 ln p relative, well inside what is promised.
 */
static inline float whet_beta_to_c(double beta) {
    double c = beta * 1.4426950408889634;
    if (!(c > 1e-30))
        c = 1e-30;
    if (c > 1e30)
        c = 1e30;
    return (float)c;
}
float whet_apply_beta(whet_stats *stats, double beta);

/* Entropy and largest probability after beta, from the sums z and s at that beta. */
void whet_stats_after(whet_stats *stats, double z, double s);

/* What a row with NaN or +inf among its logits reports. */
whet_stats whet_stats_not_finite(uint64_t n);

/* What a policy has to know before it can tell beta: nothing, the count of unmasked entries,
 * the entropy. */
bool whet_policy_is_constant(const whet_policy *policy);
bool whet_policy_needs_count(const whet_policy *policy);

/*
 * How a row's beta moves with its logits and with the numbers of its policy, for the way back.
 * With w = softmax(beta0 e) and m_w = sum w e,
 *
 *     d beta / d e_j = -factor w_j (e_j - m_w)
 *
 * Policies that look at the entropy have beta0 = 1, so that w is told by the row's z and s; target
 * has its own beta before strength and needs the variance of e under w too (others ignore it).
 * numbers is d beta / d each number of the policy. stats are the row's after whet_apply_beta. A
 * beta does not move where the row is empty or not finite, the policy is a map (or NULL), or a
 * threshold, floor, cap or bound decides; nor does target's at strength 0, where nothing is left
 * to tell its full beta by.
 */
typedef struct beta_path {
    double beta0;
    double factor;
    whet_policy_gradient numbers;
} beta_path;

double whet_beta_path_start(const whet_policy *policy, const whet_stats *stats); /* beta0 */
void whet_beta_path(const whet_policy *policy, const whet_stats *stats, double variance,
                    beta_path *path);

/* beta -> 1 + strength (beta - 1). */
double whet_policy_weaken(const whet_policy *policy, double beta);

#endif
