/* A trained model: its configuration and learned parameters; from a trainer or from a
 * checkpoint. */
#ifndef WHET_LAB_RETRIEVAL_HEAD_H
#define WHET_LAB_RETRIEVAL_HEAD_H

#include "retrieval/model.h"

typedef struct retrieval_head {
    retrieval_config config;
    uint64_t seed;
    uint64_t step;
    float *parameters; /* [layout.count] */
} retrieval_head;

/* From a checkpoint. */
bool retrieval_head_load(const char *path, retrieval_head *head, lab_error *error);
void retrieval_head_free(retrieval_head *head); /* a zeroed one is fine */

/* The model of a head, for the functions of model.h; valid as long as the head. */
retrieval_model retrieval_head_model(const retrieval_head *head, const nn_engine *engine);

/*
 * All heads of a path: a checkpoint, a file of heads (head_file.h), or a folder
 * with seed-*.ckpt, in the order of their seeds. To be freed with
 * retrieval_heads_free.
 */
typedef struct retrieval_heads {
    retrieval_head *list;
    size_t count;
} retrieval_heads;
bool retrieval_heads_load(const char *path, retrieval_heads *heads, lab_error *error);
void retrieval_heads_free(retrieval_heads *heads);

#endif
