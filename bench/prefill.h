/*
 * The prefill problem of the benchmark in any shape: its tensors, its
 * description and its FLOPs.
 */
#ifndef WHET_BENCH_PREFILL_H
#define WHET_BENCH_PREFILL_H

#include "whet.h"

#include <stdbool.h>

typedef struct prefill_shape {
    size_t queries, keys, dim;
    bool causal; /* if set, there are as many queries as keys */
} prefill_shape;

/* f32, one head: [queries][dim] and [keys][dim]; up to 131,072 x 64, or as many numbers in another
 * shape. */
typedef struct prefill_tensors {
    float *q, *k, *v, *out;
} prefill_tensors;

/* False when memory runs out; must be closed in either case. */
bool bench_prefill_open(prefill_tensors *opened);
void bench_prefill_close(prefill_tensors *opened);

/* Fills the tensors and describes the problem, with the spread of logits that
 * bench_inputs_deviation gives for a row of all keys. */
whet_attention bench_prefill_prepare(const prefill_tensors *in, const prefill_shape *of);

/* Of unmasked products only. */
double bench_prefill_flops(const prefill_shape *of);

#endif
