/*
 * What the files of src/attention share: the plan's own part, and the answers
 * to "which head, query, policy, keys does this row have, and where does it
 * lie?". All rows that use the same key head are taken together: row r of key
 * head g is query r / group of query head g * group + r % group, so that the
 * heads of a group read keys and values once and neighbours in a panel see
 * almost the same keys.
 */
#ifndef WHET_PROBLEM_H
#define WHET_PROBLEM_H

#include "isa/kernels.h"
#include "row/row.h"
#include "whet.h"
#include <stdbool.h>

#define HEAD_DIM_MAX 576

enum { PATH_PREFILL = 0, PATH_DECODE = 1, PATH_BACKWARD = 2 };

/* Kept in whet_plan.internal. */
typedef struct plan_shape {
    const kernels *kernels;
    uint64_t path;
    uint64_t group;      /* query heads to a key head */
    uint64_t rows;       /* group * queries */
    uint64_t streams;    /* batch * kv_heads */
    uint64_t fused;      /* every row's beta is known beforehand: one pass is enough */
    uint64_t counted;    /* somebody asks for the number of unmasked keys */
    uint64_t mapped;     /* some policy is not a temperature */
    uint64_t summed;     /* prefill: somebody asks for Z and S before the output is computed */
    uint64_t searched;   /* prefill: some map looks for a threshold in all logits of a row */
    uint64_t backwards;  /* prefill: outputs are summed from the last key to the first */
    uint64_t panels;     /* prefill: panels to a task; backward: panels taken together */
    uint64_t kept;       /* prefill: logits are kept rather than computed twice */
    uint64_t chunks;     /* decode, backward: tasks to a stream */
    uint64_t together;   /* decode: key heads to a task, */
    uint64_t chunk_keys; /* and keys */
} plan_shape;

_Static_assert(sizeof(plan_shape) <= sizeof(((whet_plan *)0)->internal), "plan too small");

/* One key head of one batch, with everything a task needs to know. */
typedef struct key_stream {
    const whet_attention *attention;
    const kernels *kernels;
    size_t group;
    size_t batch, kv_head;
} key_stream;

/* One query row. */
typedef struct query_row {
    size_t head, query;
    int64_t position; /* among the keys */
    size_t low, high; /* the keys it may see: low <= j < high */
    const whet_policy *policy;
} query_row;

plan_shape whet_shape_of(const whet_plan *plan);
key_stream whet_stream_at(const whet_plan *plan, const plan_shape *shape, size_t index);
query_row whet_row_of(const key_stream *stream, size_t r);

/* The index of a row into [batch][head][query], and its statistics there (NULL: not wanted). */
uint64_t whet_row_index(const key_stream *stream, const query_row *row);
whet_stats *whet_row_stats(const key_stream *stream, const query_row *row);

/* Reads a row of n elements of a tensor that has a position for each query. */
const float *whet_load_row(const key_stream *stream, const whet_tensor *tensor,
                           const query_row *row, size_t n, float *buffer);

/* The keys a row sees, mask and all, without looking at any logit. */
size_t whet_count_visible(const key_stream *stream, const query_row *row);

/* Reads a query row, multiplied by the scale. */
void whet_load_query(const key_stream *stream, const query_row *row, float *result);

/* Key or value row j as floats: where it lies if it is plain f32, else in `buffer`. */
const float *whet_load_position(const key_stream *stream, const whet_tensor *tensor, size_t j,
                                size_t dim, float *buffer);

/* The address of key or value row j. */
const char *whet_position_at(const key_stream *stream, const whet_tensor *tensor, size_t j);

/* Writes a row of n elements at a head and position of the stream's batch, in the tensor's type. */
void whet_store_row(const key_stream *stream, const whet_tensor_out *tensor, size_t head,
                    size_t position, const float *values, size_t n);

/* Writes a finished output row in its type. */
void whet_store_output(const key_stream *stream, const query_row *row, const float *values);

/* Adds the mask's entries for keys [start, start + count) to a row's logits, and for all rows of a
 * tile, a row to a lane. */
void whet_add_mask_row(const key_stream *stream, const query_row *row, size_t start, size_t count,
                       float *logits);
void whet_add_mask_tile(const key_stream *stream, const query_row *row, size_t rows, size_t start,
                        size_t keys, float *tile);

whet_status whet_run_prefill_task(const whet_plan *plan, size_t task, void *scratch,
                                  uint64_t *first_bad_row);
whet_status whet_run_decode_task(const whet_plan *plan, unsigned phase, size_t task, void *scratch,
                                 uint64_t *first_bad_row);

whet_status whet_run_backward_task(const whet_plan *plan, unsigned phase, size_t task,
                                   void *scratch, uint64_t *first_bad_row);

/* Bytes of scratch and workspace, false on overflow; they divide the work, too. */
bool whet_plan_prefill(whet_plan *plan, plan_shape *shape);
bool whet_plan_decode(whet_plan *plan, plan_shape *shape);
bool whet_plan_backward(whet_plan *plan, plan_shape *shape);

#endif
