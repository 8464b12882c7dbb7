/* Additive masks of any type and strides, and biases of keys, for rows of logits and for tiles. */
#ifndef WHET_ATTENTION_MASK_H
#define WHET_ATTENTION_MASK_H

#include "attention/geometry.h"

/* Whether there is a mask or a bias. */
bool whet_is_masked(const whet_attention *a);

/* The keys that limits, mask and bias leave a row, without looking at any logit. */
size_t whet_count_visible(const kv_slice *slice, const query_row *row);

/* Adds the entries of mask and bias for keys [start, start + count) to a row's logits, and for all
 * rows of a tile, a row to a lane. */
void whet_add_mask_row(const kv_slice *slice, const query_row *row, size_t start, size_t count,
                       float *logits);
void whet_add_mask_tile(const kv_slice *slice, const query_row *row, size_t row_count, size_t start,
                        size_t keys, float *tile);

#endif
