/*
 * Many rows of plain f32 at full speed. Taken one by one, a row's exponentials
 * wait for its maximum, its results for their sum, and the memory for both;
 * here rows go in groups, and the loop over one group's exponentials also finds
 * the next group's maxima and writes the last group's results (see row_step in
 * isa/kernels.h). No row waits for what was found only just before, and what is
 * done once a row is done for a vector of rows.
 */
#include "row/group.h"
#include <math.h>
#include <string.h>

/* A group has up to this many entries: few enough that the first row is still near when the last
 * is done, enough that what is done once a group does not count. */
#define GROUP_FLOATS ROW_BLOCK

bool whet_pipeline_takes(const whet_rows *rows, const row_job *job, bool stores) {
    return stores && rows->rows > 0 && rows->n > 0 && rows->n <= ROW_BLOCK &&
           rows->in_type == WHET_F32 && rows->out_type == WHET_F32 && !rows->mask && !rows->stats &&
           whet_policy_is_temperature(job->policy) && job->policy->kind != WHET_POLICY_TARGET;
}

typedef struct pipeline {
    /* exponentials of the last group, whose place is taken by this one's as they are written */
    _Alignas(64) float buffer[ROW_BLOCK + STEP_ROWS * ROW_PAD];
    row_step step;
    row_group group;
    size_t group_rows;  /* rows in a group but the last */
    size_t pending;     /* rows in the buffer, */
    float *pending_out; /* where the first of them goes */
} pipeline;

/* Writes row i of what is pending. */
static void write_row(const pipeline *p, size_t i) {
    p->group.kernels->scale(p->buffer + i * p->step.y_stride, p->step.n, p->step.factor[i],
                            p->pending_out + (ptrdiff_t)i * p->step.out_stride);
}

static void flush(pipeline *p) {
    for (size_t i = 0; i < p->pending; i++)
        write_row(p, i);
    p->pending = 0;
}

/* One step over the group, which also writes what is pending. */
static void run_step(pipeline *p, float *y, const float *next) {
    if (p->pending > p->group.count)
        flush(p);
    p->step.rows = p->group.count;
    p->step.y = y;
    p->step.next = next;
    p->step.last = p->pending ? p->buffer : NULL;
    p->step.out = p->pending_out;
    p->group.kernels->step(&p->step);
    p->pending = 0;
}

/* c for the group. */
static void choose_c(pipeline *p) {
    bool constant = p->group.constant_c > 0;
    for (size_t i = 0; i < STEP_ROWS; i++)
        p->step.c[i] = constant ? p->group.constant_c : whet_beta_to_c(1.0);
    if (constant)
        return;
    if (p->group.job->needs_sums)
        run_step(p, NULL, NULL);
    whet_group_choose(&p->group, p->step.max, p->step.z, p->step.s, p->step.c);
}

/* Exponentials of the group, and the maxima of the next. Returns whether rows are odd. */
static bool weigh(pipeline *p) {
    size_t after = p->group.first + p->group.count, left = p->group.rows->rows - after;
    p->step.next_rows = left < p->group.count ? left : p->group.count;
    run_step(p, p->buffer, left ? p->step.x + (ptrdiff_t)p->group.count * p->step.stride : NULL);
    bool any = false;
    for (size_t i = 0; i < p->group.count; i++) {
        p->group.odd[i] |= isnan(p->step.total[i]);
        any |= p->group.odd[i];
        p->step.factor[i] = 1 / p->step.total[i];
        p->step.max[i] = p->step.next_max[i];
    }
    p->pending = p->group.count;
    p->pending_out = whet_group_out(&p->group, 0);
    return any;
}

/* Writes the group's results but those of odd rows, whose logits are still wanted as they came:
 * they may lie in the same place. */
static void settle(pipeline *p, whet_status *status, size_t *first_bad_row) {
    for (size_t i = 0; i < p->group.count; i++)
        if (!p->group.odd[i])
            write_row(p, i);
    p->pending = 0;
    whet_group_finish_odd(&p->group, status, first_bad_row);
}

static size_t group_rows(size_t n) {
    size_t group = GROUP_FLOATS / n;
    return group < 1 ? 1 : group > STEP_ROWS ? STEP_ROWS : group;
}

static void start(pipeline *p, const whet_rows *rows, const row_job *job) {
    p->group = whet_group_start(rows, job);
    p->group_rows = group_rows(rows->n);
    p->pending = 0;
    p->pending_out = NULL;
    p->step = (row_step){.n = rows->n,
                         .stride = rows->rows > 1 ? rows->in_stride : 0,
                         .y_stride = (rows->n + ROW_PAD - 1) / ROW_PAD * ROW_PAD,
                         .out_stride = rows->out_stride,
                         .stream = whet_rows_stream(rows),
                         .whole = 1};
    for (size_t i = 0; i < p->group_rows && i < rows->rows; i++)
        p->step.max[i] = p->group.kernels->max(whet_group_in(&p->group, i), rows->n);
}

whet_status whet_pipeline_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    pipeline p;
    start(&p, rows, job);
    whet_status status = WHET_OK;
    for (size_t r = 0; r < rows->rows; r += p.group_rows) {
        p.group.first = r;
        p.group.count = rows->rows - r < p.group_rows ? rows->rows - r : p.group_rows;
        p.step.x = whet_group_in(&p.group, 0);
        whet_group_check_max(&p.group, p.step.max);
        choose_c(&p);
        if (weigh(&p))
            settle(&p, &status, first_bad_row);
    }
    flush(&p);
    if (p.step.stream)
        p.group.kernels->stream_end();
    return status;
}
