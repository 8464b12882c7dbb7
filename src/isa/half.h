/*
 * Half precision and bfloat16, one number at a time: what the vector units do
 * in one instruction, in plain C, with the same rounding (to nearest, ties to
 * even), subnormals and quiet NaNs.
 */
#ifndef WHET_HALF_H
#define WHET_HALF_H

#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t float_to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31u;
    uint32_t fraction = h & 0x3ffu;
    if (exponent == 31)
        return float_from_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return float_from_bits(sign | float_to_bits(magnitude));
    }
    return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t float_to_half(float x) {
    uint32_t bits = float_to_bits(x);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u); /* rounds to infinity */
    if (magnitude < 0x38800000u) {
        /* Subnormal: adding 1/2 moves the bits to the bottom, rounded by the adder. */
        float shifted = float_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_to_bits(shifted) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

static inline float brain_to_float(uint16_t b) { return float_from_bits((uint32_t)b << 16); }

static inline uint16_t float_to_brain(float x) {
    uint32_t bits = float_to_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
