/*
 * A model: its shape, its tokens and its weights; from a checkpoint of training or from elsewhere.
 * Checkpoints are those of nn/checkpoint.h, described by one JSON object:
 *
 *     {"model": "decoder",
 *      "tokens": "clrs",            see lm/tokens.h; or an object, lm_tokenizer_json
 *      "shape": {"layers": ...},    lm_config_to_json
 *      "training": {...}}           its configuration; only in and after training here
 *
 * and containing all weights (weights.h), followed by Adam's first and second moments if there is
 * "training".
 */
#ifndef WHET_LAB_LM_MODEL_H
#define WHET_LAB_LM_MODEL_H

#include "lm/weights.h"

#define LM_MODEL_NAME "decoder"
#define LM_TOKENS_CLRS "clrs"
#define LM_TOKENS_TASK "task" /* symbols of the task in "training", see tasks/tasks.h */

typedef struct lm_model {
    lm_config config;
    lm_layout layout;
    float *weights;      /* [layout.count], aligned to 64 bytes */
    uint64_t step;       /* its training steps here */
    json_t *description; /* as in the checkpoint, or NULL */
} lm_model;

/* Zeroed weights for a checked config. */
bool lm_model_create(const lm_config *config, lm_model *model, lab_error *error);

/* From a checkpoint; damaged, foreign or invalid files are refused with a message. */
bool lm_model_load(const char *path, lm_model *model, lab_error *error);

/* Weights alone, to a checkpoint; `tokens` is its member of that name, whose reference is taken:
 * json_string(LM_TOKENS_CLRS), or a tokenizer's own. */
bool lm_model_save(const char *path, const lm_model *model, json_t *tokens, lab_error *error);

/* A zeroed one is fine. */
void lm_model_free(lm_model *model);

#endif
