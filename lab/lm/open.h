/*
 * Models with their tokenizers, from whatever file they are in: a checkpoint of
 * ours, GGUF, or llama2.c's. Which it is tells the beginning of the file. The
 * folder of a training run stands for its model.
 */
#ifndef WHET_LAB_LM_OPEN_H
#define WHET_LAB_LM_OPEN_H

#include "lm/model.h"
#include "lm/tokenizer.h"

typedef struct lm_opened {
    lm_model model;
    lm_tokenizer tokenizer;
    bool is_clrs;       /* its tokens are those of tokens.h */
    const char *format; /* "checkpoint", "GGUF" or "llama2.c" */
} lm_opened;

/* The file of the model that a path means, to be freed: the path itself, or the model.ckpt of a run
 * where it is a folder. NULL and an error for a folder without one, which names what it may mean.
 */
char *lm_model_file(const char *path, lab_error *error);

/*
 * `tokenizer` names a file of llama2.c's, which keeps tokenizers apart; NULL: a
 * tokenizer.bin or tok<vocabulary>.bin beside the model. Free it whatever this
 * returns.
 */
bool lm_open(const char *path, const char *tokenizer, lm_opened *opened, lab_error *error);
void lm_opened_free(lm_opened *opened); /* fine for a zeroed one */

/* To a checkpoint of ours, without what training left. */
bool lm_store(const char *path, const lm_opened *opened, lab_error *error);

#endif
