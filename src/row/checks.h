/*
 * What is checked of every call on rows: where
 * its arrays lie, whether they are aligned, and which of them may share memory.
 */
#ifndef WHET_ROW_CHECKS_H
#define WHET_ROW_CHECKS_H

#include "base/checked.h"
#include "base/types.h"
#include "policy/registry.h"

/* Rows of elements, `stride` elements from one to the next (0 is not "n" any more here). */
typedef struct rows_array {
    const void *base;
    whet_type type;
    ptrdiff_t stride;
} rows_array;

/* Where row r lies, in bytes from the first. */
static inline ptrdiff_t row_offset(whet_type type, ptrdiff_t stride, size_t row) {
    return (ptrdiff_t)row * stride * (ptrdiff_t)type_bytes(type);
}

static inline const void *row_at(rows_array array, size_t row) {
    return (const char *)array.base + row_offset(array.type, array.stride, row);
}

/* The bytes that an array spans; false if they leave the address range. */
static inline bool array_range(rows_array array, size_t row_count, size_t n, memory_range *range) {
    size_t bytes, size = type_bytes(array.type);
    ptrdiff_t byte_stride;
    if (!size_multiply(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return false;
    if (__builtin_mul_overflow(array.stride, (ptrdiff_t)size, &byte_stride))
        return false;
    *range = range_at(array.base, bytes);
    return range->high >= range->low && range_extend(range, row_count, byte_stride);
}

/* f32, f16 or bf16, and an address that suits it. */
static inline bool array_type_is_sound(rows_array array) {
    return array.type <= WHET_BF16 && (uintptr_t)array.base % type_bytes(array.type) == 0;
}

/* Masks have no bf16; without one, its type says nothing. */
static inline bool mask_type_is_sound(rows_array mask) {
    return !mask.base || (mask.type <= WHET_F16 && array_type_is_sound(mask));
}

/* Whether two arrays are one and the same, so that a row may be written over itself. */
static inline bool array_same(rows_array a, rows_array b, size_t row_count) {
    return a.base == b.base && a.type == b.type && (a.stride == b.stride || row_count == 1);
}

/* Whether rows of one array share entries, which is fine to read and not to write. */
static inline bool array_collides(rows_array array, size_t row_count, size_t n) {
    size_t distance = array.stride < 0 ? (size_t)0 - (size_t)array.stride : (size_t)array.stride;
    return row_count > 1 && distance < n;
}

/* Puts plain softmax in the place of no policy; false if the policy makes no sense. */
static inline bool policy_is_sound(const whet_policy **policy, whet_policy *plain) {
    *plain = whet_policy_softmax();
    if (!*policy)
        *policy = plain;
    return whet_policy_check(*policy, NULL, 0) == WHET_OK;
}

/* Optional arrays of floats with a number for each row, `stride` floats apart. */
static inline bool floats_range(const float *base, size_t stride, size_t row_count,
                                memory_range *range) {
    *range = (memory_range){0, 0};
    if (!base)
        return true;
    *range = range_at(base, sizeof(float));
    return stride <= PTRDIFF_MAX / sizeof(float) &&
           range_extend(range, row_count, (ptrdiff_t)(stride * sizeof(float)));
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
