/*
 * whet_softmax and whet_entropy: checks the request, then takes row after row,
 * through the pipeline where that fits and through whet_one_row otherwise.
 */
#include "base/checked.h"
#include "base/types.h"
#include "row/row.h"

static whet_stats *stats_at(const whet_rows *rows, size_t row) {
    size_t stride = rows->stats_stride ? rows->stats_stride : sizeof(whet_stats);
    return (whet_stats *)(void *)((char *)rows->stats + row * stride);
}

static row_job plan_job(const whet_rows *rows, const whet_policy *policy) {
    bool temperature = whet_policy_is_temperature(policy);
    bool by_length = whet_policy_needs_count(policy) && policy->kind != WHET_POLICY_CUSTOM;
    row_job job = {.policy = policy, .wants_stats = rows->stats != NULL};
    job.needs_count = job.wants_stats || !temperature || whet_policy_needs_count(policy);
    job.needs_sums =
        job.wants_stats || !temperature || !(whet_policy_is_constant(policy) || by_length);
    return job;
}

/* Where an array of rows lies; false if its size leaves the address range. */
static bool rows_range(const void *base, whet_type type, size_t rows, size_t n, ptrdiff_t stride,
                       memory_range *range) {
    size_t bytes, size = type_bytes(type);
    ptrdiff_t step;
    if (!size_multiply(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return false;
    if (__builtin_mul_overflow(stride, (ptrdiff_t)size, &step))
        return false;
    *range = range_at(base, bytes);
    return range->high >= range->low && range_extend(range, rows, step);
}

static bool rows_collide(size_t rows, size_t n, ptrdiff_t stride) {
    size_t distance = stride < 0 ? (size_t)0 - (size_t)stride : (size_t)stride;
    return rows > 1 && distance < n;
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

static bool is_aligned(const void *base, whet_type type) {
    return (uintptr_t)base % type_bytes(type) == 0;
}

static whet_status check_types(const whet_rows *rows, bool stores) {
    if (rows->in_type > WHET_BF16 || (stores && rows->out_type > WHET_BF16))
        return WHET_ERROR_ARGUMENT;
    if ((rows->mask && rows->mask_type > WHET_F16) || rows->reserved)
        return WHET_ERROR_ARGUMENT;
    bool aligned = is_aligned(rows->in, rows->in_type) &&
                   (!stores || is_aligned(rows->out, rows->out_type)) &&
                   (!rows->mask || is_aligned(rows->mask, rows->mask_type));
    return aligned ? WHET_OK : WHET_ERROR_ARGUMENT;
}

/* Everything about the request that can be wrong, before the first row is touched. */
static whet_status check_rows(const whet_rows *rows, bool stores) {
    memory_range in, out = {0, 0}, mask = {0, 0};
    if (check_types(rows, stores) != WHET_OK)
        return WHET_ERROR_ARGUMENT;
    if (rows->rows == 0)
        return WHET_OK;
    if (rows->n == 0)
        return check_stats(rows, NULL, 0);
    if (!rows->in || (stores && !rows->out))
        return WHET_ERROR_ARGUMENT;
    if (!rows_range(rows->in, rows->in_type, rows->rows, rows->n, rows->in_stride, &in))
        return WHET_ERROR_OVERFLOW;
    if (rows->mask &&
        !rows_range(rows->mask, rows->mask_type, rows->rows, rows->n, rows->mask_stride, &mask))
        return WHET_ERROR_OVERFLOW;
    if (stores) {
        if (!rows_range(rows->out, rows->out_type, rows->rows, rows->n, rows->out_stride, &out))
            return WHET_ERROR_OVERFLOW;
        bool in_place = rows->in == rows->out && rows->in_type == rows->out_type &&
                        (rows->in_stride == rows->out_stride || rows->rows == 1);
        if ((range_overlap(in, out) && !in_place) || range_overlap(mask, out))
            return WHET_ERROR_OVERLAP;
        if (rows_collide(rows->rows, rows->n, rows->out_stride))
            return WHET_ERROR_OVERLAP;
    }
    memory_range others[] = {in, out, mask};
    return check_stats(rows, others, 3);
}

static const void *row_at(const void *base, whet_type type, ptrdiff_t stride, size_t row) {
    return (const char *)base + (ptrdiff_t)row * stride * (ptrdiff_t)type_bytes(type);
}

static whet_status run_rows(const whet_rows *request, const whet_policy *policy, bool stores,
                            size_t *first_bad_row) {
    if (!request || request->size != sizeof *request)
        return WHET_ERROR_ARGUMENT;
    whet_policy plain = whet_policy_softmax();
    if (!policy)
        policy = &plain;
    if (whet_policy_check(policy, NULL, 0) != WHET_OK)
        return WHET_ERROR_POLICY;

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

    if (rows.n == 0) { /* there may be any number of these, and in and out may be NULL */
        for (size_t r = 0; rows.stats && r < rows.rows; r++)
            *stats_at(&rows, r) = whet_stats_empty();
        return WHET_OK;
    }
    row_job job = plan_job(&rows, policy);
    row_view view = {.kernels = whet_kernels_get(),
                     .n = rows.n,
                     .in_type = rows.in_type,
                     .mask_type = rows.mask_type,
                     .out_type = rows.out_type};
    if (whet_pipeline_takes(&rows, &job, stores))
        return whet_pipeline_rows(&rows, &job, first_bad_row);
    for (size_t r = 0; r < rows.rows; r++) {
        whet_stats stats;
        view.in = row_at(rows.in, rows.in_type, rows.in_stride, r);
        if (rows.mask)
            view.mask = row_at(rows.mask, rows.mask_type, rows.mask_stride, r);
        if (stores)
            view.out = (char *)rows.out +
                       ((const char *)row_at(rows.out, rows.out_type, rows.out_stride, r) -
                        (char *)rows.out);
        whet_one_row(&view, &job, &stats);
        if (rows.stats)
            *stats_at(&rows, r) = stats;
        if ((stats.flags & WHET_ROW_NOT_FINITE) && status == WHET_OK) {
            status = WHET_NOT_FINITE;
            if (first_bad_row)
                *first_bad_row = r;
        }
    }
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
