/*
 * A model's matrices in the form that products like best (nn_kernels.pack), made
 * once and shared by all decoders of a model. Takes as much memory as the model.
 */
#ifndef WHET_LAB_LM_PACKED_H
#define WHET_LAB_LM_PACKED_H

#include "lm/model.h"
#include "nn/layers.h"

typedef struct lm_packed {
    const lm_model *model; /* must outlive it */
    const nn_engine *engine;
    float *values;
    /* Where matrices begin: of a layer, relative to that layer. */
    size_t qkv, output, gates, down, layer_size, head;
} lm_packed;

bool lm_packed_create(const lm_model *model, const nn_engine *engine, lm_packed *packed,
                      lab_error *error);
void lm_packed_free(lm_packed *packed); /* fine for a zeroed one */

#endif
