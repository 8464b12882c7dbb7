/*
 * What attention should have given: a callback for llama.cpp's scheduler that computes every
 * FLASH_ATTN_EXT again, plainly and in double, from the very queries, keys, values and mask that
 * the host had. It says how far off the result was, and may put the exact one in its place, so
 * that a whole model can be run with attention that has no errors but those of its cache's type.
 */
#ifndef WHET_TESTS_PLUGIN_EXACT_H
#define WHET_TESTS_PLUGIN_EXACT_H

#include <ggml.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct exact_attention {
    bool replaces;             /* puts the exact result in the place of the host's */
    size_t operations;         /* seen so far */
    double error_sum, largest; /* of relative errors, L2 over an operation's result */
} exact_attention;

/* For cb_eval; the last argument is an exact_attention. Ends the program where an operation has
 * what is not known here (ALiBi, a soft cap, sinks). */
bool exact_callback(struct ggml_tensor *node, bool is_asked, void *attention);

#endif
