/*
 * Some rows of a request that are taken together, by pipeline.c or short_rows.c:
 * where they lie, their betas, and what becomes of those that the fast way does
 * not suit.
 */
#ifndef WHET_GROUP_H
#define WHET_GROUP_H

#include "row/row.h"

typedef struct row_group {
    const whet_rows *rows;
    const row_job *job;
    const kernels *kernels;
    float constant_c;    /* 0 where c depends on the row */
    size_t first, count; /* of the rows */
    bool odd[LANES_MAX]; /* everything masked, or not finite: left to whet_one_row */
} row_group;

/* A group without rows as yet; all of the request's are plain f32. */
row_group whet_group_start(const whet_rows *rows, const row_job *job);

/* Where row i of the group comes from and goes to. */
static inline const float *whet_group_in(const row_group *group, size_t i) {
    return (const float *)group->rows->in + (ptrdiff_t)(group->first + i) * group->rows->in_stride;
}

static inline float *whet_group_out(const row_group *group, size_t i) {
    return (float *)group->rows->out + (ptrdiff_t)(group->first + i) * group->rows->out_stride;
}

/* Marks rows whose maximum is infinite as odd and makes it 0. */
void whet_group_check_max(row_group *group, float *max);

/*
 * c of each row, where it is not constant, from the maxima and, if the job needs them, the sums at
 * beta = 1. A row without a beta is marked as odd and gets 1. Arrays are padded to ROW_PAD.
 */
void whet_group_choose(row_group *group, const float *max, const float *z, const float *s,
                       float *c);

/* Takes the odd rows by themselves; notes the first that is not finite. */
void whet_group_finish_odd(const row_group *group, whet_status *status, size_t *first_bad_row);

#endif
