/*
 * What the files of the target for attention share: a description with the
 * memory behind it, and the steps from an input to the last check.
 * fuzz_attention.c takes them; attention_layout.c lays tensors into memory,
 * attention_problem.c makes a description from an input, attention_rows.c knows
 * what must hold of a row, attention_backward.c runs the backward pass, attention_hostile.c
 * has sizes that no memory has.
 */
#ifndef WHET_FUZZ_ATTENTION_PROBLEM_H
#define WHET_FUZZ_ATTENTION_PROBLEM_H

#include "elements.h"
#include "input.h"
#include "whet.h"

enum { DIM_MAX = 576 };

enum { BATCH, HEAD, POSITION, ELEMENT };

/* A description and the memory behind it. */
typedef struct problem {
    whet_attention attention;
    fuzz_array q, k, v, out, mask, bias;
    unsigned char *stats;
    size_t stats_bytes;
    float *sinks, *alibi_slopes, *betas;
    unsigned char *max_logits;
    size_t max_logits_bytes;
    whet_policy *policies;
    double beta;  /* of custom policies */
    float unit;   /* of custom elements */
    bool is_tame; /* scale, soft cap, slopes and sinks of a usual size */
    bool is_wrong;
} problem;

/* Zeros mean something: these are what is meant. */
static inline size_t batches(const whet_attention *a) { return a->batch ? a->batch : 1; }
static inline size_t kv_heads(const whet_attention *a) {
    return a->kv_heads ? a->kv_heads : a->heads;
}
static inline size_t value_dim(const whet_attention *a) {
    return a->value_dim ? a->value_dim : a->head_dim;
}

/* One row of the result. */
typedef struct row_name {
    size_t batch, head, query;
} row_name;

/* The key head that a row's head reads. */
static inline size_t kv_head_of(const whet_attention *a, const row_name *row) {
    return row->head / (a->heads / kv_heads(a));
}

/* ---- layouts ---- */

static inline bool is_quantised(const fuzz_array *array) {
    return type_block_bytes(array->type) > 0;
}

/*
 * Strides for the counts of an array: axes in any order, each with some space to
 * the next, any of them backwards. A broadcast axis has stride 0.
 */
void choose_strides(fuzz_input *input, fuzz_array *array, bool may_broadcast);

/* Lays an array out and says so in `stride`. */
void lay_out(problem *made, fuzz_input *input, fuzz_array *array, bool may_broadcast,
             ptrdiff_t stride[FUZZ_AXES]);

/* Fills an array with random elements of its type. */
void fill_array(const fuzz_array *array, uint64_t seed, fuzz_temper temper);

/* An element as a number, whatever its type. */
float value_at(const problem *made, const fuzz_array *array, size_t a, size_t b, size_t c,
               size_t d);

/* ---- the steps ---- */

void make_problem(problem *made, fuzz_input *input);
void free_problem(problem *made);

/* A row's statistics; NULL if they were not asked for. */
const whet_stats *stats_of(const problem *made, const row_name *row);

/* Every row against plain arithmetic, and the first bad one against what was reported. */
void check_rows(const problem *made, whet_status status, uint64_t first_bad);

/* A whole plan, and one task by task from the last to the first, in memory full of NaN. */
whet_status run_at_once(const whet_plan *plan, uint64_t *first_bad);
whet_status run_backwards(whet_plan plan, uint64_t *first_bad);

/* The backward pass of a problem whose forward pass had this status. */
void run_backward(problem *made, fuzz_input *input, whet_status forward);

/* Plans for sizes that no memory has. */
void run_hostile(fuzz_input *input);

#endif
