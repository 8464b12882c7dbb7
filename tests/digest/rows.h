// Logits and masks of rows, for the forward and the backward pass.
#ifndef WHET_TESTS_DIGEST_ROWS_H
#define WHET_TESTS_DIGEST_ROWS_H

#include "digest.h"

enum row_mask {
    MASK_NONE,
    MASK_F32,        // additive, a row of its own for each row, some of it -inf
    MASK_F16,        // additive, the same for all rows
    MASK_HOLES,      // -inf among the logits
    MASK_EMPTY,      // some rows are masked altogether
    MASK_NOT_FINITE, // some rows hold NaN or an infinity
    row_mask_count
};
enum { rows_max = 19, n_max = 9000 };
extern const char *const row_mask_names[row_mask_count];

// Sizes that share a line.
struct size_class {
    const char *name;
    const size_t *sizes;
    size_t count;
};
extern const struct size_class size_classes[3];

size_t rows_of(size_t n); // in a set of rows: enough to fill groups of 16 where that is cheap
// Rows of n logits, `stride` elements apart. Deviations differ from row to row; one in six has
// nothing but ties.
void fill_logits(void *in, whet_type type, size_t rows, size_t n, size_t stride,
                 enum row_mask mask);
// What to give as mask: NULL, or rows of n (MASK_F32), or one row (MASK_F16), in `memory`.
const void *fill_mask(void *memory, enum row_mask mask, size_t rows, size_t n);

#endif
