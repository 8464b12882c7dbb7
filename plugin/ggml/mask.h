/*
 * What a mask amounts to. The host describes causal attention, sliding windows and unused cache
 * slots by a matrix with 0 where a query sees a key and -inf where not. Where that matrix is one
 * of the shapes below, attention is told the shape and need not look at the matrix, nor at keys
 * that nobody sees.
 */
#ifndef WHET_PLUGIN_MASK_H
#define WHET_PLUGIN_MASK_H

#include "llama/ggml_layout.h"
#include "message.h"
#include <whet.h>

typedef struct mask_shape {
    bool is_simple; /* the rest holds only then */
    bool is_causal; /* query i sees the keys up to i + offset, else all queries see the same */
    int64_t offset;
    size_t window;    /* keys a query sees at most; 0: no limit */
    size_t low, high; /* not causal: the keys seen */
} mask_shape;

/* Looks at the first `queries` rows of `keys` columns. */
mask_shape mask_look(const host_tensor *mask, size_t queries, size_t keys);

/* Whether a mask, or none, and sinks, or none, are of a type and shape that go with an attention of
 * these sizes. */
bool mask_is_known(const host_tensor *mask, const whet_attention *a, message *why);
bool sinks_are_known(const host_tensor *sinks, const whet_attention *a, message *why);

/* A query's row of a mask, whose planes may repeat over heads and batch items. */
const char *mask_row(const host_tensor *mask, size_t item, size_t head, size_t query);

#endif
