/*
 * Rows as fuzz targets ask for them: lengths around the blocks in which rows are
 * walked, strides of any sign, arrays that may be misaligned.
 */
#ifndef WHET_FUZZ_ROWS_H
#define WHET_FUZZ_ROWS_H

#include "elements.h"
#include "input.h"
#include "whet.h"

static inline size_t fuzz_row_length(fuzz_input *input) {
    if (fuzz_rarely(input, 16)) { /* around the blocks in which rows are walked */
        static const size_t edges[] = {1024, 4096, 8192};
        size_t edge = edges[fuzz_below(input, 3)];
        return edge + fuzz_below(input, 5) - 2;
    }
    return fuzz_below(input, 70);
}

/* In elements. Rows that overlap are fine to read and wrong to write. */
static inline ptrdiff_t fuzz_row_stride(fuzz_input *input, size_t n) {
    ptrdiff_t padded = (ptrdiff_t)(n + fuzz_below(input, 4));
    switch (fuzz_below(input, 5)) {
    case 1:
        return padded;
    case 2:
        return -padded;
    case 3:
        return (ptrdiff_t)fuzz_below(input, 70);
    case 4:
        return -(ptrdiff_t)fuzz_below(input, 70);
    default:
        return 0;
    }
}

/* An array of the request's shape; stride 0 stands for `otherwise`. */
static inline void fuzz_lay_out(fuzz_array *array, size_t rows, size_t n, whet_type type,
                                ptrdiff_t stride, ptrdiff_t otherwise, size_t slack) {
    ptrdiff_t size = (ptrdiff_t)fuzz_type_size(type);
    *array = (fuzz_array){.count = {1, 1, rows, n}, .type = type};
    array->stride[2] = (stride ? stride : otherwise) * size;
    array->stride[3] = size;
    fuzz_array_allocate(array, slack);
}

static inline size_t fuzz_slack(fuzz_input *input) {
    return fuzz_rarely(input, 16) ? fuzz_below(input, 8) : 0;
}

/* Floats that rows have besides their logits, `stride` apart (0: one for all); NULL if there are
 * none. */
static inline const float *fuzz_numbers(fuzz_input *input, size_t rows, size_t stride,
                                        fuzz_array *array) {
    fuzz_temper temper = (fuzz_temper)fuzz_below(input, FUZZ_TEMPERS);
    uint64_t seed = fuzz_bytes(input, 2);
    fuzz_lay_out(array, rows ? rows : 1, 1, WHET_F32, (ptrdiff_t)stride, 0, fuzz_slack(input));
    fuzz_fill(array, seed, temper);
    return (const float *)(const void *)array->base;
}

/* Row's own, or `otherwise`. */
static inline float fuzz_number(const fuzz_array *array, size_t row, float otherwise) {
    return array->memory ? fuzz_get(array, 0, 0, row, 0) : otherwise;
}

static inline bool fuzz_is_misaligned(const void *at, whet_type type) {
    return (uintptr_t)at % fuzz_type_size(type) != 0;
}

/* Few rows where they are long. */
static inline size_t fuzz_row_count(fuzz_input *input, size_t n) {
    enum { ROWS_MAX = 9 };
    return fuzz_below(input, (n < 100 ? ROWS_MAX : 2) + 1);
}

/* With its mask added, as the library does. */
static inline float fuzz_logit(const fuzz_array *in, const fuzz_array *mask, size_t row, size_t i) {
    float logit = fuzz_get(in, 0, 0, row, i);
    if (!mask) {
        return logit;
    }
    float added = fuzz_get(mask, 0, 0, row, i);
    return added == -INFINITY ? -INFINITY : logit + added;
}

/* How far a result may be off for being rounded to the output's type. */
static inline double fuzz_rounding(whet_type type, double value) {
    switch (type) {
    case WHET_F16:
        return fmax(0x1p-11 * fabs(value), 0x1p-25);
    case WHET_BF16:
        return 0x1p-8 * fabs(value);
    default:
        return 0;
    }
}

/* Whether rows of such a size leave the range of addresses, with some distance to its ends. */
static inline bool fuzz_is_beyond_memory(const void *base, size_t rows, size_t n,
                                         ptrdiff_t stride) {
    double size = sizeof(float);
    double reach = ((double)rows - 1) * (double)stride * size;
    double low = (double)(uintptr_t)base + fmin(0, reach);
    double high = (double)(uintptr_t)base + (double)n * size + fmax(0, reach);
    return rows > 0 && (low < -1e6 || high > 0x1.0001p64);
}

/* One input of a target for rows: mostly a request that makes sense, sometimes one whose arrays
 * overlap or whose sizes are hostile. */
static inline int fuzz_rows_input(const uint8_t *data, size_t size,
                                  void (*request)(fuzz_input *input),
                                  void (*overlap)(fuzz_input *input),
                                  void (*hostile)(fuzz_input *input)) {
    fuzz_input input = {data, size};
    switch (fuzz_below(&input, 8)) {
    case 1:
        overlap(&input);
        break;
    case 2:
        hostile(&input);
        break;
    default:
        request(&input);
        break;
    }
    return 0;
}

#endif
