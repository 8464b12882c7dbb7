/*
 * A model's matrices packed for products (nn_kernels.pack), made once and
 * shared by all decoders of a model. Takes as much memory as the model.
 */
#ifndef WHET_LAB_LM_MATRICES_H
#define WHET_LAB_LM_MATRICES_H

#include "lm/model.h"
#include "nn/layers.h"

typedef struct lm_matrices {
    const lm_model *model; /* must outlive it */
    const nn_engine *engine;
    float *values;
    /* Where matrices begin: of a layer, relative to that layer. */
    size_t qkv, output, gates, down, layer_size, head;
} lm_matrices;

bool lm_matrices_create(const lm_model *model, const nn_engine *engine, lm_matrices *packed,
                        lab_error *error);
void lm_matrices_free(lm_matrices *packed); /* a zeroed one is fine */

#endif
