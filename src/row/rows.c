/*
 * whet_softmax and whet_entropy: checks the request, then takes row after row,
 * through the loops for many rows where these fit and through whet_one_row otherwise.
 */
#include "row/rows.h"
#include "policy/beta.h"
#include "row/checks.h"
#include "row/extra_logits.h"
#include "row/pipeline.h"
#include "row/short_rows.h"
#include "row/staged.h"
#include "row/stats.h"

static whet_stats *stats_at(const whet_rows *rows, size_t row) {
    size_t stride = rows->stats_stride ? rows->stats_stride : sizeof(whet_stats);
    return (whet_stats *)(void *)((char *)rows->stats + row * stride);
}

static whet_status check_stats(const whet_rows *rows, const memory_range *others, size_t count) {
    if (!rows->stats)
        return WHET_OK;
    size_t stride = rows->stats_stride ? rows->stats_stride : sizeof(whet_stats);
    if ((uintptr_t)rows->stats % _Alignof(whet_stats) != 0 || stride < sizeof(whet_stats) ||
        stride % _Alignof(whet_stats) != 0 || stride > PTRDIFF_MAX)
        return WHET_ERROR_ARGUMENT;
    memory_range range = range_at(rows->stats, sizeof(whet_stats));
    if (!range_extend(&range, rows->rows, (ptrdiff_t)stride))
        return WHET_ERROR_OVERFLOW;
    for (size_t i = 0; i < count; i++)
        if (range_overlap(range, others[i]))
            return WHET_ERROR_OVERLAP;
    return WHET_OK;
}

/* The arrays of a request. */
typedef struct rows_arrays {
    rows_array in, out, mask;
} rows_arrays;

static rows_arrays arrays_of(const whet_rows *rows) {
    return (rows_arrays){.in = {rows->in, rows->in_type, rows->in_stride},
                         .out = {rows->out, rows->out_type, rows->out_stride},
                         .mask = {rows->mask, rows->mask_type, rows->mask_stride}};
}

/* Everything about the request that can be wrong, before the first row is touched. */
static whet_status check_rows(const whet_rows *rows, bool stores) {
    memory_range in, out = {0, 0}, mask = {0, 0};
    rows_arrays arrays = arrays_of(rows);
    if (!array_type_is_sound(arrays.in) || !mask_type_is_sound(arrays.mask) ||
        (stores && !array_type_is_sound(arrays.out)) || rows->reserved ||
        !floats_are_aligned(rows->sink) || !floats_are_aligned(rows->beta))
        return WHET_ERROR_ARGUMENT;
    if (rows->rows == 0)
        return WHET_OK;
    memory_range given[2];
    if (rows->n == 0) {
        bool fits = !rows->stats || floats_range(rows->sink, rows->sink_stride, rows->rows, given);
        return fits ? check_stats(rows, given, rows->stats != NULL) : WHET_ERROR_OVERFLOW;
    }
    if (!rows->in || (stores && !rows->out))
        return WHET_ERROR_ARGUMENT;
    if (!array_range(arrays.in, rows->rows, rows->n, &in))
        return WHET_ERROR_OVERFLOW;
    if (rows->mask && !array_range(arrays.mask, rows->rows, rows->n, &mask))
        return WHET_ERROR_OVERFLOW;
    if (stores) {
        if (!array_range(arrays.out, rows->rows, rows->n, &out))
            return WHET_ERROR_OVERFLOW;
        bool in_place = array_same(arrays.in, arrays.out, rows->rows);
        if ((range_overlap(in, out) && !in_place) || range_overlap(mask, out))
            return WHET_ERROR_OVERLAP;
        if (array_collides(arrays.out, rows->rows, rows->n))
            return WHET_ERROR_OVERLAP;
    }
    if (!floats_range(rows->sink, rows->sink_stride, rows->rows, &given[0]) ||
        !floats_range(rows->beta, 1, rows->rows, &given[1]))
        return WHET_ERROR_OVERFLOW;
    if (range_overlap(out, given[0]) || range_overlap(out, given[1]))
        return WHET_ERROR_OVERLAP;
    memory_range others[] = {in, out, mask, given[0], given[1]};
    return check_stats(rows, others, sizeof others / sizeof others[0]);
}

/* Rows of no entries: there may be any number of these, and in and out may be NULL. */
static whet_status describe_nothing(const whet_rows *rows, size_t *first_bad_row) {
    whet_status status = WHET_OK;
    for (size_t r = 0; rows->stats && r < rows->rows; r++) {
        whet_stats *stats = stats_at(rows, r);
        row_view view = {.n = 0};
        row_extras_at(&view, r, rows->sink, rows->sink_stride, NULL);
        *stats = extra_stats((double)view.sink);
        stats->position = row_position(rows->position, rows->position_stride, r);
        if (stats->flags & WHET_ROW_NOT_FINITE)
            note_bad_row(r, &status, first_bad_row);
    }
    return status;
}

/* Outputs larger than this are written past the caches: they would not be found there anyway. */
#define NONTEMPORAL_BYTES ((size_t)8 << 20)
#define LINE_BYTES 64

bool whet_rows_are_nontemporal(const whet_rows *rows) {
    size_t starts = (uintptr_t)rows->out | (size_t)rows->out_stride * sizeof(float);
    return rows->rows * rows->n * sizeof(float) >= NONTEMPORAL_BYTES &&
           (starts | rows->n * sizeof(float)) % LINE_BYTES == 0;
}

/* The last row's result is the last to be written: until then its place can be spared, but for
 * logits that lie there. */
static row_pending start_pending(const whet_rows *rows, bool stores) {
    row_pending pending = {.out = NULL};
    if (!stores || rows->out_type != WHET_F32 || rows->in == rows->out ||
        !whet_rows_are_nontemporal(rows))
        return pending;
    pending.spare = (float *)rows->out + (ptrdiff_t)(rows->rows - 1) * rows->out_stride;
    pending.nontemporal = 1;
    return pending;
}

whet_status whet_plain_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    return rows->n <= SHORT_MAX ? whet_short_rows(rows, job, first_bad_row)
                                : whet_pipeline_rows(rows, job, first_bad_row);
}

static whet_status run_rows(const whet_rows *request, const whet_policy *policy, bool stores,
                            size_t *first_bad_row) {
    if (!request || request->size != sizeof *request)
        return WHET_ERROR_ARGUMENT;
    whet_policy plain;
    if (!policy_is_sound(&policy, &plain))
        return WHET_ERROR_POLICY;
    if (request->beta && !whet_beta_is_one(policy))
        return WHET_ERROR_ARGUMENT;

    whet_rows rows = *request;
    if (rows.n > PTRDIFF_MAX)
        return WHET_ERROR_OVERFLOW;
    if (rows.in_stride == 0)
        rows.in_stride = (ptrdiff_t)rows.n;
    if (rows.out_stride == 0)
        rows.out_stride = (ptrdiff_t)rows.n;
    whet_status status = check_rows(&rows, stores);
    if (status != WHET_OK)
        return status;

    if (rows.n == 0)
        return describe_nothing(&rows, first_bad_row);
    row_job job = whet_row_plan(policy, rows.stats != NULL);
    row_view view = {.kernels = whet_kernels_get(),
                     .n = rows.n,
                     .in_type = rows.in_type,
                     .mask_type = rows.mask_type,
                     .out_type = rows.out_type};
    if (whet_pipeline_takes(&rows, &job, stores))
        return whet_plain_rows(&rows, &job, first_bad_row);
    if (whet_staged_take(&rows, &job, stores))
        return whet_staged_rows(&rows, &job, first_bad_row);
    rows_arrays arrays = arrays_of(&rows);
    row_pending pending = start_pending(&rows, stores);
    if (rows.n > ROW_BLOCK)
        view.pending = &pending;
    for (size_t r = 0; r < rows.rows; r++) {
        whet_stats stats;
        view.in = row_at(arrays.in, r);
        if (rows.mask)
            view.mask = row_at(arrays.mask, r);
        if (stores)
            view.out = (char *)rows.out + row_offset(rows.out_type, rows.out_stride, r);
        row_extras_at(&view, r, rows.sink, rows.sink_stride, rows.beta);
        view.position = row_position(rows.position, rows.position_stride, r);
        whet_one_row(&view, &job, &stats);
        if (rows.stats)
            *stats_at(&rows, r) = stats;
        if (stats.flags & WHET_ROW_NOT_FINITE)
            note_bad_row(r, &status, first_bad_row);
    }
    if (view.pending)
        whet_row_flush(&view);
    return status;
}

whet_status whet_softmax(const whet_rows *rows, const whet_policy *policy, size_t *first_bad_row) {
    return run_rows(rows, policy, true, first_bad_row);
}

whet_status whet_entropy(const whet_rows *rows, const whet_policy *policy, size_t *first_bad_row) {
    if (rows && !rows->stats && rows->rows > 0)
        return WHET_ERROR_ARGUMENT;
    return run_rows(rows, policy, false, first_bad_row);
}
