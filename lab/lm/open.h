/*
 * Models with their tokenizers, from whatever file they are in: a checkpoint of
 * ours, GGUF, or llama2.c's. The format is detected from the first bytes. The
 * folder of a training run stands for its model.
 */
#ifndef WHET_LAB_LM_OPEN_H
#define WHET_LAB_LM_OPEN_H

#include "lm/model.h"
#include "lm/tokenizer.h"

typedef struct lm_opened {
    lm_model model;
    lm_tokenizer tokenizer;
    bool is_clrs;       /* its tokens are CLRS-Text's, see tokens.h */
    const char *format; /* "checkpoint", "GGUF" or "llama2.c" */
} lm_opened;

/* The model file that a path refers to, to be freed: the path itself, or the model.ckpt of a run if
 * it is a folder. NULL and an error, with a suggestion, for a folder without one. */
char *lm_model_file(const char *path, lab_error *error);

/*
 * `tokenizer` names a tokenizer of llama2.c, which stores them separately;
 * NULL: a tokenizer.bin or tok<vocabulary>.bin beside the model. Free it
 * whatever this returns.
 */
bool lm_open(const char *path, const char *tokenizer, lm_opened *opened, lab_error *error);
void lm_opened_free(lm_opened *opened); /* a zeroed one is fine */

/* Writes a whet checkpoint, without the training state. */
bool lm_store(const char *path, const lm_opened *opened, lab_error *error);

#endif
