/* Floats as integers in the same order. */
#ifndef WHET_ORDERED_BITS_H
#define WHET_ORDERED_BITS_H

#include <stdint.h>
#include <string.h>

/* An integer that orders as the logit does; -0 and +0 give the same. */
static inline uint32_t whet_ordered_bits(float logit) {
    float without_sign_of_zero = logit + 0.0f;
    uint32_t bits;
    memcpy(&bits, &without_sign_of_zero, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static inline float whet_from_ordered_bits(uint32_t bits) {
    bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
    float logit;
    memcpy(&logit, &bits, sizeof logit);
    return logit;
}

#endif
