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

/* ---- keys that a mask hides from all rows of a task ---- */

/* Words of marks, one bit for each key. */
static inline size_t mark_words(size_t keys) { return (keys + 63) / 64; }

/* Sets the marks of all keys: those that limits and mask leave a row. True if the mask adds nothing
 * to any of them. The slice's list must be that of all keys. */
bool whet_mark_visible(const kv_slice *slice, const query_row *row, uint64_t *marks);

/* Whether two rows see the same keys, since they have the same row of the mask. */
bool whet_is_same_mask(const kv_slice *slice, const query_row *a, const query_row *b);

/* How many keys are marked, all of them low <= j < high. */
typedef struct mark_range {
    size_t low, high, count;
} mark_range;

mark_range whet_range_of_marks(const uint64_t *marks, size_t words);

/* Whether so many keys of the range are not marked that the others should be listed. */
static inline bool marks_have_holes(const mark_range *range) {
    return (range->high - range->low - range->count) * 8 > range->high - range->low;
}

/* Lists the marked keys. */
void whet_list_marks(const uint64_t *marks, size_t words, uint32_t *keys);

/* The place of the first key of a list that is not before `key`. */
size_t whet_place_of(const uint32_t *keys, size_t count, size_t key);

#endif
