/* Scalings of RoPE for llama.cpp, by the names that lab/lm has for them (lm/rope_scaling.h). */
#ifndef WHET_LAB_TUNE_LLAMA_ROPE_H
#define WHET_LAB_TUNE_LLAMA_ROPE_H

#include "base/error.h"
#include "llama/libllama.h"

/*
 * The scaling that a name such as "yarn:4" means for a model, whose base, rotated elements and
 * context are read from its GGUF file. *trained is the context that the model was trained on: of a
 * file with a scaling of its own, that from before. *context is the context after scaling. NULL as
 * a name: the file is only read, and *context is what it says.
 */
bool tune_llama_rope(const char *model, const char *name, libllama_rope *rope, uint32_t *trained,
                     uint32_t *context, lab_error *error);

#endif
