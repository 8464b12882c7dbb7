/*
 * The way back through an example: the gradients that the library computes, in
 * guarded memory and any layout, and their comparison with the reference.
 */
#ifndef WHET_TESTS_ATTENTION_WAY_BACK_H
#define WHET_TESTS_ATTENTION_WAY_BACK_H

#include "attention/example.h"

/*
 * The limit, relative to the size of what a gradient is summed from (see
 * reference_gradients). Logits and gradients of weights are products in f32, off by some
 * 1e-7 of their size; where beta times the largest logit is beyond SHARP it grows
 * in proportion, as for outputs.
 */
#define GRADIENT_LIMIT 1e-5

typedef struct way_back {
    whet_gradients gradients; /* everything asked for; take away what is not wanted */
    example_tensor out;       /* the gradient of the output, random */
    example_tensor q, k, v;   /* of k and v nothing if they are custom */
    whet_status status;       /* of the last run */
    uint64_t first_bad_row;   /* UINT64_MAX for none */
} way_back;

/* Goes forth and prepares the way back; all memory is the example's. The gradient of a bias has
 * the axes of the bias. */
way_back way_back_new(example *e, whet_type type);

/* Random gradients of statistics, that of entropy_after where all maps sum to one. */
void way_back_statistics(way_back *w, example *e);

/* The gradient of the bias gets these axes, in memory of its own. */
void way_back_bias_gradient(way_back *w, example *e, unsigned axes);

void way_back_run(way_back *w, const whet_executor *executor);

/* All gradients one after the other, for comparisons bit for bit; free it. */
unsigned char *way_back_bytes(const way_back *w, size_t *size);

/* Compares what was run with the reference. */
void way_back_compare(const way_back *w, const char *what);

/* All of it, and the example freed: new, run, compare. */
void way_back_check(example *e, whet_type type, const char *what);

/* Prints the worst error since the last time. */
void way_back_print_worst(void);

#endif
