/* The standard's algorithm, a block of 64 bytes at a time. */
#include "base/sha256.h"

#include "base/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned bits) { return x >> bits | x << (32 - bits); }

static void schedule(const unsigned char *block, uint32_t w[64]) {
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
}

static void add_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], v[8];
    schedule(block, w);
    memcpy(v, state, sizeof v);
    for (size_t i = 0; i < 64; i++) {
        uint32_t high = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t first = v[7] + high + choice + constants[i] + w[i];
        uint32_t low = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + low + majority;
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += v[i];
}

lab_sha256 lab_sha256_start(void) {
    return (lab_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                  0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void lab_sha256_add(lab_sha256 *sum, const void *bytes, size_t count) {
    const unsigned char *from = bytes;
    while (count > 0) {
        size_t used = sum->bytes % 64, part = count < 64 - used ? count : 64 - used;
        memcpy(sum->block + used, from, part);
        sum->bytes += part;
        from += part;
        count -= part;
        if (sum->bytes % 64 == 0)
            add_block(sum->state, sum->block);
    }
}

void lab_sha256_text(lab_sha256 sum, char text[LAB_SHA256_SIZE]) {
    static const char digits[] = "0123456789abcdef";
    static const unsigned char padding[64] = {0x80};
    unsigned char length[8];
    for (size_t i = 0; i < 8; i++)
        length[i] = (unsigned char)(8 * sum.bytes >> (56 - 8 * i));
    lab_sha256_add(&sum, padding, 1 + (119 - sum.bytes % 64) % 64);
    lab_sha256_add(&sum, length, sizeof length);
    for (size_t i = 0; i < 64; i++)
        text[i] = digits[sum.state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    text[64] = '\0';
}

bool lab_sha256_file(const char *path, char text[LAB_SHA256_SIZE], lab_error *error) {
    enum { PIECE = 1 << 16 };
    size_t size, got;
    FILE *file = lab_open_file(path, SIZE_MAX, &size, error);
    unsigned char *piece = file ? malloc(PIECE) : NULL;
    lab_sha256 sum = lab_sha256_start();
    if (!piece) {
        if (file)
            fclose(file);
        return file && lab_fail_memory(error);
    }
    while ((got = fread(piece, 1, PIECE, file)) > 0)
        lab_sha256_add(&sum, piece, got);
    bool good = !ferror(file) || lab_fail_read(error, path, errno);
    lab_sha256_text(sum, text);
    free(piece);
    fclose(file);
    return good;
}
