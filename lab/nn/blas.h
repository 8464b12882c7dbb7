/*
 * Matrix products by OpenBLAS, which is loaded at run time: it chooses its
 * kernels while it is loaded, and often chooses badly by itself.
 */
#ifndef WHET_LAB_BLAS_H
#define WHET_LAB_BLAS_H

#include "base/error.h"
#include "nn/product.h"

#include <stddef.h>

typedef void (*nn_sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                         float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                         float *c, int ldc);

enum { NN_BLAS_TEXT_SIZE = 128 };

typedef struct nn_blas {
    void *library;
    nn_sgemm sgemm;
    void *(*map_buffer)(int); /* OpenBLAS's own, for nn_blas_reserve; NULL in other libraries */
    void (*leave_buffer)(void *);
    char description[NN_BLAS_TEXT_SIZE]; /* "OpenBLAS 0.3.21, kernels for Zen" */
} nn_blas;

/*
 * Loads the library named by WHET_BLAS, or OpenBLAS, to be used from any number
 * of threads, each product on the thread that asks for it. Must come before
 * anything else has loaded it.
 */
bool nn_blas_open(nn_blas *blas, lab_error *error);
void nn_blas_close(nn_blas *blas);

/*
 * Makes sure that OpenBLAS has the memory for products on this many threads at a
 * time. Without it a product that finds no memory waits for it for ever.
 */
bool nn_blas_reserve(const nn_blas *blas, size_t threads, lab_error *error);

/* By the BLAS, whatever the size; layers use nn_product_of. */
void nn_multiply(const nn_blas *blas, nn_product shape, const float *a, const float *b, float *c);

#endif
