/*
 * The policies of a model's heads as the settings define them, in the form that libwhet takes: an
 * array for each layer.
 */
#ifndef WHET_PLUGIN_POLICIES_H
#define WHET_PLUGIN_POLICIES_H

#include "settings.h"

/* The policies of one layer: one for all heads, or one for each. */
typedef struct layer_policies {
    whet_policy *policies;
    size_t heads;
    size_t count;                 /* 1 or heads */
    bool is_softmax;              /* for every head */
    struct layer_policies *other; /* of the same layer with another number of heads */
} layer_policies;

/* The layers that were asked for. Their addresses never change, since operations point to them. */
typedef struct policies {
    layer_policies **layers;
    size_t layer_count;
} policies;

/* NULL: out of memory. */
const layer_policies *policies_of_layer(policies *p, const settings *s, unsigned layer,
                                        size_t heads);
void policies_free(policies *p);

#endif
