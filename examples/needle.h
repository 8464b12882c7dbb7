/*
 * The toy cache that the decoding examples share. One position, the needle, has a key that every
 * query is looking for and the value 1; all others have keys of noise and the value 0. What comes
 * out of attention is then the weight on the needle, and one can watch it go as the cache grows.
 */
#ifndef NEEDLE_H
#define NEEDLE_H

#include <stddef.h>
#include <stdint.h>

enum { HEADS = 8, KV_HEADS = 2, HEAD_DIM = 64, CAPACITY = 4096, NEEDLE = 3 };

/* Caches lie as [kv_head][position][element], CAPACITY positions each. */
#define CACHE_FLOATS ((size_t)KV_HEADS * CAPACITY * HEAD_DIM)
#define QUERY_FLOATS ((size_t)HEADS * HEAD_DIM)

static inline float noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* What a model would compute for a token: its query, and the key and value that join the cache. */
static inline void next_token(size_t position, float *query, float *keys, float *values) {
    uint32_t state = (uint32_t)position * 2654435761u + 1u;
    for (size_t i = 0; i < QUERY_FLOATS; i++)
        query[i] = i % 2 ? 0.8f : -0.8f;
    for (size_t head = 0; head < KV_HEADS; head++)
        for (size_t i = 0; i < HEAD_DIM; i++) {
            size_t at = (head * CAPACITY + position) * HEAD_DIM + i;
            float sought = i % 2 ? 0.8f : -0.8f;
            keys[at] = position == NEEDLE ? sought : noise(&state);
            values[at] = position == NEEDLE ? 1.0f : 0.0f;
        }
}

/* Cache lengths worth a line of output. */
static inline int worth_printing(size_t length) {
    return length >= 16 && (length & (length - 1)) == 0;
}

#endif
