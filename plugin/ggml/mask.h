/*
 * The shape of a mask. The host describes causal attention, sliding windows and unused cache slots
 * by a matrix with 0 where a query sees a key and -inf where it does not. If that matrix has one
 * of the shapes below, libwhet gets the shape and need not read the matrix, nor keys that no query
 * sees.
 */
#ifndef WHET_PLUGIN_MASK_H
#define WHET_PLUGIN_MASK_H

#include "llama/ggml_layout.h"
#include "llama/message.h"
#include <whet.h>

typedef struct mask_shape {
    bool is_simple; /* the other members are valid only if true */
    bool is_causal; /* query i sees the keys up to i + offset; otherwise all queries see the same
                       keys */
    int64_t offset;
    size_t window;    /* number of keys a query sees at most; 0: no limit */
    size_t low, high; /* if not causal: the range of keys seen */
} mask_shape;

/* Inspects the first `queries` rows of `keys` columns. */
mask_shape mask_look(const host_tensor *mask, size_t queries, size_t keys);

/* Whether a mask and sinks, each of which may be NULL, have a type and shape that fit an attention
 * of these sizes. */
bool mask_is_known(const host_tensor *mask, const whet_attention *a, message *why);
bool sinks_are_known(const host_tensor *sinks, const whet_attention *a, message *why);

/* A query's row of a mask, whose planes may repeat over heads and batch items. */
const char *mask_row(const host_tensor *mask, size_t item, size_t head, size_t query);

#endif
