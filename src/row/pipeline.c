/*
 * Many rows of plain f32 at full speed. Computed one by one, a row's exponentials wait
 * for its maximum, its results for their sum, and the memory for both; here rows are
 * computed in batches, and the loop over one batch's exponentials also finds the next
 * batch's maxima and writes the last batch's results (see row_pass in isa/kernels.h). No
 * row waits for a result that was found only just before, and work that is done once per
 * row is done for a vector of rows.
 */
#include "row/pipeline.h"
#include "row/batch.h"
#include "row/rows.h"
#include "policy/beta.h"
#include "policy/registry.h"
#include <math.h>
#include <string.h>

/* A batch has up to this many entries: few enough that the first row is still near when the last
 * is done, enough that what is done once a batch does not count. */
#define BATCH_FLOATS ROW_BLOCK

bool whet_pipeline_takes(const whet_rows *rows, const row_job *job, bool stores) {
    return stores && rows->rows > 0 && rows->n > 0 && rows->n <= ROW_BLOCK &&
           rows->in_type == WHET_F32 && rows->out_type == WHET_F32 && !rows->mask && !rows->stats &&
           !rows->sink && !rows->beta && (job->map->traits & MAP_IS_SOFTMAX) &&
           !(job->temperature->needs & NEEDS_SEARCH);
}

typedef struct pipeline {
    /* exponentials of the last batch, overwritten by those of this one */
    _Alignas(64) float buffer[ROW_BLOCK + PASS_ROWS * ROW_PAD];
    row_pass pass;
    row_batch batch;
    size_t batch_rows;  /* rows in a batch but the last */
    size_t pending;     /* rows in the buffer, */
    float *pending_out; /* where the first of them goes */
} pipeline;

/* Writes row i of what is pending. */
static void write_row(const pipeline *p, size_t i) {
    p->batch.kernels->scale(p->buffer + i * p->pass.y_stride, p->pass.n, p->pass.factor[i],
                            p->pending_out + (ptrdiff_t)i * p->pass.out_stride);
}

static void flush(pipeline *p) {
    for (size_t i = 0; i < p->pending; i++)
        write_row(p, i);
    p->pending = 0;
}

/* One step over the batch, which also writes what is pending. */
static void run_pass(pipeline *p, float *y, const float *next) {
    if (p->pending > p->batch.count)
        flush(p);
    p->pass.row_count = p->batch.count;
    p->pass.y = y;
    p->pass.next = next;
    p->pass.last = p->pending ? p->buffer : NULL;
    p->pass.out = p->pending_out;
    p->batch.kernels->rows_pass(&p->pass);
    p->pending = 0;
}

/* Exp2 scales of the batch. */
static void choose_scales(pipeline *p) {
    bool constant = p->batch.constant_scale > 0;
    for (size_t i = 0; i < PASS_ROWS; i++)
        p->pass.exp2_scale[i] = constant ? p->batch.constant_scale : whet_exp2_scale(1.0);
    if (constant)
        return;
    if (p->batch.job->needs_sums)
        run_pass(p, NULL, NULL);
    whet_batch_choose(&p->batch, p->pass.max, p->pass.z, p->pass.s, p->pass.exp2_scale);
}

/* Exponentials of the batch, and the maxima of the next. Returns whether rows are special. */
static bool weigh(pipeline *p) {
    size_t after = p->batch.first + p->batch.count, left = p->batch.rows->rows - after;
    p->pass.next_row_count = left < p->batch.count ? left : p->batch.count;
    run_pass(p, p->buffer, left ? p->pass.x + (ptrdiff_t)p->batch.count * p->pass.stride : NULL);
    bool any = false;
    for (size_t i = 0; i < p->batch.count; i++) {
        p->batch.special[i] |= isnan(p->pass.total[i]);
        any |= p->batch.special[i];
        p->pass.factor[i] = 1 / p->pass.total[i];
        p->pass.max[i] = p->pass.next_max[i];
    }
    p->pending = p->batch.count;
    p->pending_out = whet_batch_out(&p->batch, 0);
    return any;
}

/* Writes the results of the batch except those of special rows, whose logits are still needed: the
 * result may share their memory. */
static void settle(pipeline *p, whet_status *status, size_t *first_bad_row) {
    for (size_t i = 0; i < p->batch.count; i++)
        if (!p->batch.special[i])
            write_row(p, i);
    p->pending = 0;
    whet_batch_finish_special(&p->batch, status, first_bad_row);
}

static size_t batch_rows(size_t n) {
    size_t row_count = BATCH_FLOATS / n;
    return row_count < 1 ? 1 : row_count > PASS_ROWS ? PASS_ROWS : row_count;
}

static void start(pipeline *p, const whet_rows *rows, const row_job *job) {
    p->batch = whet_batch_start(rows, job);
    p->batch_rows = batch_rows(rows->n);
    p->pending = 0;
    p->pending_out = NULL;
    p->pass = (row_pass){.n = rows->n,
                         .stride = rows->rows > 1 ? rows->in_stride : 0,
                         .y_stride = (rows->n + ROW_PAD - 1) / ROW_PAD * ROW_PAD,
                         .out_stride = rows->out_stride,
                         .nontemporal = whet_rows_are_nontemporal(rows),
                         .whole = 1};
    for (size_t i = 0; i < p->batch_rows && i < rows->rows; i++)
        p->pass.max[i] = p->batch.kernels->max(whet_batch_in(&p->batch, i), rows->n);
}

whet_status whet_pipeline_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    pipeline p;
    start(&p, rows, job);
    whet_status status = WHET_OK;
    for (size_t r = 0; r < rows->rows; r += p.batch_rows) {
        p.batch.first = r;
        p.batch.count = rows->rows - r < p.batch_rows ? rows->rows - r : p.batch_rows;
        p.pass.x = whet_batch_in(&p.batch, 0);
        whet_batch_check_max(&p.batch, p.pass.max);
        choose_scales(&p);
        if (weigh(&p))
            settle(&p, &status, first_bad_row);
    }
    flush(&p);
    if (p.pass.nontemporal)
        p.batch.kernels->nontemporal_end();
    return status;
}
