/*
 * Models and tokenizers of llama2.c (its "version 0" files): seven numbers, then all weights as
 * f32, kind by kind; and a list of tokens with scores. Little-endian. Files are hostile: anything
 * inconsistent is refused with a message.
 */
#ifndef WHET_LAB_LM_LLAMA2C_H
#define WHET_LAB_LM_LLAMA2C_H

#include "lm/model.h"
#include "lm/tokenizer.h"

/* Free the model if this returns true. */
bool lm_llama2c_read(const char *path, lm_model *model, lab_error *error);

/* A tokenizer of `count` tokens; the file does not contain the count. Free it whatever this
 * returns. */
bool lm_llama2c_tokenizer(const char *path, size_t count, lm_tokenizer *tokenizer,
                          lab_error *error);

#endif
