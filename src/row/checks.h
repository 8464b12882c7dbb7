/*
 * Checks of every call on rows: memory ranges of its arrays, their alignment, and which
 * of them may share memory. A refusal names the member. They are inline because a
 * call on one short row takes little longer than ten calls of functions.
 */
#ifndef WHET_ROW_CHECKS_H
#define WHET_ROW_CHECKS_H

#include "base/checked.h"
#include "base/last_error.h"
#include "base/types.h"
#include "policy/registry.h"

/* Rows of elements, `stride` elements from one to the next (0 is not "n" any more here). */
typedef struct rows_array {
    const void *base;
    whet_type type;
    ptrdiff_t stride;
    const char *name; /* of the member that has the address, for messages */
} rows_array;

/* The offset of row r, in bytes from the first row. */
static inline ptrdiff_t row_offset(whet_type type, ptrdiff_t stride, size_t row) {
    return (ptrdiff_t)row * stride * (ptrdiff_t)type_bytes(type);
}

static inline const void *row_at(rows_array array, size_t row) {
    return (const char *)array.base + row_offset(array.type, array.stride, row);
}

static inline whet_status check_alignment(rows_array array) {
    if ((uintptr_t)array.base % type_bytes(array.type) == 0)
        return WHET_OK;
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s is not aligned to its elements of %zu bytes",
                       array.name, type_bytes(array.type));
}

/* f32, f16 or bf16, and an address that suits it. A mask cannot be bf16, and without an address its
 * type says nothing. */
static inline whet_status check_array_type(rows_array array) {
    if (array.type <= WHET_BF16)
        return check_alignment(array);
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s_type is %u (%s), not f32, f16 or bf16", array.name,
                       (unsigned)array.type, element_type_of(array.type)->name);
}

static inline whet_status check_mask_type(rows_array mask) {
    if (!mask.base)
        return WHET_OK;
    if (mask.type <= WHET_F16)
        return check_alignment(mask);
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s_type is %u (%s), not f32 or f16", mask.name,
                       (unsigned)mask.type, element_type_of(mask.type)->name);
}

static inline bool array_range(rows_array array, size_t row_count, size_t n, memory_range *range) {
    size_t bytes, size = type_bytes(array.type);
    ptrdiff_t stride;
    if (!size_multiply(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return false;
    if (__builtin_mul_overflow(array.stride, (ptrdiff_t)size, &stride))
        return false;
    *range = range_at(array.base, bytes);
    return range->high >= range->low && range_extend(range, row_count, stride);
}

/* Finds the bytes that an array spans; refuses one that is missing or leaves the address range. */
static inline whet_status check_array_range(rows_array array, size_t row_count, size_t n,
                                            memory_range *range) {
    if (!array.base)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s is NULL with %zu rows of n = %zu", array.name,
                           row_count, n);
    if (array_range(array, row_count, n, range))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERFLOW,
                       "%s spans more than the address range: %zu rows of n = %zu, %s_stride %td",
                       array.name, row_count, n, array.name, array.stride);
}

/* Optional arrays of floats with a number for each row, `stride` floats apart. */
typedef struct rows_floats {
    const char *name;
    const float *base;
    size_t stride;
} rows_floats;

static inline whet_status check_floats_aligned(rows_floats floats) {
    if (floats_are_aligned(floats.base))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s is not aligned to a float", floats.name);
}

static inline whet_status check_floats_range(rows_floats floats, size_t row_count,
                                             memory_range *range) {
    *range = (memory_range){0, 0};
    if (!floats.base)
        return WHET_OK;
    *range = range_at(floats.base, sizeof(float));
    if (floats.stride <= PTRDIFF_MAX / sizeof(float) &&
        range_extend(range, row_count, (ptrdiff_t)(floats.stride * sizeof(float))))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERFLOW,
                       "%s spans more than the address range: %zu rows, stride %zu", floats.name,
                       row_count, floats.stride);
}

/* Puts plain softmax in the place of no policy, and refuses one that makes no sense, or that has a
 * temperature where betas are given. */
whet_status whet_check_row_policy(const whet_policy **policy, whet_policy *plain,
                                  const float *beta);

/* Refuses rows of one array that share entries, which is fine to read and not to write. */
static inline whet_status check_rows_apart(rows_array array, size_t row_count, size_t n) {
    size_t distance = array.stride < 0 ? (size_t)0 - (size_t)array.stride : (size_t)array.stride;
    if (row_count <= 1 || distance >= n)
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERLAP,
                       "%s_stride is %td, less than n = %zu: rows would overwrite each other",
                       array.name, array.stride, n);
}

/* Refuses an array that is written where another is read or written. */
static inline whet_status check_apart(const char *written, memory_range range, const char *other,
                                      memory_range other_range) {
    if (!range_overlap(range, other_range))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERLAP, "%s overlaps %s", written, other);
}

/* The same unless the two are one and the same, so that a row may be written over itself. */
static inline whet_status check_in_place(rows_array written, memory_range range, rows_array read,
                                         memory_range read_range, size_t row_count) {
    if (!range_overlap(range, read_range) ||
        (written.base == read.base && written.type == read.type &&
         (written.stride == read.stride || row_count == 1)))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERLAP,
                       "%s overlaps %s without being the same address, type and stride",
                       written.name, read.name);
}

/* Sink and beta of row r. A sink of -inf is none. */
static inline void row_extras_at(row_view *view, size_t r, const float *sink, size_t sink_stride,
                                 const float *beta) {
    view->sink = sink ? sink[r * sink_stride] : -INFINITY;
    view->has_sink = view->sink != -INFINITY;
    view->has_beta = beta != NULL;
    view->beta = beta ? (double)beta[r] : 1;
}

/* The position of row r, which wraps around where it leaves the range of numbers. */
static inline int64_t row_position(int64_t first, int64_t stride, size_t r) {
    return (int64_t)((uint64_t)first + (uint64_t)r * (uint64_t)stride);
}

/* Notes the first row that was not finite. */
static inline void note_bad_row(size_t row, whet_status *status, size_t *first_bad_row) {
    if (*status == WHET_OK && first_bad_row)
        *first_bad_row = row;
    *status = WHET_NOT_FINITE;
}

#endif
