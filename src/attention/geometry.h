/*
 * The head, query, policy, keys and address of a row. All rows that use the same key head
 * are computed together: row r of key head g is query r / heads_per_kv of query head g *
 * heads_per_kv + r % heads_per_kv, so that these heads read keys and values once and
 * adjacent lanes of a panel see almost the same keys.
 */
#ifndef WHET_GEOMETRY_H
#define WHET_GEOMETRY_H

#include "attention/plan.h"
#include "policy/beta.h"
#include "policy/registry.h"
#include "row/one_row.h"
#include "row/stats.h"
#include "whet.h"

#define HEAD_DIM_MAX 576

/* The keys that a task takes, in order: `first` and every `step`-th one after it, or those listed.
 * Whatever counts keys counts their places here; only where memory is read does it matter which key
 * is at a place. */
typedef struct key_list {
    const uint32_t *keys; /* NULL: first + place * step */
    size_t first, step;
} key_list;

static inline size_t key_at(const key_list *list, size_t place) {
    return list->keys ? list->keys[place] : list->first + place * list->step;
}

/* How many keys from a place on are contiguous in memory, up to the place `end`. */
size_t whet_contiguous_keys(const key_list *list, size_t place, size_t end);

/* One key head of one batch: its keys and values, and the rows of all query heads that use it. */
typedef struct kv_slice {
    const whet_attention *attention;
    const kernels *kernels;
    size_t heads_per_kv;
    size_t batch, kv_head;
    float *row_maxima; /* where rows note their largest logits, or NULL */
    key_list list;     /* all keys, unless a task leaves some out */
} kv_slice;

/* One query row. */
typedef struct query_row {
    size_t head, query;
    int64_t position; /* among the keys: what limits and ALiBi go by */
    int64_t token;    /* of its token: what policies go by */
    size_t low, high; /* the keys it may see, by their places: low <= j < high */
    const whet_policy *policy;
    const temperature_descriptor *temperature; /* its two parts */
    const map_descriptor *map;
    float sink; /* of its head; -inf for none */
} query_row;

kv_slice whet_slice_at(const whet_plan *plan, const plan_shape *shape, size_t index);
query_row whet_row_of(const kv_slice *slice, size_t r);

/* Extends the range of keys [*low, *high) by those that a row may see. */
static inline void widen_limits(const query_row *row, size_t *low, size_t *high) {
    if (row->low < *low)
        *low = row->low;
    if (row->high > *high)
        *high = row->high;
}

/* The index of a row into [batch][head][query], and its statistics there, or NULL. */
uint64_t whet_row_index(const kv_slice *slice, const query_row *row);
whet_stats *whet_row_stats(const kv_slice *slice, const query_row *row);

/* Whether a row has anything to choose a beta from. */
static inline bool row_has_beta(const whet_stats *stats) {
    return stats->n > 0 && !(stats->flags & WHET_ROW_NOT_FINITE);
}

/* Notes a row that is not finite: the first of them, and WHET_NOT_FINITE for the result. `status`
 * is that of the rows before it. */
whet_status whet_note_bad_row(const kv_slice *slice, const query_row *row, whet_status status,
                              uint64_t *first_bad_row);

/* Bytes from a tensor's address to a row. */
static inline ptrdiff_t tensor_offset(const ptrdiff_t stride[4], size_t batch, size_t head,
                                      size_t position) {
    return (ptrdiff_t)batch * stride[0] + (ptrdiff_t)head * stride[1] +
           (ptrdiff_t)position * stride[2];
}

/* Reads a row of n elements of a tensor that has a position for each query. */
const float *whet_load_row(const kv_slice *slice, const whet_tensor *tensor, const query_row *row,
                           size_t n, float *buffer);

/* Reads a query row, multiplied by the scale. */
void whet_load_query(const kv_slice *slice, const query_row *row, float *result);

/* The key or value row at place j as floats: itself if it is plain f32, else in `buffer`. */
const float *whet_load_position(const kv_slice *slice, const whet_tensor *tensor, size_t j,
                                size_t dim, float *buffer);

/* The address of the key or value row at place j. */
const char *whet_position_at(const kv_slice *slice, const whet_tensor *tensor, size_t j);

/* Whether the positions of an element are contiguous instead of the elements of a position. */
bool whet_is_transposed(const whet_tensor *tensor);

/* Writes a row of n elements at a head and position of the slice's batch, in the tensor's type. */
void whet_store_row(const kv_slice *slice, const whet_tensor_out *tensor, size_t head,
                    size_t position, const float *values, size_t n);

/* Writes a finished output row in its type. */
void whet_store_output(const kv_slice *slice, const query_row *row, const float *values);

#endif
