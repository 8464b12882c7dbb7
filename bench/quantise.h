/*
 * Conversion of rows of floats to the quantised types, for the inputs of the
 * benchmark and the tests. The scale is the one at which the largest element
 * just fits, the minimum the smallest; each element goes to the nearest step. The library itself
 * only reads these types.
 */
#ifndef WHET_BENCH_QUANTISE_H
#define WHET_BENCH_QUANTISE_H

#include "whet.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
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
static inline float quantise_f16_value_of(uint16_t bits) {
    int exponent = bits >> 10;
    return exponent ? ldexpf((float)(1024 | (bits & 1023)), exponent - 25)
                    : ldexpf((float)bits, -24);
}

/* A non-negative value rounded to f16. */
static inline float quantise_f16_value(float value) {
    return quantise_f16_value_of(quantise_f16(value));
}

/* The nearest integer, ties to even, of a small number: adding 1.5 * 2^23 leaves no bits after the
 * point. Much faster than nearbyintf where that is a function call. */
static inline float quantise_round(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

static inline int quantise_element(float x, float scale, float largest) {
    float steps = scale > 0 ? quantise_round(x / scale) : 0;
    return (int)(steps > largest ? largest : steps < -largest ? -largest : steps);
}

/* How a quantised type steps: integers from least to most, and whether a minimum is added. */
typedef struct quantise_steps {
    int least, most;
    bool has_minimum;
} quantise_steps;

static inline quantise_steps quantise_steps_of(whet_type type) {
    return type == WHET_Q8_0   ? (quantise_steps){-127, 127, false}
           : type == WHET_Q4_0 ? (quantise_steps){-7, 7, false}
           : type == WHET_Q4_1 ? (quantise_steps){0, 15, true}
           : type == WHET_Q5_0 ? (quantise_steps){-15, 15, false}
           : type == WHET_Q5_1 ? (quantise_steps){0, 31, true}
                               : (quantise_steps){-127, 113, false};
}

/* The place in iq4_nl's list of the integer nearest to one. */
static inline int quantise_code(int step) {
    static const int codes[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
    int nearest = 0;
    for (int i = 1; i < 16; i++)
        nearest = abs(codes[i] - step) < abs(codes[nearest] - step) ? i : nearest;
    return nearest;
}

/* What is stored of a step: four or five bits, or a byte. */
static inline unsigned quantise_bits(int step, whet_type type) {
    return type == WHET_Q4_0     ? (unsigned)(step + 8)
           : type == WHET_Q5_0   ? (unsigned)(step + 16)
           : type == WHET_IQ4_NL ? (unsigned)quantise_code(step)
                                 : (unsigned)step;
}

static inline uint8_t *quantise_put_f16(float value, uint8_t *to) {
    uint16_t bits = quantise_f16(value);
    memcpy(to, &bits, sizeof bits);
    return to + sizeof bits;
}

/* A block's bits after scale and minimum: a byte for each element, or fifth bits and nibbles. */
static inline void quantise_put_bits(const unsigned *bits, whet_type type, uint8_t *to) {
    if (type == WHET_Q8_0) {
        for (int i = 0; i < QUANTISE_BLOCK; i++)
            to[i] = (uint8_t)bits[i];
        return;
    }
    if (type == WHET_Q5_0 || type == WHET_Q5_1) {
        memset(to, 0, QUANTISE_BLOCK / 8);
        for (int i = 0; i < QUANTISE_BLOCK; i++)
            to[i / 8] = (uint8_t)(to[i / 8] | (bits[i] >> 4) << i % 8);
        to += QUANTISE_BLOCK / 8;
    }
    for (int i = 0; i < QUANTISE_BLOCK / 2; i++)
        to[i] = (uint8_t)((bits[i] & 15) | (bits[i + QUANTISE_BLOCK / 2] & 15) << 4);
}

static inline void quantise_block(const float *x, whet_type type, uint8_t *block) {
    const quantise_steps steps = quantise_steps_of(type);
    float least = x[0], most = x[0];
    for (int i = 1; i < QUANTISE_BLOCK; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    float size = steps.has_minimum ? most - least : -least > most ? -least : most;
    float scale = quantise_f16_value(size / (float)steps.most);
    uint8_t *to = quantise_put_f16(scale, block);
    if (steps.has_minimum)
        to = quantise_put_f16(least, to);
    unsigned bits[QUANTISE_BLOCK];
    for (int i = 0; i < QUANTISE_BLOCK; i++) {
        float above = steps.has_minimum ? x[i] - least : x[i];
        int step = quantise_element(above, scale, (float)steps.most);
        bits[i] = quantise_bits(step < steps.least ? steps.least : step, type);
    }
    quantise_put_bits(bits, type, to);
}

/* n finite floats, a multiple of 32. */
static inline void quantise_row(const float *x, size_t n, whet_type type, void *row) {
    for (size_t i = 0; i < n; i += QUANTISE_BLOCK)
        quantise_block(x + i, type, (uint8_t *)row + whet_type_row_bytes(type, i));
}

#endif
