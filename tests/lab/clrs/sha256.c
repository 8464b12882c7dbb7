// SHA-256 as the standard writes it; its constants, the first bits of roots of primes, are computed
// in whole numbers.
#include "sha256.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { ROUNDS = 64, BLOCK = 64 };

struct state {
    uint32_t round_constants[ROUNDS];
    uint32_t hash[8];
};

// The first 32 bits behind the point of a number's root: the root of number * 2^(32 * degree),
// found bit by bit.
static uint32_t root_fraction(uint64_t number, int degree) {
    wide target = (wide)number << (32 * degree);
    uint64_t root = 0;
    for (int bit = 38; bit >= 0; bit--) {
        uint64_t candidate = root | (uint64_t)1 << bit;
        wide power = (wide)candidate * candidate;
        if (degree == 3)
            power *= candidate;
        if (power <= target)
            root = candidate;
    }
    return (uint32_t)root;
}

static uint64_t next_prime(uint64_t after) {
    for (uint64_t number = after + 1;; number++) {
        uint64_t divisor = 2;
        while (divisor * divisor <= number && number % divisor != 0)
            divisor++;
        if (divisor * divisor > number)
            return number;
    }
}

static void start(struct state *state) {
    uint64_t prime = 1;
    for (int i = 0; i < ROUNDS; i++) {
        prime = next_prime(prime);
        state->round_constants[i] = root_fraction(prime, 3);
        if (i < 8)
            state->hash[i] = root_fraction(prime, 2);
    }
}

static uint32_t rotate(uint32_t word, int by) { return word >> by | word << (32 - by); }

static void expand(const uint8_t block[BLOCK], uint32_t w[ROUNDS]) {
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
}

static void digest(struct state *state, const uint8_t block[BLOCK]) {
    uint32_t w[ROUNDS], v[8];
    expand(block, w);
    memcpy(v, state->hash, sizeof v);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t mixed = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t chosen = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t first = v[7] + mixed + chosen + state->round_constants[i] + w[i];
        uint32_t rotated = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + rotated + majority;
    }
    for (int i = 0; i < 8; i++)
        state->hash[i] += v[i];
}

// The rest of the bytes, a one and the length in bits.
static void digest_end(struct state *state, const uint8_t *bytes, size_t count) {
    uint8_t last[2 * BLOCK] = {0};
    size_t rest = count % BLOCK, size = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    memcpy(last, bytes + count - rest, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[size - 1 - (size_t)i] = (uint8_t)((uint64_t)count * 8 >> (8 * i));
    for (size_t at = 0; at < size; at += BLOCK)
        digest(state, last + at);
}

void sha256_text(const void *bytes, size_t count, char text[SHA256_TEXT_SIZE]) {
    struct state state;
    start(&state);
    for (size_t at = 0; at + BLOCK <= count; at += BLOCK)
        digest(&state, (const uint8_t *)bytes + at);
    digest_end(&state, bytes, count);
    for (int i = 0; i < 8; i++)
        snprintf(text + 8 * i, 9, "%08x", state.hash[i]);
}
