/* Which blocks of values are left out: see skip.h. */
#include "attention/skip.h"
#include <string.h>

/* Of what a row may lose: weights are in f32, and their rounding must not break the promise. */
#define SKIP_MARGIN (1 - 0x1p-10)

/* Blocks are sorted by sixteenths of an octave, down to 2^-32 of what a row may lose. */
#define BIN_SHIFT 19
#define BINS 512

static uint32_t bin_code(float weight) {
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits >> BIN_SHIFT;
}

/* The largest weight that any row gives to a block. */
static float largest_weight(const skip_choice *c, size_t block) {
    const float *weights = c->weights + block * c->stride;
    float largest = 0;
    for (size_t r = 0; r < c->rows; r++)
        largest = weights[r] > largest ? weights[r] : largest;
    return largest;
}

/* A block's place in the order, or BINS if it can never be left out. */
static size_t bin_of(const skip_choice *c, size_t block) {
    float largest = largest_weight(c, block);
    if (largest > c->skip)
        return BINS;
    uint32_t below = bin_code(c->skip) - bin_code(largest);
    return below < BINS ? BINS - 1 - below : 0;
}

/* The blocks that may be left out, those with the smallest weights first; returns how many. */
static size_t sort_blocks(const skip_choice *c) {
    size_t start[BINS + 2] = {0};
    for (size_t b = 0; b < c->blocks; b++)
        start[bin_of(c, b) + 1]++;
    for (size_t bin = 0; bin <= BINS; bin++)
        start[bin + 1] += start[bin];
    size_t count = start[BINS];
    for (size_t b = 0; b < c->blocks; b++)
        c->order[start[bin_of(c, b)]++] = (uint32_t)b;
    return count;
}

static bool fits(const skip_choice *c, size_t block, double most) {
    const float *weights = c->weights + block * c->stride;
    bool all = true;
    for (size_t r = 0; r < c->rows; r++)
        all = all && c->row_weight[r] + (double)weights[r] <= most;
    return all;
}

/* The least that some row loses if this block, or any after it in the order, is left out. */
static double least_loss(const skip_choice *c, size_t block) {
    uint32_t bits = bin_of(c, block) > 0 ? bin_code(largest_weight(c, block)) << BIN_SHIFT : 0;
    double lost = c->row_weight[0];
    float weight;
    memcpy(&weight, &bits, sizeof weight);
    for (size_t r = 1; r < c->rows; r++)
        lost = c->row_weight[r] < lost ? c->row_weight[r] : lost;
    return lost + (double)weight;
}

void whet_skip_choose(const skip_choice *c) {
    double most = (double)c->skip * SKIP_MARGIN;
    size_t count = sort_blocks(c);
    memset(c->left_out, 0, c->blocks * sizeof *c->left_out);
    for (size_t r = 0; r < c->rows; r++)
        c->row_weight[r] = 0;
    for (size_t i = 0; i < count; i++) {
        size_t block = c->order[i];
        if (!fits(c, block, most)) {
            if (least_loss(c, block) > most)
                break;
            continue;
        }
        c->left_out[block] = true;
        for (size_t r = 0; r < c->rows; r++)
            c->row_weight[r] += (double)c->weights[block * c->stride + r];
    }
}

double whet_skip_share(const bool *left_out, size_t first, size_t low, size_t high) {
    size_t keys = 0;
    for (size_t j = low, end; j < high; j = end) {
        end = (j / SKIP_KEYS + 1) * SKIP_KEYS;
        if (end > high)
            end = high;
        keys += left_out[(j - first) / SKIP_KEYS] ? end - j : 0;
    }
    return low < high ? (double)keys / (double)(high - low) : 0;
}
