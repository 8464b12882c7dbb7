/*
 * whet_softmax and whet_entropy: checks the request, then computes the rows, in the loops
 * for many rows where these apply and in whet_one_row otherwise.
 */
#include "row/rows.h"
#include "base/last_error.h"
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

/* What a call reads or writes, for the check that statistics lie elsewhere. */
typedef struct named_range {
    const char *name;
    memory_range range;
} named_range;

static whet_status check_stats(const whet_rows *rows, const named_range *others, size_t count) {
    if (!rows->stats)
        return WHET_OK;
    size_t stride = rows->stats_stride ? rows->stats_stride : sizeof(whet_stats);
    if ((uintptr_t)rows->stats % _Alignof(whet_stats) != 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "stats is not aligned to whet_stats");
    if (stride < sizeof(whet_stats) || stride % _Alignof(whet_stats) != 0 || stride > PTRDIFF_MAX)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "stats_stride is %zu, not a multiple of %zu from %zu on", stride,
                           _Alignof(whet_stats), sizeof(whet_stats));
    memory_range range = range_at(rows->stats, sizeof(whet_stats));
    if (!range_extend(&range, rows->rows, (ptrdiff_t)stride))
        return whet_refuse(WHET_ERROR_OVERFLOW,
                           "stats spans more than the address range: %zu rows, stats_stride %zu",
                           rows->rows, stride);
    whet_status status = WHET_OK;
    for (size_t i = 0; status == WHET_OK && i < count; i++)
        status = check_apart("stats", range, others[i].name, others[i].range);
    return status;
}

/* The arrays of a request. */
typedef struct rows_arrays {
    rows_array in, out, mask;
} rows_arrays;

static rows_arrays arrays_of(const whet_rows *rows) {
    return (rows_arrays){.in = {rows->in, rows->in_type, rows->in_stride, "in"},
                         .out = {rows->out, rows->out_type, rows->out_stride, "out"},
                         .mask = {rows->mask, rows->mask_type, rows->mask_stride, "mask"}};
}

static rows_floats sink_of(const whet_rows *rows) {
    return (rows_floats){"sink", rows->sink, rows->sink_stride};
}

static rows_floats beta_of(const whet_rows *rows) { return (rows_floats){"beta", rows->beta, 1}; }

static whet_status check_types(const whet_rows *rows, const rows_arrays *arrays, bool stores) {
    whet_status status = check_array_type(arrays->in);
    if (status == WHET_OK)
        status = check_mask_type(arrays->mask);
    if (status == WHET_OK && stores)
        status = check_array_type(arrays->out);
    if (status == WHET_OK)
        status = check_floats_aligned(sink_of(rows));
    if (status == WHET_OK)
        status = check_floats_aligned(beta_of(rows));
    if (status == WHET_OK && rows->reserved)
        status = whet_refuse(WHET_ERROR_ARGUMENT, "reserved is %lu, not 0",
                             (unsigned long)rows->reserved);
    return status;
}

/* What is written may lie over what is read only row by row. */
static whet_status check_out(const whet_rows *rows, const rows_arrays *arrays, memory_range in,
                             memory_range mask, memory_range *out) {
    whet_status status = check_array_range(arrays->out, rows->rows, rows->n, out);
    if (status == WHET_OK)
        status = check_in_place(arrays->out, *out, arrays->in, in, rows->rows);
    if (status == WHET_OK)
        status = check_apart("out", *out, "mask", mask);
    if (status == WHET_OK)
        status = check_rows_apart(arrays->out, rows->rows, rows->n);
    return status;
}

/* Rows without entries: nothing but the statistics is written, and nothing but sinks is read. */
static whet_status check_empty_rows(const whet_rows *rows) {
    named_range sink = {.name = "sink"};
    whet_status status = check_floats_range(sink_of(rows), rows->rows, &sink.range);
    return status == WHET_OK ? check_stats(rows, &sink, 1) : status;
}

/* Everything about the request that can be wrong, before the first row is touched. */
static whet_status check_rows(const whet_rows *rows, bool stores) {
    memory_range in = {0, 0}, out = {0, 0}, mask = {0, 0}, sink, beta;
    rows_arrays arrays = arrays_of(rows);
    whet_status status = check_types(rows, &arrays, stores);
    if (status != WHET_OK || rows->rows == 0)
        return status;
    if (rows->n == 0)
        return check_empty_rows(rows);
    status = check_array_range(arrays.in, rows->rows, rows->n, &in);
    if (status == WHET_OK && rows->mask)
        status = check_array_range(arrays.mask, rows->rows, rows->n, &mask);
    if (status == WHET_OK && stores)
        status = check_out(rows, &arrays, in, mask, &out);
    if (status == WHET_OK)
        status = check_floats_range(sink_of(rows), rows->rows, &sink);
    if (status == WHET_OK)
        status = check_floats_range(beta_of(rows), rows->rows, &beta);
    if (status == WHET_OK)
        status = check_apart("out", out, "sink", sink);
    if (status == WHET_OK)
        status = check_apart("out", out, "beta", beta);
    if (status != WHET_OK)
        return status;
    const named_range others[] = {
        {"in", in}, {"out", out}, {"mask", mask}, {"sink", sink}, {"beta", beta}};
    return check_stats(rows, others, sizeof others / sizeof others[0]);
}

/* Rows of no entries: there may be any number of these, and in and out may be NULL. Their sinks are
 * looked at as those of rows in which everything is masked. */
static whet_status describe_nothing(const whet_rows *rows, size_t *first_bad_row) {
    whet_status status = WHET_OK;
    bool are_alike =
        !rows->sink || rows->sink_stride == 0; /* but for what goes to the statistics */
    size_t count = rows->stats || !are_alike ? rows->rows : rows->rows > 0;
    for (size_t r = 0; r < count; r++) {
        row_view view = {.n = 0};
        row_extras_at(&view, r, rows->sink, rows->sink_stride, NULL);
        whet_stats stats = extra_stats((double)view.sink);
        stats.position = row_position(rows->position, rows->position_stride, r);
        if (rows->stats)
            *stats_at(rows, r) = stats;
        if (stats.flags & WHET_ROW_NOT_FINITE)
            note_bad_row(r, &status, first_bad_row);
    }
    return status;
}

/* Outputs larger than this are written past the caches: they would not be found there anyway. */
#define NONTEMPORAL_BYTES ((size_t)8 << 20)

bool whet_rows_are_nontemporal(const whet_rows *rows) {
    size_t starts = (uintptr_t)rows->out | (size_t)rows->out_stride * sizeof(float);
    return rows->rows * rows->n * sizeof(float) >= NONTEMPORAL_BYTES &&
           (starts | rows->n * sizeof(float)) % LINE_BYTES == 0;
}

/* The last row's result is written last: until then its memory is free, unless it holds logits. */
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
    if (!request)
        return whet_refuse(WHET_ERROR_ARGUMENT, "rows is NULL");
    if (request->size != sizeof *request)
        return whet_refuse(WHET_ERROR_ARGUMENT, "size is %zu, but sizeof(whet_rows) is %zu",
                           request->size, sizeof *request);
    whet_policy plain;
    whet_status status = whet_check_row_policy(&policy, &plain, request->beta);
    if (status != WHET_OK)
        return status;

    whet_rows rows = *request;
    if (rows.n > PTRDIFF_MAX)
        return whet_refuse(WHET_ERROR_OVERFLOW, "n is %zu, more than memory can hold", rows.n);
    if (rows.in_stride == 0)
        rows.in_stride = (ptrdiff_t)rows.n;
    if (rows.out_stride == 0)
        rows.out_stride = (ptrdiff_t)rows.n;
    status = check_rows(&rows, stores);
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
    if (rows && rows->size == sizeof *rows && !rows->stats && rows->rows > 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "stats is NULL: whet_entropy returns nothing else");
    return run_rows(rows, policy, false, first_bad_row);
}
