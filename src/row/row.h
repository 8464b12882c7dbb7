/*
 * What the files of src/row share: access to one row of logits block by block
 * whatever its element type and mask, the statistics' arithmetic, and the
 * solver behind the policy `target`. Rows are never copied as a whole and
 * nothing is allocated: passes over a row convert a block at a time into a
 * buffer on the stack, and f32 rows without a mask are read where they lie.
 */
#ifndef WHET_ROW_H
#define WHET_ROW_H

#include "isa/kernels.h"
#include "whet.h"
#include <stdbool.h>

/* Floats in a block: small enough that a block and its result stay in the first-level cache. */
#define ROW_BLOCK 4096

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

/* What a call wants of its rows. */
typedef struct row_job {
    const whet_policy *policy;
    bool wants_stats;
    bool needs_count; /* of unmasked entries, before beta can be told */
    bool needs_sums;  /* Z and S */
} row_job;

/* One row from logits to result; *stats is set as far as the job needs it, its flags always. */
void whet_one_row(const row_view *row, const row_job *job, whet_stats *stats);

/* A step that stores exponentials, y not x. Where one entry has all the weight, they are taken
 * again by differences, so that their unit is 1 and that entry's probability exactly 1. */
static inline void whet_step_weights(const kernels *k, row_step *step) {
    k->step(step);
    if (step->total == step->unit) {
        step->total = k->exp_store(step->x, step->n, step->max, step->c, step->y);
        step->unit = 1;
    }
}

/* Many rows, or long ones, of plain f32: see pipeline.c. */
bool whet_pipeline_takes(const whet_rows *rows, const row_job *job, bool stores);
whet_status whet_pipeline_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

/* Fills logsumexp and entropy from n, max, z and s; resets beta and what follows. */
void whet_stats_complete(whet_stats *stats);

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
float whet_beta_to_c(double beta);
float whet_apply_beta(whet_stats *stats, double beta);

/* Entropy and largest probability after beta, from the sums z and s at that beta. */
void whet_stats_after(whet_stats *stats, double z, double s);

/* What a row with NaN or +inf among its logits reports. */
whet_stats whet_stats_not_finite(uint64_t n);

/* What a policy has to know before it can tell beta: nothing, the count of unmasked entries,
 * the entropy. */
bool whet_policy_is_constant(const whet_policy *policy);
bool whet_policy_needs_count(const whet_policy *policy);

/* beta -> 1 + strength (beta - 1). */
double whet_policy_weaken(const whet_policy *policy, double beta);

#endif
