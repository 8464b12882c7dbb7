/*
 * One row of logits, read and written block by block whatever its element types
 * and mask. Nothing is allocated and no long row is copied as a whole: a block at
 * a time is converted into a buffer on the stack, and f32 rows without a mask are
 * read in place.
 */
#ifndef WHET_VIEW_H
#define WHET_VIEW_H

#include "isa/kernels.h"
#include "whet.h"
#include <math.h>
#include <stdbool.h>

/* Floats in a block: small enough that a block and its result stay in the first-level cache. */
#define ROW_BLOCK 4096

/* Entries that are passed over together where the largest of them counts for nothing. */
#define ROW_PART KERNEL_PART

struct row_pending;

/* One row: where its logits come from, where its result goes, and what else belongs to it. */
typedef struct row_view {
    const struct kernels *kernels;
    size_t n;
    const void *in;
    const void *mask; /* or NULL */
    void *out;        /* or NULL for statistics alone */
    whet_type in_type;
    whet_type mask_type;
    whet_type out_type;
    bool has_sink;
    float sink;
    bool has_beta; /* given by the caller */
    double beta;
    int64_t position;            /* of the query */
    uint64_t visible;            /* entries that the mask leaves; 0: those that are not -inf */
    struct row_pending *pending; /* where results may be left, or NULL; see whet_row_flush */
    const float *part_max;       /* the largest logit of each ROW_PART entries, or NULL */
    bool *part_live; /* with part_max: set to false for parts of zeros, which are not stored */
} row_view;

/*
 * The logits [start, start + count) with the mask added, count <= ROW_BLOCK:
 * the row itself where it is plain f32, or `buffer` filled with them.
 */
const float *whet_row_load(const row_view *row, size_t start, size_t count, float *buffer);

/* Stores count results from position start on, rounded to the output's type. */
void whet_row_store(const row_view *row, size_t start, size_t count, const float *values);

/* The same with `values` multiplied by a factor. */
void whet_row_store_scaled(const row_view *row, size_t start, size_t count, const float *values,
                           float factor);

/* Sets a whole row's result to one value. */
void whet_row_fill(const row_view *row, float value);

/* How many logits the block at `start` has. */
size_t whet_row_block(const row_view *row, size_t start);

/*
 * The same row, to be walked several times: a short one that is not plain f32 is converted once
 * into `buffer` (ROW_BLOCK floats).
 */
row_view whet_row_hold(const row_view *row, float *buffer);

/* The row's sink, -inf for none. */
static inline float row_sink(const row_view *row) { return row->has_sink ? row->sink : -INFINITY; }

#endif
