/*
 * Reproducible random numbers: every use has a seed of its own, derived from
 * the run's seed, a word and a number (the step, the set ...), so that what one
 * part draws depends neither on other parts nor on threads.
 *
 * A generator is a counter passed through a mixing function (SplitMix64), so
 * its whole state is one number that fits in a checkpoint.
 */
#ifndef WHET_LAB_RANDOM_H
#define WHET_LAB_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct lab_random {
    uint64_t state;
} lab_random;

/* A seed for one purpose: different for every seed, purpose and index. */
uint64_t lab_seed_for(uint64_t seed, const char *purpose, uint64_t index);

static inline lab_random lab_random_start(uint64_t seed) { return (lab_random){seed}; }

/* 64 random bits. */
static inline uint64_t lab_random_bits(lab_random *random) {
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1): a multiple of 2^-24, or of 2^-53. */
static inline float lab_random_float(lab_random *random) {
    return (float)(lab_random_bits(random) >> 40) * 0x1p-24f;
}
static inline double lab_random_double(lab_random *random) {
    return (double)(lab_random_bits(random) >> 11) * 0x1p-53;
}

/* Uniform in 0 ... count - 1, for counts below 2^32. */
static inline uint32_t lab_random_below(lab_random *random, uint32_t count) {
    return (uint32_t)(((lab_random_bits(random) >> 32) * count) >> 32);
}

/* Standard normal. */
double lab_random_normal(lab_random *random);

#endif
