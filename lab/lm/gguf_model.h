/*
 * Models as GGUF, the files of llama.cpp. Supported architectures are llama, qwen2, qwen3, gemma,
 * gemma2 and gemma3. All but llama rotate elements half a head apart, and the Gemmas store
 * embeddings divided by the root of the width; both are converted here in both directions, by
 * permuting the rows of queries and keys and by scaling. Anything else (experts, other biases) is
 * refused by name.
 *
 * The policy that a model was trained with is stored as "whet.policy", which other programs
 * ignore.
 */
#ifndef WHET_LAB_LM_GGUF_MODEL_H
#define WHET_LAB_LM_GGUF_MODEL_H

#include "gguf/gguf.h"
#include "lm/model.h"
#include "lm/tokenizer.h"

/* Free model and tokenizer whatever this returns. */
bool lm_gguf_read(const char *path, lm_model *model, lm_tokenizer *tokenizer, lab_error *error);
/* The same from bytes in memory; `name` is for messages. */
bool lm_gguf_read_memory(const void *bytes, size_t size, const char *name, lm_model *model,
                         lm_tokenizer *tokenizer, lab_error *error);

/* Matrices as f32, f16, bf16 or q8_0 (where their rows are whole blocks, f32 otherwise), the rest
 * as f32. */
bool lm_gguf_write(const char *path, const lm_model *model, const lm_tokenizer *tokenizer,
                   gguf_type type, const char *name, lab_error *error);

#endif
