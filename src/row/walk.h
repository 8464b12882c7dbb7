/*
 * A walk over a row, block by block, and over its sink as one more entry:
 *
 *     row_walk walk;
 *     walk_begin(&walk, row, sink);
 *     while (walk_next(&walk))
 *         ... walk.logits[0 ... walk.count - 1], at position walk.start ...
 *
 * Most of a row may be below a threshold under which entries count for nothing: then the
 * largest logit of a part is looked at before its entries.
 */
#ifndef WHET_WALK_H
#define WHET_WALK_H

#include "row/view.h"

typedef struct row_walk {
    const row_view *row;
    size_t start;
    size_t count;
    const float *logits;
    bool is_sink; /* the one entry is the sink */
    float sink;   /* not visited yet, or -inf */
    float buffer[ROW_BLOCK];
} row_walk;

static inline void walk_begin(row_walk *walk, const row_view *row, float sink) {
    walk->row = row;
    walk->start = 0;
    walk->count = 0;
    walk->is_sink = false;
    walk->sink = sink;
}

static inline bool walk_next(row_walk *walk) {
    walk->start += walk->count;
    size_t left = walk->row->n - walk->start;
    if (!walk->is_sink && left > 0) {
        walk->count = left < ROW_BLOCK ? left : ROW_BLOCK;
        walk->logits = whet_row_load(walk->row, walk->start, walk->count, walk->buffer);
        return true;
    }
    if (walk->is_sink || walk->sink == -INFINITY)
        return false;
    walk->is_sink = true;
    walk->count = 1;
    walk->buffer[0] = walk->sink;
    walk->logits = walk->buffer;
    return true;
}

/* The largest logit of the part of a block that begins at entry i; sets where it ends. */
static inline float walk_part(const row_walk *walk, size_t i, size_t *end) {
    *end = walk->count - i < ROW_PART ? walk->count : i + ROW_PART;
    if (walk->row->part_max && !walk->is_sink)
        return walk->row->part_max[(walk->start + i) / ROW_PART];
    return walk->row->kernels->max(walk->logits + i, *end - i);
}

#endif
