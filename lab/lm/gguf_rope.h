/* How a GGUF file scales its positions. */
#ifndef WHET_LAB_LM_GGUF_ROPE_H
#define WHET_LAB_LM_GGUF_ROPE_H

#include "gguf/gguf.h"
#include "lm/config.h"

enum { LM_ARCHITECTURE_MAX = 63 }; /* characters of its name that are looked at */

/* The scaling of a file of an architecture, whose context is `context`; NN_ROPE_PLAIN where there
 * is none. The path is for messages. */
bool lm_gguf_get_rope(const gguf_file *file, const char *path, const char *architecture,
                      uint32_t context, nn_rope_scaling *scaling, lab_error *error);

#endif
