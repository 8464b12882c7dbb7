/* Tokenizers within GGUF files. */
#ifndef WHET_LAB_LM_GGUF_TOKENIZER_H
#define WHET_LAB_LM_GGUF_TOKENIZER_H

#include "gguf/gguf.h"
#include "gguf/write.h"
#include "lm/tokenizer.h"

/* Of the kinds `llama` (pieces) and `gpt2` (byte pairs), with at most as many tokens as the model's
 * vocabulary. Free it whatever this returns. */
bool lm_gguf_get_tokenizer(const gguf_file *file, const char *path, size_t vocabulary,
                           lm_tokenizer *tokenizer, lab_error *error);

/* llama.cpp expects a token for every row of the embedding: missing ones up to `vocabulary` are
 * written as unused tokens. False when there are too many, or memory runs out. */
bool lm_gguf_put_tokenizer(gguf_writer *writer, const lm_tokenizer *tokenizer, size_t vocabulary,
                           lab_error *error);

#endif
