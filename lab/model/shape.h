/*
 * A model's attention according to its file: the shape of its heads and
 * everything that bounds their logits.
 */
#ifndef WHET_LAB_MODEL_SHAPE_H
#define WHET_LAB_MODEL_SHAPE_H

#include "gguf/gguf.h"

enum { MODEL_LAYERS_MAX = 1024, MODEL_HEADS_MAX = 1024, MODEL_HEAD_DIM_MAX = 1024 };

typedef struct model_shape {
    char architecture[32];
    char name[96]; /* general.name, or "" */
    uint32_t layers;
    uint32_t width;                      /* of the residual stream */
    uint32_t heads[MODEL_LAYERS_MAX];    /* query heads of each layer */
    uint32_t kv_heads[MODEL_LAYERS_MAX]; /* 0: the layer has no attention */
    uint32_t head_dim;
    uint32_t rotated;     /* number of a head's dimensions that RoPE rotates, from the first */
    bool pairs_are_apart; /* pairs are (i, i + rotated / 2) and not (2 i, 2 i + 1) */
    bool has_head_norms;  /* queries and keys are normalised head by head */
    double rope_factor;   /* factor by which RoPE lengthens queries and keys; 1 except for YaRN */
    double scale;         /* of q . k */
    double soft_cap;      /* of logits; 0 for none */
    uint64_t context;     /* training context in tokens; 0 if the file does not say */
} model_shape;

/* Reads it; false and an error for unknown architectures, partial models and invalid numbers. */
bool model_shape_read(const gguf_file *file, model_shape *shape, lab_error *error);

/* Heads of all layers. */
size_t model_head_count(const model_shape *shape);

#endif
