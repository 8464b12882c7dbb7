/*
 * Matrix products by OpenBLAS, which is loaded late: which kernels it uses is
 * settled while it is loaded, and it often chooses wrongly by itself.
 */
#ifndef WHET_LAB_BLAS_H
#define WHET_LAB_BLAS_H

#include "base/error.h"

#include <stddef.h>

typedef void (*nn_sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                         float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                         float *c, int ldc);

enum { NN_BLAS_TEXT_SIZE = 128 };

typedef struct nn_blas {
    void *library;
    nn_sgemm sgemm;
    char description[NN_BLAS_TEXT_SIZE]; /* "OpenBLAS 0.3.21, kernels for Zen" */
} nn_blas;

/*
 * Loads the library named by WHET_BLAS, or OpenBLAS, to be used from any number
 * of threads, each product on the thread that asks for it. Must come before
 * anything else has loaded it.
 */
bool nn_blas_open(nn_blas *blas, lab_error *error);
void nn_blas_close(nn_blas *blas);

/* A product, row-major: c[m][n] = a b + (add ? c : 0), where a is [m][k], or [k][m] if `ta`, and b
 * is [k][n], or [n][k] if `tb`. */
typedef struct nn_product {
    size_t m, n, k;
    bool ta, tb, add;
} nn_product;

void nn_multiply(const nn_blas *blas, nn_product shape, const float *a, const float *b, float *c);

#endif
