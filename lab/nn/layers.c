/* Layers: the products go to the BLAS, the loops to the kernels. */
#include "nn/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool nn_engine_open(nn_engine *engine, lab_error *error) {
    *engine = (nn_engine){.kernels = nn_kernels_for_this_machine()};
    return nn_blas_open(&engine->blas, error);
}

void nn_engine_close(nn_engine *engine) { nn_blas_close(&engine->blas); }

float *nn_floats(size_t count) {
    if (count > SIZE_MAX / 8)
        return NULL;
    size_t bytes = (count + 15) / 16 * 64;
    float *block = aligned_alloc(64, bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

void nn_run_tasks(const whet_executor *executor, size_t tasks, whet_task_function function,
                  void *argument) {
    if (executor && tasks > 1)
        executor->parallel_for(executor->context, tasks, function, argument);
    else
        for (size_t task = 0; task < tasks; task++)
            function(argument, task, 0);
}

void nn_product_of(const nn_engine *engine, nn_product shape, const float *a, const float *b,
                   float *c) {
    if (engine->record && engine->record->count++ < NN_RECORD_MAX)
        engine->record->list[engine->record->count - 1] = (nn_recorded){shape, a, b, c};
    if (shape.m <= NN_SMALL_MAX && shape.n <= NN_SMALL_MAX && shape.k <= NN_SMALL_MAX)
        engine->kernels->multiply(shape, a, b, c);
    else
        nn_multiply(&engine->blas, shape, a, b, c);
}

void nn_dense_forward(const nn_engine *engine, const nn_dense *layer, size_t rows, const float *x,
                      float *y) {
    nn_product_of(engine, (nn_product){.m = rows, .n = layer->out, .k = layer->in}, x,
                  layer->weight, y);
    if (layer->bias)
        engine->kernels->bias_forward(y, layer->bias, rows, layer->out);
}

void nn_dense_backward(const nn_engine *engine, const nn_dense *layer, size_t rows, const float *x,
                       const float *grad_y, float *grad_x, float *grad_weight, float *grad_bias) {
    nn_product_of(engine,
                  (nn_product){.m = layer->in, .n = layer->out, .k = rows, .ta = true, .add = true},
                  x, grad_y, grad_weight);
    if (layer->bias)
        engine->kernels->bias_backward(grad_y, rows, layer->out, grad_bias);
    if (grad_x)
        nn_product_of(engine, (nn_product){.m = rows, .n = layer->in, .k = layer->out, .tb = true},
                      grad_y, layer->weight, grad_x);
}

static size_t largest_of(const float *row, size_t count) {
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        if (row[i] > row[largest])
            largest = i;
    return largest;
}

size_t nn_cross_entropy(const float *logits, const uint16_t *labels, size_t rows, size_t classes,
                        float scale, float *losses, float *grad) {
    size_t correct = 0;
    for (size_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        size_t top = largest_of(row, classes);
        double max = row[top], sum = 0;
        float own = row[labels[r]];
        for (size_t c = 0; c < classes; c++) {
            double share = exp(row[c] - max);
            sum += share;
            if (grad)
                grad[r * classes + c] = (float)share;
        }
        correct += top == labels[r];
        if (losses)
            losses[r] = (float)(max + log(sum) - own);
        for (size_t c = 0; grad && c < classes; c++) {
            double share = grad[r * classes + c] / sum;
            grad[r * classes + c] = (float)(scale * (share - (c == labels[r])));
        }
    }
    return correct;
}

void nn_truncated_normal(lab_random *random, float *values, size_t count, double deviation) {
    const double shrink = 0.8796256610342398; /* the deviation of a normal truncated at two */
    for (size_t i = 0; i < count; i++) {
        double z;
        do
            z = lab_random_normal(random);
        while (fabs(z) > 2);
        values[i] = (float)(z * deviation / shrink);
    }
}

float nn_round_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += 0x7FFF + ((bits >> 16) & 1);
    bits &= 0xFFFF0000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}
