/*
 * Many rows of plain f32 at full speed. Taken one by one, a row's exponentials
 * wait for its maximum, its results for their sum, and the memory for both;
 * here the loop over one row's exponentials also finds a later row's maximum
 * and writes the last row's results (see row_step in isa/kernels.h). Short rows
 * go in groups: first all their statistics, then every beta, then all their
 * results, so that no row waits for what was found only just before.
 */
#include "row/row.h"
#include <math.h>
#include <string.h>

/* Outputs larger than this are written past the caches: they would not be found there anyway. */
#define STREAM_BYTES ((size_t)8 << 20)
#define LINE_BYTES 64

/* Rows to a group: few enough that the first is still at hand when the last is done. */
#define GROUP_ROWS_MAX 16
#define GROUP_FLOATS 4096

bool whet_pipeline_takes(const whet_rows *rows, const row_job *job, bool stores) {
    return stores && rows->rows > 0 && rows->n > 0 && rows->n <= ROW_BLOCK &&
           rows->in_type == WHET_F32 && rows->out_type == WHET_F32 && !rows->mask && !rows->stats &&
           whet_policy_is_temperature(job->policy) && job->policy->kind != WHET_POLICY_TARGET;
}

typedef struct pipeline {
    /* exponentials of the row before, not written yet; two buffers take turns, and lie apart by
     * an odd number of cache lines: at the same place in a page, they would get into each
     * other's way */
    _Alignas(64) float buffer[2][ROW_BLOCK + 17 * 16];
    const whet_rows *rows;
    const row_job *job;
    const kernels *kernels;
    const float *last;
    float factor;
    float *out;
    int stream;
    float constant_c; /* 0 where c depends on the row */
    size_t group;     /* rows taken together, and what is known of each: */
    float max[GROUP_ROWS_MAX];
    float c[GROUP_ROWS_MAX]; /* 0 for NaN */
    row_sums sums[GROUP_ROWS_MAX];
} pipeline;

static const float *in_row(const pipeline *p, size_t r) {
    return (const float *)p->rows->in + (ptrdiff_t)r * p->rows->in_stride;
}

static float *out_row(const pipeline *p, size_t r) {
    return (float *)p->rows->out + (ptrdiff_t)r * p->rows->out_stride;
}

static row_view view_of(const pipeline *p, size_t r) {
    return (row_view){
        .kernels = p->kernels, .n = p->rows->n, .in = in_row(p, r), .out = out_row(p, r)};
}

/* Writes what is still pending. */
static void flush(pipeline *p) {
    if (p->last)
        p->kernels->scale(p->last, p->rows->n, p->factor, p->out);
    p->last = NULL;
}

float whet_constant_c(const whet_policy *policy) {
    if (!whet_policy_is_constant(policy))
        return 0;
    return whet_beta_to_c(whet_policy_beta(policy, &(whet_stats){.n = 1}));
}

float whet_row_c(const row_job *job, const row_view *row, float max, row_sums sums) {
    whet_stats stats = {.max = (double)max, .n = 1};
    if (job->needs_count)
        stats.n = row->kernels->count(row->in, row->n);
    if (job->needs_sums) {
        stats.z = sums.z;
        stats.s = sums.s;
        whet_stats_complete(&stats);
    }
    double beta = whet_policy_beta(job->policy, &stats);
    return isnan(beta) ? 0 : whet_beta_to_c(beta);
}

/* The same, known beforehand for some policies. */
static float choose_c(const pipeline *p, size_t r, float max, row_sums sums) {
    row_view view = view_of(p, r);
    return p->constant_c > 0 ? p->constant_c : whet_row_c(p->job, &view, max, sums);
}

/* A row whose maximum is infinite: everything masked, or not finite. */
static bool odd_row(pipeline *p, size_t r) {
    row_view view = view_of(p, r);
    whet_stats stats;
    flush(p);
    whet_one_row(&view, p->job, &stats);
    return !(stats.flags & WHET_ROW_NOT_FINITE);
}

/* A step of row r, which also writes what is pending. */
static row_step step_of(pipeline *p, size_t r, float max) {
    row_step step = {.x = in_row(p, r),
                     .n = p->rows->n,
                     .max = max,
                     .c = whet_beta_to_c(1.0),
                     .last = p->last,
                     .factor = p->factor,
                     .out = p->out,
                     .stream = p->stream};
    p->last = NULL;
    return step;
}

/* c for a group of rows. */
static void choose_group(pipeline *p, size_t first, size_t count) {
    for (size_t i = 0; p->job->needs_sums && i < count; i++) {
        if (isinf(p->max[i]))
            continue;
        row_step step = step_of(p, first + i, p->max[i]);
        p->kernels->step(&step);
        p->sums[i] = step.sums;
    }
    for (size_t i = 0; i < count; i++)
        if (!isinf(p->max[i]))
            p->c[i] = choose_c(p, first + i, p->max[i], p->sums[i]);
}

/* Row r, number i of its group; finds the maximum of the next group's row i. False: not finite. */
static bool finish_row(pipeline *p, size_t r, size_t i) {
    const float *next = p->rows->rows - r > p->group ? in_row(p, r + p->group) : NULL;
    float max = p->max[i];
    if (isinf(max)) {
        if (next)
            p->max[i] = p->kernels->max(next, p->rows->n);
        return odd_row(p, r);
    }
    row_step step = step_of(p, r, max);
    bool finite = p->c[i] > 0;
    step.c = finite ? p->c[i] : 1;
    step.y = p->buffer[r & 1];
    step.next = next;
    whet_step_weights(p->kernels, &step);
    if (next)
        p->max[i] = step.next_max;
    if (!finite || isnan(step.total)) {
        row_view view = view_of(p, r);
        whet_row_fill(&view, NAN);
        return false;
    }
    p->last = step.y;
    p->factor = (float)(1.0 / step.total);
    p->out = out_row(p, r);
    return true;
}

static size_t group_rows(size_t n) {
    size_t group = GROUP_FLOATS / n;
    return group < 1 ? 1 : group > GROUP_ROWS_MAX ? GROUP_ROWS_MAX : group;
}

/* Whether results go past the caches: large outputs, of rows that are whole lines. A line that is
 * written in part past the caches and in part through them goes to memory and back in between. */
static bool streams(const whet_rows *rows) {
    size_t starts = (uintptr_t)rows->out | (size_t)rows->out_stride * sizeof(float);
    return rows->rows * rows->n * sizeof(float) >= STREAM_BYTES &&
           (starts | rows->n * sizeof(float)) % LINE_BYTES == 0;
}

whet_status whet_pipeline_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    pipeline p;
    p.rows = rows;
    p.job = job;
    p.kernels = whet_kernels_get();
    p.last = NULL;
    p.out = NULL;
    p.factor = 0;
    p.stream = streams(rows);
    p.group = group_rows(rows->n);
    p.constant_c = whet_constant_c(job->policy);
    for (size_t i = 0; i < p.group && i < rows->rows; i++)
        p.max[i] = p.kernels->max(in_row(&p, i), rows->n);
    memset(p.c, 0, sizeof p.c);
    memset(p.sums, 0, sizeof p.sums);
    whet_status status = WHET_OK;
    for (size_t r = 0; r < rows->rows; r++) {
        size_t i = r % p.group, left = rows->rows - r;
        if (i == 0)
            choose_group(&p, r, left < p.group ? left : p.group);
        if (!finish_row(&p, r, i) && status == WHET_OK) {
            status = WHET_NOT_FINITE;
            if (first_bad_row)
                *first_bad_row = r;
        }
    }
    flush(&p);
    if (p.stream)
        p.kernels->stream_end();
    return status;
}
