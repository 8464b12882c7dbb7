/*
 * OpenBLAS as a peer: its sgemm on the products that attention consists of,
 * and nothing between them. It is loaded at run time where it is installed, so
 * that nothing here depends on it.
 */
#ifndef WHET_BENCH_BLAS_H
#define WHET_BENCH_BLAS_H

#include "nn/layers.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct blas {
    nn_blas library;
    float *scores; /* [BLAS_ROWS][BLAS_KEYS_MAX]; NULL where there is no BLAS */
} blas;

/* Query rows taken at a time, so that scores are never n x n. Fewer when causal: less is multiplied
 * beyond the diagonal. */
enum { BLAS_ROWS = 512, BLAS_ROWS_CAUSAL = 256, BLAS_KEYS_MAX = 8192 };

typedef struct blas_work {
    const blas *with;
    const float *q, *k, *v; /* [n][dim] */
    float *out;             /* [n][dim] */
    size_t n;               /* up to BLAS_KEYS_MAX */
    size_t dim;
    bool causal; /* leave out the keys beyond each block's last query */
} blas_work;

/*
 * Loads the library named by WHET_BLAS, or OpenBLAS, for one thread, and
 * describes in `description` what was found. Must be called before anything
 * else has loaded it, since the kernels are chosen then.
 */
bool bench_blas_open(blas *opened, char *description, size_t description_size);
void bench_blas_close(blas *opened);

/* Repeats products that layers asked for, on the same memory. */
void bench_blas_replay(const nn_blas *library, const nn_record *record);

/* scores = q k^T, out = scores v; the argument is a blas_work. */
void bench_blas_products(void *argument);

#endif
