/*
 * Many rows that are not plain f32, or have a mask: some at a time are converted
 * to f32 and go through the loops for plain rows (short_rows.c, pipeline.c),
 * then to where and what they shall be. A narrow result is thus the f32 one
 * rounded, however many rows there are.
 */
#include "row/staged.h"
#include "row/checks.h"
#include "row/pipeline.h"
#include "row/rows.h"
#include <string.h>

bool whet_staged_take(const whet_rows *rows, const row_job *job, bool stores) {
    whet_rows staged = {.rows = rows->rows,
                        .n = rows->n,
                        .stats = rows->stats,
                        .sink = rows->sink,
                        .beta = rows->beta};
    return rows->n <= ROW_BLOCK / 2 && whet_pipeline_takes(&staged, job, stores);
}

/* Some rows of the request, one after the other or, if there are no gaps between them, as one. */
typedef struct stage_rows {
    const whet_rows *rows;
    size_t first, count;
    float *stage;
} stage_rows;

static bool is_one(const whet_rows *rows, ptrdiff_t stride) { return stride == (ptrdiff_t)rows->n; }

static void load(const stage_rows *s) {
    const whet_rows *rows = s->rows;
    bool one = is_one(rows, rows->in_stride) && (!rows->mask || is_one(rows, rows->mask_stride));
    size_t times = one ? 1 : s->count, n = one ? s->count * rows->n : rows->n;
    row_view view = {
        .kernels = whet_kernels_get(), .in_type = rows->in_type, .mask_type = rows->mask_type};
    for (size_t i = 0; i < times; i++) {
        view.in = (const char *)rows->in + row_offset(rows->in_type, rows->in_stride, s->first + i);
        if (rows->mask)
            view.mask = (const char *)rows->mask +
                        row_offset(rows->mask_type, rows->mask_stride, s->first + i);
        float *to = s->stage + i * rows->n;
        const float *from = whet_row_load(&view, 0, n, to);
        if (from != to)
            memcpy(to, from, n * sizeof *to);
    }
}

static void store(const stage_rows *s) {
    const whet_rows *rows = s->rows;
    bool one = is_one(rows, rows->out_stride);
    size_t times = one ? 1 : s->count, n = one ? s->count * rows->n : rows->n;
    row_view view = {.kernels = whet_kernels_get(), .out_type = rows->out_type};
    for (size_t i = 0; i < times; i++) {
        view.out = (char *)rows->out + row_offset(rows->out_type, rows->out_stride, s->first + i);
        whet_row_store(&view, 0, n, s->stage + i * rows->n);
    }
}

whet_status whet_staged_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    _Alignas(64) float stage[ROW_BLOCK];
    const size_t at_once = ROW_BLOCK / rows->n;
    const ptrdiff_t stride = (ptrdiff_t)rows->n;
    whet_status status = WHET_OK;
    for (size_t first = 0; first < rows->rows; first += at_once) {
        size_t count = rows->rows - first < at_once ? rows->rows - first : at_once, bad = 0;
        whet_rows plain = {.size = sizeof plain,
                           .rows = count,
                           .n = rows->n,
                           .in = stage,
                           .in_stride = stride,
                           .out = stage,
                           .out_stride = stride,
                           .position = row_position(rows->position, rows->position_stride, first),
                           .position_stride = rows->position_stride};
        stage_rows s = {rows, first, count, stage};
        load(&s);
        if (whet_plain_rows(&plain, job, &bad) == WHET_NOT_FINITE)
            note_bad_row(first + bad, &status, first_bad_row);
        store(&s);
    }
    return status;
}
