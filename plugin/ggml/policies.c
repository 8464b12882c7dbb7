/*
 * Policies of layers; see policies.h.
 */
#include "policies.h"
#include <stdlib.h>
#include <string.h>

/* Whether a policy is plain softmax, for any strength. */
static bool is_softmax(const whet_policy *policy) {
    return whet_policy_is_temperature(policy) && policy_config_has_plain_temperature(policy);
}

static void fill_policies(layer_policies *l, const settings *s, unsigned layer) {
    const whet_policy *first = policy_config_find(&s->config, layer, 0);
    bool same = true;
    l->is_softmax = true;
    for (size_t head = 0; head < l->heads; head++) {
        const whet_policy *policy = policy_config_find(&s->config, layer, (unsigned)head);
        l->policies[head] = *policy;
        l->is_softmax = l->is_softmax && is_softmax(policy);
        same &= policy == first;
    }
    l->count = same ? 1 : l->heads;
}

static bool make_layers(policies *p, size_t count) {
    if (count <= p->layer_count)
        return true;
    layer_policies **layers = realloc(p->layers, count * sizeof(layer_policies *));
    if (!layers)
        return false;
    memset(layers + p->layer_count, 0, (count - p->layer_count) * sizeof(layer_policies *));
    p->layers = layers;
    p->layer_count = count;
    return true;
}

const layer_policies *policies_of_layer(policies *p, const settings *s, unsigned layer,
                                        size_t heads) {
    if (!make_layers(p, (size_t)layer + 1))
        return NULL;
    for (const layer_policies *l = p->layers[layer]; l; l = l->other)
        if (l->heads == heads)
            return l;
    layer_policies *l = calloc(1, sizeof *l);
    if (!l || !(l->policies = calloc(heads, sizeof(whet_policy)))) {
        free(l);
        return NULL;
    }
    l->heads = heads;
    l->other = p->layers[layer];
    p->layers[layer] = l;
    fill_policies(l, s, layer);
    return l;
}

void policies_free(policies *p) {
    for (size_t i = 0; i < p->layer_count; i++)
        while (p->layers[i]) {
            layer_policies *l = p->layers[i];
            p->layers[i] = l->other;
            free(l->policies);
            free(l);
        }
    free(p->layers);
    *p = (policies){.layers = NULL};
}
