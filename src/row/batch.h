/*
 * Some rows of a call that are computed at once, by pipeline.c or short_rows.c:
 * where they are, their betas, and what becomes of those that the fast loops do
 * not suit.
 */
#ifndef WHET_BATCH_H
#define WHET_BATCH_H

#include "row/one_row.h"

typedef struct row_batch {
    const whet_rows *rows;
    const row_job *job;
    const kernels *kernels;
    float constant_scale;    /* 0 where beta depends on the row */
    size_t first, count;     /* of the rows */
    bool special[LANES_MAX]; /* everything masked, or not finite: left to whet_one_row */
} row_batch;

/* A batch without rows yet; all rows of the call are plain f32. */
row_batch whet_batch_start(const whet_rows *rows, const row_job *job);

/* Where row i of the batch comes from and goes to. */
static inline const float *whet_batch_in(const row_batch *batch, size_t i) {
    return (const float *)batch->rows->in + (ptrdiff_t)(batch->first + i) * batch->rows->in_stride;
}

static inline float *whet_batch_out(const row_batch *batch, size_t i) {
    return (float *)batch->rows->out + (ptrdiff_t)(batch->first + i) * batch->rows->out_stride;
}

/* Marks rows whose maximum is infinite as special and makes it 0. */
void whet_batch_check_max(row_batch *batch, float *max);

/*
 * The exp2 scale of each row, where it is not constant, from the maxima and, if the job needs
 * them, the sums at beta = 1. A row without a beta is marked as special and gets 1. Arrays are
 * padded to ROW_PAD.
 */
void whet_batch_choose(row_batch *batch, const float *max, const float *z, const float *s,
                       float *scale);

/* Computes the special rows one by one; notes the first that is not finite. */
void whet_batch_finish_special(const row_batch *batch, whet_status *status, size_t *first_bad_row);

#endif
