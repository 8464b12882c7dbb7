/*
 * Checks of every call on rows: memory ranges of its arrays, their alignment, and which
 * of them may share memory. A refusal names the member.
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
    const char *name; /* of the member that has the address, for messages */
} rows_array;

/* The offset of row r, in bytes from the first row. */
static inline ptrdiff_t row_offset(whet_type type, ptrdiff_t stride, size_t row) {
    return (ptrdiff_t)row * stride * (ptrdiff_t)type_bytes(type);
}

static inline const void *row_at(rows_array array, size_t row) {
    return (const char *)array.base + row_offset(array.type, array.stride, row);
}

/* f32, f16 or bf16, and an address that suits it. A mask cannot be bf16, and without an address its
 * type says nothing. */
whet_status whet_check_array_type(rows_array array);
whet_status whet_check_mask_type(rows_array mask);

/* Finds the bytes that an array spans; refuses one that is missing or leaves the address range. */
whet_status whet_check_array_range(rows_array array, size_t row_count, size_t n,
                                   memory_range *range);

/* Optional arrays of floats with a number for each row, `stride` floats apart. */
typedef struct rows_floats {
    const char *name;
    const float *base;
    size_t stride;
} rows_floats;

whet_status whet_check_floats_aligned(rows_floats floats);
whet_status whet_check_floats_range(rows_floats floats, size_t row_count, memory_range *range);

/* Puts plain softmax in the place of no policy, and refuses one that makes no sense, or that has a
 * temperature where betas are given. */
whet_status whet_check_row_policy(const whet_policy **policy, whet_policy *plain,
                                  const float *beta);

/* Refuses rows of one array that share entries, which is fine to read and not to write. */
whet_status whet_check_rows_apart(rows_array array, size_t row_count, size_t n);

/* Refuses an array that is written where another is read or written. */
whet_status whet_check_apart(const char *written, memory_range range, const char *other,
                             memory_range other_range);

/* The same unless the two are one and the same, so that a row may be written over itself. */
whet_status whet_check_in_place(rows_array written, memory_range range, rows_array read,
                                memory_range read_range, size_t row_count);

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
