/*
 * MT19937 as numpy's legacy generator uses it. Words are generated a block at a
 * time, tempering included, so that drawing one is a load; the block's three
 * loops replace a modulo in each step.
 */
#include "clrs/mersenne.h"

enum { WORDS = CLRS_MERSENNE_WORDS, SHIFT = 397 };

static uint32_t twist(uint32_t here, uint32_t next, uint32_t far) {
    uint32_t joined = (here & 0x80000000u) | (next & 0x7fffffffu);
    return far ^ (joined >> 1) ^ ((0u - (joined & 1u)) & 0x9908b0dfu);
}

static uint32_t temper(uint32_t word) {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

void clrs_random_refill(clrs_random *random) {
    uint32_t *state = random->state;
    int i = 0;
    for (; i < WORDS - SHIFT; i++)
        state[i] = twist(state[i], state[i + 1], state[i + SHIFT]);
    for (; i < WORDS - 1; i++)
        state[i] = twist(state[i], state[i + 1], state[i + SHIFT - WORDS]);
    state[i] = twist(state[i], state[0], state[SHIFT - 1]);
    for (i = 0; i < WORDS; i++)
        random->words[i] = temper(state[i]);
    random->used = 0;
}

void clrs_random_seed(clrs_random *random, uint32_t seed) {
    random->state[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        uint32_t before = random->state[i - 1];
        random->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    random->used = WORDS;
}

/* Initialisation by an array of words, least significant first. */
static void seed_by_array(clrs_random *random, const uint32_t *key, uint32_t key_words) {
    clrs_random_seed(random, 19650218u);
    uint32_t *state = random->state;
    uint32_t i = 1, j = 0;
    for (int step = 0; step < WORDS; step++) {
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1664525u)) + key[j] + j;
        j = (j + 1) % key_words;
        if (++i == WORDS) {
            state[0] = state[WORDS - 1];
            i = 1;
        }
    }
    for (int step = 0; step < WORDS - 1; step++) {
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941u)) - i;
        if (++i == WORDS) {
            state[0] = state[WORDS - 1];
            i = 1;
        }
    }
    state[0] = 0x80000000u;
}

void clrs_random_seed_python(clrs_random *random, uint64_t seed) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    seed_by_array(random, key, key[1] ? 2 : 1);
}

int clrs_random_below(clrs_random *random, int bound) {
    if (bound <= 1)
        return 0;
    uint32_t most = (uint32_t)bound - 1;
    uint32_t mask = UINT32_MAX >> __builtin_clz(most);
    uint32_t value;
    do {
        value = clrs_random_word(random) & mask;
    } while (value > most);
    return (int)value;
}

void clrs_random_permutation(clrs_random *random, int *order, int count) {
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int j = clrs_random_below(random, i + 1);
        int moved = order[i];
        order[i] = order[j];
        order[j] = moved;
    }
}

uint32_t clrs_random_pick_python(clrs_random *random, uint32_t bound) {
    /* The bit length of the bound itself: one more than is needed for a power of two. */
    int unused_bits = __builtin_clz(bound);
    uint32_t value;
    do {
        value = clrs_random_word(random) >> unused_bits;
    } while (value >= bound);
    return value;
}
