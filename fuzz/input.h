/*
 * What the fuzz targets share: an input's bytes as numbers and choices, random
 * values grown from a few of them, memory that is allocated to the byte so that
 * a sanitizer sees any step beside it, and FUZZ_CHECK, which ends the program
 * where a promise of the library is broken. A target is one function,
 * LLVMFuzzerTestOneInput, called by libFuzzer or by replay.c. (Bytes are used up
 * in one statement after the other: within one, compilers differ in the order.)
 */
#ifndef WHET_FUZZ_INPUT_H
#define WHET_FUZZ_INPUT_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fuzz_fail(__FILE__, __LINE__, #condition);                                             \
        }                                                                                          \
    } while (0)

static inline _Noreturn void fuzz_fail(const char *file, int line, const char *condition) {
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
    abort();
}

/* Bytes yet to be used. Beyond the end everything reads as zero, so that any input is complete. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

static inline uint64_t fuzz_bytes(fuzz_input *input, unsigned count) {
    uint64_t value = 0;
    for (unsigned i = 0; i < count && input->left > 0; i++, input->left--) {
        value |= (uint64_t)*input->at++ << (8 * i);
    }
    return value;
}

/* A choice out of `count`, which is at most 65536. */
static inline unsigned fuzz_below(fuzz_input *input, unsigned count) {
    return (unsigned)(fuzz_bytes(input, count > 256 ? 2 : 1) % count);
}

static inline bool fuzz_flag(fuzz_input *input) { return fuzz_below(input, 2) != 0; }

/* One time in `count`, and never once the input is used up. */
static inline bool fuzz_rarely(fuzz_input *input, unsigned count) {
    return fuzz_below(input, count) == 1;
}

/* Numbers at which something may happen, small whole ones, or any bits at all. */
static inline double fuzz_double(fuzz_input *input) {
    static const double special[] = {0.0,         -0.0,      1.0,
                                     -1.0,        0.5,       1.5,
                                     2.0,         1e-9,      1e9,
                                     -1e9,        1e30,      -1e30,
                                     DBL_MAX,     -DBL_MAX,  1e-45,
                                     DBL_MIN,     0x1p-1074, 0x1p53,
                                     0x1p64,      FLT_MAX,   -FLT_MAX,
                                     NAN,         INFINITY,  -INFINITY,
                                     1 + 0x1p-52, 256.0,     4.412401865965671};
    unsigned how = fuzz_below(input, 4);
    if (how == 0) {
        return special[fuzz_below(input, sizeof special / sizeof special[0])];
    }
    if (how == 1) {
        uint64_t bits = fuzz_bytes(input, 8);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return ((double)fuzz_bytes(input, 2) - 32768.0) / (how == 2 ? 4096.0 : 64.0);
}

/* Sizes around which arithmetic overflows, or any bits at all. */
static inline uint64_t fuzz_hostile_size(fuzz_input *input) {
    static const uint64_t special[] = {0,
                                       1,
                                       SIZE_MAX,
                                       SIZE_MAX / 2,
                                       SIZE_MAX / 4,
                                       UINT32_MAX,
                                       INT32_MAX,
                                       SIZE_MAX / 2 + 1,
                                       3,
                                       UINT64_C(1) << 46};
    if (fuzz_flag(input)) {
        uint64_t offset = fuzz_below(input, 7);
        return special[fuzz_below(input, sizeof special / sizeof special[0])] + offset - 3;
    }
    unsigned shift = fuzz_below(input, 64);
    return fuzz_bytes(input, 8) >> shift;
}

/* Random values from a seed: splitmix64. */
typedef struct fuzz_random {
    uint64_t state;
} fuzz_random;

static inline uint64_t fuzz_next(fuzz_random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [-limit, limit). */
static inline float fuzz_uniform(fuzz_random *random, double limit) {
    return (float)(limit * (0x1p-63 * (double)(fuzz_next(random) >> 1) * 2 - 1));
}

/* How wild random values are. */
typedef enum fuzz_temper {
    FUZZ_TAME,    /* between -4 and 4 */
    FUZZ_ALIKE,   /* many equal ones */
    FUZZ_LARGE,   /* up to 1e4 */
    FUZZ_EXTREME, /* finite, of any size, subnormal ones too */
    FUZZ_MASKED,  /* tame, every third -inf */
    FUZZ_BITS,    /* any bits: NaN and infinities too */
    FUZZ_TEMPERS
} fuzz_temper;

static inline float fuzz_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float fuzz_special_value(fuzz_random *random, uint64_t bits) {
    switch (bits >> 58) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return -INFINITY;
    case 3:
    case 4:
    case 5:
    case 6:
        return fuzz_float_of_bits((uint32_t)bits);
    default:
        return fuzz_uniform(random, 4);
    }
}

static inline float fuzz_value(fuzz_random *random, fuzz_temper temper) {
    uint64_t bits = fuzz_next(random);
    switch (temper) {
    case FUZZ_ALIKE:
        return (float)(bits % 3) - 1.0f;
    case FUZZ_LARGE:
        return fuzz_uniform(random, 1e4);
    case FUZZ_EXTREME:
        return fuzz_float_of_bits((uint32_t)bits & 0xff7fffffu);
    case FUZZ_MASKED:
        return bits % 3 == 0 ? -INFINITY : fuzz_uniform(random, 4);
    case FUZZ_BITS:
        return fuzz_special_value(random, bits);
    default:
        return fuzz_uniform(random, 4);
    }
}

/* Memory of exactly this size; zero bytes are a place of their own, too. */
static inline void *fuzz_allocate(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        exit(0); /* the machine is short of memory, which is nobody's fault here */
    }
    return memory;
}

static inline void *fuzz_copy(const void *from, size_t bytes) {
    void *memory = fuzz_allocate(bytes);
    if (bytes > 0) {
        memcpy(memory, from, bytes);
    }
    return memory;
}

/* Bit for bit, padding and NaN included. */
static inline bool fuzz_same(const void *a, const void *b, size_t bytes) {
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

#endif
