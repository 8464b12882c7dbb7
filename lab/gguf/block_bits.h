/* Numbers in the bytes of a quantised block, wherever they are aligned. */
#ifndef WHET_LAB_GGUF_BLOCK_BITS_H
#define WHET_LAB_GGUF_BLOCK_BITS_H

#include "isa/half.h"

#include <stdint.h>
#include <string.h>

static inline uint16_t block_u16(const uint8_t *bytes) {
    uint16_t bits;
    memcpy(&bits, bytes, sizeof bits);
    return bits;
}

static inline uint32_t block_u32(const uint8_t *bytes) {
    uint32_t bits;
    memcpy(&bits, bytes, sizeof bits);
    return bits;
}

static inline float block_half(const uint8_t *bytes) { return half_to_float(block_u16(bytes)); }

/* Element i of 32 in 16 bytes of two four-bit numbers: the lower halves come first. */
static inline int block_nibble(const uint8_t *bytes, int i) {
    return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
}

#endif
