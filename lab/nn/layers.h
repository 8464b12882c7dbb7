/*
 * Layers as pairs of functions, forward and backward, with their shapes. All
 * matrices are row-major; rows are sets or items, [rows][features].
 */
#ifndef WHET_LAB_LAYERS_H
#define WHET_LAB_LAYERS_H

#include "base/random.h"
#include "nn/blas.h"
#include "nn/kernels.h"
#include "whet.h"

#include <stddef.h>
#include <stdint.h>

/* A record of products, for a benchmark that repeats them by the BLAS alone. */
enum { NN_RECORD_MAX = 1024 };
typedef struct nn_recorded {
    nn_product shape;
    const float *a, *b;
    float *c;
} nn_recorded;
typedef struct nn_record {
    nn_recorded list[NN_RECORD_MAX];
    size_t count; /* products beyond the list are only counted */
} nn_record;

/* What layers compute with. */
typedef struct nn_engine {
    nn_blas blas;
    const nn_kernels *kernels;
    nn_record *record; /* or NULL; for one thread */
} nn_engine;

/* Loads the BLAS and chooses kernels. */
bool nn_engine_open(nn_engine *engine, lab_error *error);
void nn_engine_close(nn_engine *engine);

/* Zeroed floats, aligned for vectors, to be freed; NULL when memory runs out. */
float *nn_floats(size_t count);

/* Runs tasks by an executor, or sequentially if it is NULL. */
void nn_run_tasks(const whet_executor *executor, size_t tasks, whet_task_function function,
                  void *argument);

/* A product: small ones by our own loops, which are faster there, others by the BLAS. */
void nn_product_of(const nn_engine *engine, nn_product shape, const float *a, const float *b,
                   float *c);

typedef struct nn_dense {
    size_t in, out;
    const float *weight; /* [in][out] */
    const float *bias;   /* [out], or NULL */
} nn_dense;

/* y[rows][out] = x[rows][in] weight + bias */
void nn_dense_forward(const nn_engine *engine, const nn_dense *layer, size_t rows, const float *x,
                      float *y);

/* grad_x[rows][in] = grad_y weight^T (set; may be NULL); grad_weight += x^T grad_y; grad_bias +=
 * column sums of grad_y (where there is a bias). */
void nn_dense_backward(const nn_engine *engine, const nn_dense *layer, size_t rows, const float *x,
                       const float *grad_y, float *grad_x, float *grad_weight, float *grad_bias);

/*
 * Cross-entropy of softmax(logits[rows][classes]) with the labels: the loss of each row (may be
 * NULL), and grad = scale (softmax - onehot), which may be NULL or alias logits. Returns the
 * number of rows whose label has the largest logit.
 */
size_t nn_cross_entropy(const float *logits, const uint16_t *labels, size_t rows, size_t classes,
                        float scale, float *losses, float *grad);

/* Normal numbers truncated at two standard deviations; `deviation` is that of the truncated
 * distribution. */
void nn_truncated_normal(lab_random *random, float *values, size_t count, double deviation);

/* The nearest bfloat16. */
float nn_round_to_bf16(float value);

#endif
