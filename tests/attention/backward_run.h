/*
 * The backward pass of an example: the gradients that the library computes, in
 * guarded memory and any layout, and their comparison with the reference.
 */
#ifndef WHET_TESTS_ATTENTION_BACKWARD_RUN_H
#define WHET_TESTS_ATTENTION_BACKWARD_RUN_H

#include "attention/example.h"

/*
 * The limit, relative to the size of what a gradient is summed from (see
 * reference_gradients). Logits and gradients of weights are products in f32, off by some
 * 1e-7 of their size; where beta times the largest logit is beyond SHARP it grows
 * in proportion, as for outputs.
 */
#define GRADIENT_LIMIT 1e-5

typedef struct backward_run {
    whet_gradients gradients; /* everything asked for; take away what is not wanted */
    example_tensor out;       /* the gradient of the output, random */
    example_tensor q, k, v;   /* of k and v nothing if they are custom */
    whet_status status;       /* of the last run */
    uint64_t first_bad_row;   /* UINT64_MAX for none */
} backward_run;

/* Runs the forward pass and prepares the backward pass; all memory is the example's. The gradient
 * of a bias has the axes of the bias. */
backward_run backward_run_new(example *e, whet_type type);

/* Random gradients of statistics, that of entropy_after where all maps sum to one. */
void backward_run_statistics(backward_run *w, example *e);

/* The gradient of the bias gets these axes, in memory of its own. */
void backward_run_bias_gradient(backward_run *w, example *e, unsigned axes);

void backward_run_now(backward_run *w, const whet_executor *executor);

/* All gradients one after the other, for comparisons bit for bit; free it. */
unsigned char *backward_run_bytes(const backward_run *w, size_t *size);

/* Compares what was run with the reference. */
void backward_run_compare(const backward_run *w, const char *what);

/* All of it, and the example freed: new, run, compare. */
void backward_run_check(example *e, whet_type type, const char *what);

/* Prints the worst error since the last time. */
void backward_run_print_worst(void);

#endif
