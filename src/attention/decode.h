/*
 * What the files of attention over a long cache share: a task's memory and what
 * is known of its rows. decode.c explains the phases and drives them:
 * decode_plan.c divides the work and lays out memory, decode_cache.c reads keys
 * and values, decode_scores.c, decode_betas.c, decode_skip.c, decode_values.c and
 * decode_reduce.c are one phase each, except that decode_skip.c has two;
 * decode_columns.c is the part of decode_values.c for transposed values.
 */
#ifndef WHET_DECODE_H
#define WHET_DECODE_H

#include "attention/arena.h"
#include "attention/geometry.h"
#include "attention/query_sets.h"
#include "attention/skip.h"
#include "row/view.h"

#define DECODE_CONVERTED 16                /* rows of a caller's own type converted at a time */
#define DECODE_GATHERED ((size_t)32 << 10) /* bytes of listed rows that are gathered at a time */

/* A row of one slice once its beta is known. */
typedef struct decode_row {
    whet_stats stats;
    float max;        /* what to subtract: 0 where nothing is unmasked */
    float exp2_scale; /* beta log2 e */
    double sink_z, sink_s;
    bool mapped; /* the row's logits become coefficients */
    double skipped_weight, skipped_share;
} decode_row;

/* What a chunk adds to a row after beta. */
typedef struct chunk_sums {
    double z, s;
    double first; /* the weight of key 0, if the row sees it in this chunk */
} chunk_sums;

/* Rows are those of all the task's heads, one head after the other. */
typedef struct decode_work {
    kv_slice slice; /* the first */
    plan_shape shape;
    size_t row_count;
    const query_set *set; /* whose rows and keys these are, or NULL for all */
    size_t first_row;     /* of the slice's */
    size_t start, count;  /* the chunk's keys */
    size_t chunk;
    float *logits; /* of the slice's first row */
    size_t logits_stride;
    decode_row *states;
    whet_stats *pieces; /* these four of the first chunk */
    chunk_sums *sums;
    float *maxima; /* of keys, NaN if there is one; with max_logits alone */
    float *outputs;
    float *queries, *weights, *partial, *converted;
    char *gathered;
    float *unit; /* see invariant.h */
    size_t weights_stride, outputs_stride;
    /* Where maps are made row by row, of the slice's first row; NULL elsewhere, and where chunks
     * are not whole parts, as over MPI ranks: a part must belong to one task.
     * [slice][row][part]: the largest logit of ROW_PART keys, from key 0 on */
    float *part_max;
    bool *part_live; /* whether a part has coefficients other than zero: others are not stored */
    size_t parts;
    /* with skip, of the slice's first block: */
    float *block_weights; /* [slice][block][row] */
    uint32_t *block_order;
    bool *left_out;      /* [slice][block] */
    double *row_weights; /* [slice][row] */
} decode_work;

/* Rows of floats are padded to whole vectors. */
static inline size_t padded(size_t n) { return round_up(n, ROW_PAD); }

/* Where a chunk's share of a row's output goes. */
static inline float *decode_output(const decode_work *w, size_t r, size_t chunk) {
    return w->outputs + chunk * w->outputs_stride + r * padded(w->slice.attention->value_dim);
}

/* Whether a row's coefficients of the part of key j are stored. */
static inline bool decode_part_is_live(const decode_work *w, size_t r, size_t j) {
    return !w->part_live || w->part_live[r * w->parts + j / ROW_PART];
}

/* The end of the part of key j, or `high`. */
static inline size_t decode_part_end(size_t j, size_t high) {
    size_t end = (j / ROW_PART + 1) * ROW_PART;
    return end < high ? end : high;
}

/* Fetches a row's logits of a chunk, which after a phase are in the outer caches. Always inlined,
 * as whatever only prefetches must be: to GCC its calls have no effect, and it drops them. */
static inline __attribute__((always_inline)) void
decode_fetch_logits(const decode_work *w, size_t r, size_t low, size_t high) {
    const float *logits = w->logits + r * w->logits_stride;
    for (size_t j = low; r < w->row_count && j < high; j += ROW_PAD)
        __builtin_prefetch(logits + j, 0, 3);
}

/* Bytes of scratch and workspace, and the division of work; false on overflow. */
bool whet_plan_decode(whet_plan *plan, plan_shape *shape);

/* The same for keys that are part of a longer context of `all_keys`, in chunks of a given size. */
bool whet_plan_decode_part(whet_plan *plan, plan_shape *shape, size_t all_keys, size_t chunk_keys);

whet_status whet_run_decode_task(const whet_plan *plan, unsigned phase, size_t task, void *scratch,
                                 uint64_t *first_bad_row);

/* Bytes that a division of work takes; false on overflow. */
bool whet_decode_measure(const whet_attention *a, const plan_shape *shape, size_t *workspace,
                         size_t *scratch);

/* Cuts workspace and scratch into the parts of a task. */
decode_work whet_decode_start(const whet_plan *plan, size_t slice_index, size_t chunk,
                              void *scratch);

/* Finds the query sets of a plane of the mask; those of a batch; and a task's part of one of them:
 * a chunk of the set's own keys. */
void whet_decode_find_sets(const whet_plan *plan, size_t plane);
query_sets *whet_decode_sets(const whet_plan *plan, size_t batch);
decode_work whet_decode_enter_set(const whet_plan *plan, size_t slice_index, const query_set *set,
                                  size_t chunk, void *scratch);

/* Row r of the task's heads. */
query_row whet_decode_row_at(const decode_work *w, size_t r);

/* The keys of a chunk that any row sees, as [*low, *high). Heads do not differ in that. */
void whet_decode_visible_keys(const decode_work *w, size_t *low, size_t *high);

/* ---- keys and values ---- */

/* Whether the kernels can read a tensor's rows in place. */
bool whet_decode_reads_directly(const whet_tensor *tensor);

/* The same for columns of transposed values: see decode_columns.c. */
bool whet_decode_reads_columns(const whet_tensor *tensor);

/* The first of `count` rows of keys or values from `start` on, of all the task's heads: as many as
 * can be read in place, or some that were gathered. */
kv_rows whet_decode_cache(const decode_work *w, const whet_tensor *tensor, size_t start,
                          size_t count, size_t depth);

/* Converts rows [start, start + count) of a tensor to w->converted, count <= DECODE_CONVERTED; and
 * describes those rows for the kernels. */
void whet_decode_convert(const decode_work *w, const whet_tensor *tensor, size_t start,
                         size_t count, size_t dim);
kv_rows whet_decode_converted(const decode_work *w, size_t count, size_t dim);

/* ---- the phases ---- */

/* Clears the outputs of some rows in the chunk, and whether they are finite. */
void whet_decode_clear_outputs(decode_work *w, size_t first_row, size_t row_count);
bool whet_decode_outputs_are_finite(const decode_work *w, size_t first_row, size_t row_count);

/* Logits and statistics of a chunk. */
void whet_decode_score_chunk(decode_work *w);

/* A row's statistics, and its beta or its map's coefficients. */
void whet_decode_choose_beta(decode_work *w, size_t r);

/* Whether weights are those of all logits, so that no pass over whole rows makes them. */
bool whet_decode_has_exponentials(const map_descriptor *map);

/* With skip, before the values: weights of a chunk in place of its logits, and of its blocks; then
 * the blocks of a slice that are left out. Where beta is known in advance, weights relative to a
 * chunk's maximum are made with its logits, in the nearest cache, and only their sums are brought
 * to that of the row. */
static inline bool decode_weighs_early(const decode_work *w) {
    return w->shape.fused && w->slice.attention->skip > 0;
}
void whet_decode_weigh_early(decode_work *w, size_t r, size_t low, size_t high);
void whet_decode_weigh_chunk(decode_work *w);
void whet_decode_choose_blocks(decode_work *w);

/* Makes the weights of keys [from, to) zero where their head leaves them out; and copies weights to
 * w->weights, which begin at key `low`. Once a chunk's values are added, its outputs are multiplied
 * by what weights that were made early still lack. */
void whet_decode_clear_left_out(const decode_work *w, size_t from, size_t to);
void whet_decode_copy_weights(decode_work *w, size_t low, size_t from, size_t to);
void whet_decode_finish_outputs(decode_work *w);

/* The next keys from *to on, up to `high`, that some head does not leave out; false for none. */
bool whet_decode_next_run(const decode_work *w, size_t high, size_t *from, size_t *to);

/* Weights of a chunk, and what they select of the values. */
void whet_decode_value_chunk(decode_work *w);

/* Adds the values of keys [from, to) to the outputs, column by column; the weights begin at key
 * `low`. */
void whet_decode_add_columns(decode_work *w, size_t low, size_t from, size_t to);

/* The parts of that for rows whose chunks are in several places. `total` is what all of them come
 * to, with the sink; the extras are what belongs to the normalisation besides the keys. */
void whet_decode_start_row(decode_row *state, const query_row *row, whet_stats *total);
void whet_decode_set_beta(decode_row *state, double beta);
void whet_decode_weigh_extras(decode_row *state, const query_row *row);

/* Adds up a row's chunks and writes its output. `status` is that of the rows before it. */
whet_status whet_decode_reduce_row(decode_work *w, size_t r, uint64_t *first_bad_row,
                                   whet_status status);

/* The last step of that, from the sums over all chunks and the extras. */
whet_status whet_decode_finish_row(decode_work *w, size_t r, chunk_sums sums, const double *total,
                                   uint64_t *first_bad_row, whet_status status);

#endif
