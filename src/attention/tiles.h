/*
 * Shared by the paths over many queries: keys, values and query rows in the layouts of
 * the panel kernels (see isa/panels.inc), and the complete logits of a block of keys for
 * one panel. A panel's rows are given as an array of `lanes` entries of which the first
 * `row_count` are in use.
 */
#ifndef WHET_TILES_H
#define WHET_TILES_H

#include "attention/arena.h"
#include "attention/geometry.h"

#define BLOCK 192    /* keys to a block: their keys and values stay in the second-level cache */
#define F32_BLOCKS 8 /* blocks summed in f32 before they join the totals in double */
#define KEPT_BYTES ((size_t)25 << 20) /* of logits that a task keeps for another pass */

/* Keys of the block at `start`, up to the last among low <= j < high; 0: none. */
static inline size_t keys_in_block(size_t low, size_t high, size_t start) {
    if (low >= high || high <= start || low >= start + BLOCK)
        return 0;
    return high - start < BLOCK ? high - start : BLOCK;
}

/* Keys of the block at `start` where `end` is behind the last of all. */
static inline size_t block_length(size_t end, size_t start) {
    return end - start < BLOCK ? end - start : BLOCK;
}

/* Extends the range [*first, *end) by the keys that a panel sees; it starts empty: SIZE_MAX and 0.
 */
static inline void widen_keys(size_t low, size_t high, size_t *first, size_t *end) {
    if (low < high && low < *first)
        *first = low;
    if (low < high && high > *end)
        *end = high;
}

/* Where the blocks of these keys start. */
static inline size_t first_block(size_t first, size_t end) {
    size_t from = first < end ? first : end;
    return from - from % BLOCK;
}

static inline void add_lanes(double *sums, const float *more, size_t lanes) {
    for (size_t lane = 0; lane < lanes; lane++)
        sums[lane] += (double)more[lane];
}

/* One query row, n floats, as a lane of a panel: result[i][lane]. */
void whet_pack_lane(const float *row, size_t n, size_t lanes, size_t lane, float *result);

/*
 * Rows [start, start + count) of k or v in the layout of `scores`: interleaved, [count /
 * interleave][dim][interleave], each minus the row `common`, unless that is NULL. buffer
 * is STRIP_MAX rows of HEAD_DIM_MAX, to convert in.
 */
void whet_pack_interleaved(const kv_slice *slice, const whet_tensor *tensor, size_t dim,
                           size_t start, size_t count, const float *common, float *buffer,
                           float *result);

/*
 * The same rows in the layout of `accumulate`, [dim / interleave][BLOCK][interleave], the
 * last columns padded with zeros. Rows that are not finite must not reach queries that do
 * not see them, even with weight zero: such a row is stored as zeros, and its index (from
 * start) goes to `nonfinite`. Returns how many there are.
 */
size_t whet_pack_columns(const kv_slice *slice, const whet_tensor *tensor, size_t dim, size_t start,
                         size_t count, float *buffer, float *result, size_t *nonfinite);

/*
 * Prefetches rows of the next block into the second-level cache, a few after every few
 * keys that are multiplied: products leave the memory idle, and packing the rows would
 * have to wait for it. More at a time would delay the products.
 */
typedef struct rows_ahead {
    const kv_slice *slice;
    const whet_tensor *tensor[2]; /* NULL: none */
    size_t bytes[2];              /* of a row */
    size_t next, end;             /* positions not fetched yet */
    size_t at_once;               /* positions fetched in one call */
} rows_ahead;

/* Positions [start, end) of two tensors, either of which may be NULL, while `tiles` tiles of whole
 * blocks are computed. */
rows_ahead whet_rows_ahead(const kv_slice *slice, const whet_tensor *first,
                           const whet_tensor *second, size_t start, size_t end, size_t tiles);

/* The next `at_once` positions. */
void whet_fetch_rows(rows_ahead *ahead);

/*
 * The logits of a block for a panel, complete: tile is [keys][lanes], padded to whole
 * interleaves. keys_packed is from whet_pack_interleaved, queries [head_dim][lanes]. If
 * softcap_grads is not NULL and there is a soft-cap, its derivative at every logit goes
 * there, laid out like the tile.
 */
void whet_tile_logits(const kv_slice *slice, const query_row *row, size_t row_count,
                      const float *keys_packed, const float *queries, size_t start, size_t keys,
                      float *tile, float *softcap_grads, rows_ahead *ahead);

/* The positions of a panel's rows among the keys, counted from key `start`; 0 for idle lanes. */
void whet_tile_positions(const query_row *row, size_t row_count, size_t lanes, size_t start,
                         float *position);

#endif
