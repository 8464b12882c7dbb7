/*
 * Many rows of plain f32 at full speed. Taken one by one, a row's exponentials
 * wait for its maximum, its results for their sum, and the memory for both;
 * here the loop over one row's exponentials also finds the next row's maximum
 * and writes the last row's results (see row_step in isa/kernels.h).
 */
#include "row/row.h"
#include <math.h>

/* Outputs larger than this are written past the caches: they would not be found there anyway. */
#define STREAM_BYTES ((size_t)8 << 20)

bool whet_pipeline_takes(const whet_rows *rows, const row_job *job, bool stores) {
    return stores && rows->rows > 0 && rows->n > 0 && rows->n <= ROW_BLOCK &&
           rows->in_type == WHET_F32 && rows->out_type == WHET_F32 && !rows->mask && !rows->stats &&
           whet_policy_is_temperature(job->policy) && job->policy->kind != WHET_POLICY_TARGET;
}

typedef struct pipeline {
    const whet_rows *rows;
    const row_job *job;
    const kernels *kernels;
    /* exponentials of the row before, not written yet; two buffers take turns, and lie apart by
     * an odd number of cache lines: at the same place in a page, they would get into each
     * other's way */
    _Alignas(64) float buffer[2][ROW_BLOCK + 17 * 16];
    const float *last;
    float factor;
    float *out;
    int stream;
    float constant_c; /* 0 where c depends on the row */
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

/* c from the sums of a row at beta = 1 (or from nothing, if they are not needed); 0 for NaN. */
static float choose_c(const pipeline *p, const float *x, float max, row_sums sums) {
    if (p->constant_c > 0)
        return p->constant_c;
    whet_stats stats = {.max = (double)max, .n = 1};
    if (p->job->needs_count)
        stats.n = p->kernels->count(x, p->rows->n);
    if (p->job->needs_sums) {
        stats.z = sums.z;
        stats.s = sums.s;
        whet_stats_complete(&stats);
    }
    double beta = whet_policy_beta(p->job->policy, &stats);
    return isnan(beta) ? 0 : whet_beta_to_c(beta);
}

/* A row whose maximum is infinite: everything masked, or not finite. */
static bool odd_row(pipeline *p, size_t r) {
    row_view view = view_of(p, r);
    whet_stats stats;
    flush(p);
    whet_one_row(&view, p->job, &stats);
    return !(stats.flags & WHET_ROW_NOT_FINITE);
}

/* One row of the pipeline with its maximum known; finds the next row's. False: not finite. */
static bool short_row(pipeline *p, size_t r, float max, float *next_max) {
    const float *x = in_row(p, r), *next = r + 1 < p->rows->rows ? in_row(p, r + 1) : NULL;
    row_step step = {.x = x,
                     .n = p->rows->n,
                     .max = max,
                     .c = whet_beta_to_c(1.0),
                     .last = p->last,
                     .factor = p->factor,
                     .out = p->out,
                     .stream = p->stream};
    if (p->job->needs_sums) {
        p->kernels->step(&step);
        step.last = NULL;
    }
    step.c = choose_c(p, x, max, step.sums);
    step.y = p->buffer[r & 1];
    step.next = next;
    bool finite = step.c > 0;
    if (!finite)
        step.c = 1;
    p->kernels->step(&step);
    if (next)
        *next_max = step.next_max;
    p->last = NULL;
    if (!finite || isnan(step.sums.z)) {
        row_view view = view_of(p, r);
        whet_row_fill(&view, NAN);
        return false;
    }
    p->last = step.y;
    p->factor = (float)(1.0 / (step.sums.z * step.unit));
    p->out = out_row(p, r);
    return true;
}

whet_status whet_pipeline_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    pipeline p;
    p.rows = rows;
    p.job = job;
    p.kernels = whet_kernels_get();
    p.last = NULL;
    p.out = NULL;
    p.factor = 0;
    p.stream = rows->rows * rows->n * sizeof(float) >= STREAM_BYTES;
    p.constant_c = 0;
    if (whet_policy_is_constant(job->policy))
        p.constant_c = whet_beta_to_c(whet_policy_beta(job->policy, &(whet_stats){.n = 1}));
    float max = p.kernels->max(in_row(&p, 0), rows->n);
    whet_status status = WHET_OK;
    for (size_t r = 0; r < rows->rows; r++) {
        bool good, last = r + 1 == rows->rows;
        float next_max = 0;
        if (isinf(max)) {
            good = odd_row(&p, r);
            next_max = last ? 0 : p.kernels->max(in_row(&p, r + 1), rows->n);
        } else {
            good = short_row(&p, r, max, &next_max);
        }
        max = next_max;
        if (!good && status == WHET_OK) {
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
