/*
 * The products of attention by OpenBLAS, which lab/nn loads with the right
 * kernels.
 */
#include "blas.h"

#include "inputs.h"

#include <stdio.h>
#include <stdlib.h>

bool bench_blas_open(blas *opened, char *description, size_t description_size) {
    *opened = (blas){.scores = NULL};
    lab_error error = {.kind = LAB_NO_ERROR};
    if (nn_blas_open(&opened->library, &error)) {
        opened->scores = bench_inputs_allocate((size_t)BLAS_ROWS * BLAS_KEYS_MAX * sizeof(float));
        if (!opened->scores)
            lab_fail_memory(&error);
    }
    if (opened->scores) {
        snprintf(description, description_size, "%s", opened->library.description);
        return true;
    }
    bench_blas_close(opened);
    snprintf(description, description_size, "none (%s)", error.text);
    return false;
}

void bench_blas_close(blas *opened) {
    nn_blas_close(&opened->library);
    bench_inputs_release(opened->scores);
    *opened = (blas){.scores = NULL};
}

void bench_blas_products(void *argument) {
    const blas_work *work = argument;
    const nn_blas *with = &work->with->library;
    float *scores = work->with->scores;
    size_t dim = work->dim;
    size_t step = work->causal ? BLAS_ROWS_CAUSAL : BLAS_ROWS;
    for (size_t first = 0; first < work->n; first += step) {
        size_t rows = work->n - first < step ? work->n - first : step;
        size_t keys = work->causal ? first + rows : work->n;
        nn_multiply(with, (nn_product){.m = rows, .n = keys, .k = dim, .tb = true},
                    work->q + first * dim, work->k, scores);
        nn_multiply(with, (nn_product){.m = rows, .n = dim, .k = keys}, scores, work->v,
                    work->out + first * dim);
    }
}

void bench_blas_replay(const nn_blas *library, const nn_record *record) {
    for (size_t i = 0; i < record->count; i++) {
        const nn_recorded *product = &record->list[i];
        nn_multiply(library, product->shape, product->a, product->b, product->c);
    }
}
