/*
 * What attention should have computed: a callback for llama.cpp's scheduler that computes every
 * FLASH_ATTN_EXT again, plainly and in double, from the queries, keys, values and mask that the
 * host had. It measures the error of the result, and may replace it by the exact one, so that a
 * whole model can be run with attention whose only errors are those of its cache's type.
 */
#ifndef WHET_TESTS_PLUGIN_EXACT_H
#define WHET_TESTS_PLUGIN_EXACT_H

#include <ggml.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct exact_attention {
    bool replaces;             /* replaces the host's result by the exact one */
    size_t operations;         /* seen so far */
    double error_sum, largest; /* of relative errors, L2 over an operation's result */
} exact_attention;

/* For cb_eval; the last argument is an exact_attention. Ends the program if an operation has
 * something unsupported (ALiBi, a soft cap, sinks). */
bool exact_callback(struct ggml_tensor *node, bool is_asked, void *attention);

#endif
