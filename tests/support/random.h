// Random numbers for tests: splitmix64, so that a seed gives the same values on every machine. (The
// logarithm and cosine of libm may differ in the last bit: compare normal values with tolerances,
// not bits.)
#ifndef WHET_TESTS_SUPPORT_RANDOM_H
#define WHET_TESTS_SUPPORT_RANDOM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline struct rng rng_seeded(uint64_t seed) { return (struct rng){seed}; }

static inline uint64_t rng_bits(struct rng *rng) {
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// In [low, high).
static inline double rng_uniform(struct rng *rng, double low, double high) {
    double unit = (double)(rng_bits(rng) >> 11) * 0x1p-53;
    return low + (high - low) * unit;
}

static inline double rng_normal(struct rng *rng, double mean, double deviation) {
    double radius = sqrt(-2.0 * log(1.0 - rng_uniform(rng, 0.0, 1.0)));
    double angle = 6.283185307179586477 * rng_uniform(rng, 0.0, 1.0);
    return mean + deviation * radius * cos(angle);
}

// In [low, high], both included; the bias of the remainder is too small for any test.
static inline int64_t rng_integer(struct rng *rng, int64_t low, int64_t high) {
    uint64_t span = (uint64_t)high - (uint64_t)low + 1u;
    uint64_t offset = span ? rng_bits(rng) % span : rng_bits(rng);
    return (int64_t)((uint64_t)low + offset);
}

static inline void rng_fill_normal(struct rng *rng, float *values, size_t n, double mean,
                                   double deviation) {
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)rng_normal(rng, mean, deviation);
    }
}

static inline void rng_fill_uniform(struct rng *rng, float *values, size_t n, double low,
                                    double high) {
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)rng_uniform(rng, low, high);
    }
}

#endif
