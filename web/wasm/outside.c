/*
 * What the laboratory takes from outside on other targets: products too large for its own loops,
 * which go to a BLAS; signals; and JSON, of which models from GGUF files have none.
 */
#include "base/json.h"
#include "base/signals.h"
#include "nn/kernels.h"
#include "nn/layers.h"

bool lab_interrupted(void) { return false; }

void json_delete(json_t *json) { (void)json; }

/* Rows of a are independent; no matrix of a page's models has more than NN_SMALL_MAX columns. */
void nn_multiply(const nn_blas *blas, nn_product shape, const float *a, const float *b, float *c) {
    (void)blas;
    nn_product part = shape;
    for (size_t done = 0; done < shape.m; done += part.m) {
        part.m = shape.m - done < NN_SMALL_MAX ? shape.m - done : NN_SMALL_MAX;
        nn_kernels_for_this_machine()->multiply(part, a + done * shape.k, b, c + done * shape.n);
    }
}
