/*
 * Blocks of values that a call may leave out (whet_attention.skip). Once the weights of
 * some rows are known, so is what each block would add to them: blocks are left out in the
 * order of their largest weight as long as no row loses more than it may.
 *
 * Blocks are counted from key 0, whatever keys a task works on. The rows that are decided
 * for together are those of a key head in decode and those of a panel in prefill.
 */
#ifndef WHET_SKIP_H
#define WHET_SKIP_H

#include "isa/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKIP_KEYS KERNEL_PART /* keys to a block */

static inline size_t skip_block_count(size_t keys) { return (keys + SKIP_KEYS - 1) / SKIP_KEYS; }

/* The blocks of some rows. */
typedef struct skip_choice {
    float skip;
    size_t blocks, rows;
    const float *weights; /* [block][stride]: sums of coefficients, none of them NaN */
    size_t stride;
    uint32_t *order;    /* [block], to sort in */
    bool *left_out;     /* [block]: the result */
    double *row_weight; /* [row]: what each row loses */
} skip_choice;

void whet_skip_choose(const skip_choice *choice);

/* How large a part of the keys low <= j < high is in blocks that are left out, of which the first
 * begins at key `first`. */
double whet_skip_share(const bool *left_out, size_t first, size_t low, size_t high);

#endif
