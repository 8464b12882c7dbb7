/* The checks that calls on rows share: see checks.h. */
#include "row/checks.h"
#include "base/last_error.h"
#include "policy/beta.h"

static whet_status check_alignment(rows_array array) {
    if ((uintptr_t)array.base % type_bytes(array.type) == 0)
        return WHET_OK;
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s is not aligned to its elements of %zu bytes",
                       array.name, type_bytes(array.type));
}

whet_status whet_check_array_type(rows_array array) {
    if (array.type <= WHET_BF16)
        return check_alignment(array);
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s_type is %u (%s), not f32, f16 or bf16", array.name,
                       (unsigned)array.type, element_type_of(array.type)->name);
}

whet_status whet_check_mask_type(rows_array mask) {
    if (!mask.base)
        return WHET_OK;
    if (mask.type <= WHET_F16)
        return check_alignment(mask);
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s_type is %u (%s), not f32 or f16", mask.name,
                       (unsigned)mask.type, element_type_of(mask.type)->name);
}

static bool array_range(rows_array array, size_t row_count, size_t n, memory_range *range) {
    size_t bytes, size = type_bytes(array.type);
    ptrdiff_t stride;
    if (!size_multiply(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return false;
    if (__builtin_mul_overflow(array.stride, (ptrdiff_t)size, &stride))
        return false;
    *range = range_at(array.base, bytes);
    return range->high >= range->low && range_extend(range, row_count, stride);
}

whet_status whet_check_array_range(rows_array array, size_t row_count, size_t n,
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

whet_status whet_check_floats_aligned(rows_floats floats) {
    if (floats_are_aligned(floats.base))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s is not aligned to a float", floats.name);
}

whet_status whet_check_floats_range(rows_floats floats, size_t row_count, memory_range *range) {
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

whet_status whet_check_row_policy(const whet_policy **policy, whet_policy *plain,
                                  const float *beta) {
    *plain = whet_policy_softmax();
    if (!*policy)
        *policy = plain;
    whet_status status = whet_policy_check(*policy, NULL, 0);
    if (status != WHET_OK)
        return whet_refuse(status, "policy: %s", whet_last_error());
    if (beta && !whet_beta_is_one(*policy))
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "beta is given, but the policy has a temperature of its own");
    return WHET_OK;
}

whet_status whet_check_rows_apart(rows_array array, size_t row_count, size_t n) {
    size_t distance = array.stride < 0 ? (size_t)0 - (size_t)array.stride : (size_t)array.stride;
    if (row_count <= 1 || distance >= n)
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERLAP,
                       "%s_stride is %td, less than n = %zu: rows would overwrite each other",
                       array.name, array.stride, n);
}

whet_status whet_check_apart(const char *written, memory_range range, const char *other,
                             memory_range other_range) {
    if (!range_overlap(range, other_range))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERLAP, "%s overlaps %s", written, other);
}

whet_status whet_check_in_place(rows_array written, memory_range range, rows_array read,
                                memory_range read_range, size_t row_count) {
    if (!range_overlap(range, read_range) ||
        (written.base == read.base && written.type == read.type &&
         (written.stride == read.stride || row_count == 1)))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERLAP,
                       "%s overlaps %s without being the same address, type and stride",
                       written.name, read.name);
}
