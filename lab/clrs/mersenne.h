/*
 * The random stream: MT19937, used in the two ways that the data needs. numpy's
 * legacy generator (RandomState) draws the instances, Python's `random` chooses
 * among samplers in a mixed stream.
 */
#ifndef WHET_LAB_CLRS_MERSENNE_H
#define WHET_LAB_CLRS_MERSENNE_H

#include <stddef.h>
#include <stdint.h>

enum { CLRS_MERSENNE_WORDS = 624 };

typedef struct clrs_random {
    uint32_t state[CLRS_MERSENNE_WORDS];
    uint32_t words[CLRS_MERSENNE_WORDS]; /* the block's outputs */
    size_t used;                         /* number of them used */
} clrs_random;

/* As numpy.random.RandomState(seed). */
void clrs_random_seed(clrs_random *random, uint32_t seed);

/* As Python's random.seed(seed). */
void clrs_random_seed_python(clrs_random *random, uint64_t seed);

/* The next block of outputs; called by clrs_random_word. */
void clrs_random_refill(clrs_random *random);

static inline uint32_t clrs_random_word(clrs_random *random) {
    if (random->used == CLRS_MERSENNE_WORDS)
        clrs_random_refill(random);
    return random->words[random->used++];
}

/* In [0, 1), with 53 bits. */
static inline double clrs_random_double(clrs_random *random) {
    uint32_t high = clrs_random_word(random) >> 5;
    uint32_t low = clrs_random_word(random) >> 6;
    return ((double)high * 67108864.0 + (double)low) / 9007199254740992.0;
}

static inline double clrs_random_uniform(clrs_random *random, double low, double high) {
    return low + (high - low) * clrs_random_double(random);
}

/* 1 with probability 1 - q: binomial(1, 1 - q) by inversion. */
static inline int clrs_random_coin(clrs_random *random, double q) {
    return clrs_random_double(random) > q;
}

/* 0 ... bound - 1, as randint and choice; a bound of 1 draws nothing. */
int clrs_random_below(clrs_random *random, int bound);

/* Fills order with a permutation of 0 ... count - 1. */
void clrs_random_permutation(clrs_random *random, int *order, int count);

/* 0 ... bound - 1, as Python's random.choice picks; the bound is at least 1. */
uint32_t clrs_random_pick_python(clrs_random *random, uint32_t bound);

#endif
