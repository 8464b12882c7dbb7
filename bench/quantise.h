/*
 * Conversion of rows of floats to the quantised types, for the inputs of the
 * benchmark and the tests. The scale is the one at which the largest element
 * just fits; each element goes to the nearest step. The library itself only
 * reads these types.
 */
#ifndef WHET_BENCH_QUANTISE_H
#define WHET_BENCH_QUANTISE_H

#include "whet.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { QUANTISE_BLOCK = 32 };

/* For finite values in the range of f16; ties to even. */
static inline uint16_t quantise_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t size = bits & 0x7fffffffu;
    if (size < 0x38800000u) /* below 2^-14: a multiple of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(fabsf(value) * 0x1p24f));
    size -= 112u << 23;
    size += 0xfffu + (size >> 13 & 1u);
    return (uint16_t)(sign | size >> 13);
}

/* The value that a non-negative f16 stands for. */
static inline float quantise_f16_value(float value) {
    uint16_t bits = quantise_f16(value);
    int exponent = bits >> 10;
    return exponent ? ldexpf((float)(1024 | (bits & 1023)), exponent - 25)
                    : ldexpf((float)bits, -24);
}

/* The nearest integer, ties to even, of a small number: adding 1.5 * 2^23 leaves no bits after the
 * point. Much faster than nearbyintf where that is a function call. */
static inline float quantise_round(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

static inline int quantise_element(float x, float scale, float largest) {
    float steps = scale > 0 ? quantise_round(x / scale) : 0;
    return (int)(steps > largest ? largest : steps < -largest ? -largest : steps);
}

static inline void quantise_block(const float *x, whet_type type, uint8_t *block) {
    float size = 0, most = type == WHET_Q4_0 ? 7 : 127;
    for (int i = 0; i < QUANTISE_BLOCK; i++)
        size = fabsf(x[i]) > size ? fabsf(x[i]) : size;
    float scale = quantise_f16_value(size / most);
    uint16_t bits = quantise_f16(scale);
    memcpy(block, &bits, sizeof bits);
    int steps[QUANTISE_BLOCK];
    for (int i = 0; i < QUANTISE_BLOCK; i++)
        steps[i] = quantise_element(x[i], scale, most);
    uint8_t *to = block + sizeof bits;
    if (type == WHET_Q8_0)
        for (int i = 0; i < QUANTISE_BLOCK; i++)
            to[i] = (uint8_t)steps[i];
    else
        for (int i = 0; i < QUANTISE_BLOCK / 2; i++)
            to[i] = (uint8_t)((steps[i] + 8) | (steps[i + QUANTISE_BLOCK / 2] + 8) << 4);
}

/* n finite floats, a multiple of 32. */
static inline void quantise_row(const float *x, size_t n, whet_type type, void *row) {
    for (size_t i = 0; i < n; i += QUANTISE_BLOCK)
        quantise_block(x + i, type, (uint8_t *)row + whet_type_row_bytes(type, i));
}

#endif
