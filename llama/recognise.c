/*
 * Recognises attention among a graph's nodes; see recognise.h.
 */
#include "llama/recognise.h"
#include <string.h>

#define PRODUCT_DISTANCE 8 /* nodes from a softmax back to the product of its input */

/* The number after a prefix, such as the 12 of cache_k_l12; -1 if there is none. */
static int number_after(const char *name, const char *prefix) {
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9')
        return -1;
    int number = 0;
    for (const char *p = name + n; *p >= '0' && *p <= '9'; p++) {
        number = 10 * number + (*p - '0');
        if (number > LLAMA_LAYER_MAX)
            return -1;
    }
    return number;
}

/* The layer of these keys or of the tensor they are a view of; -1 if they are from no cache. */
static int layer_of_keys(const host_tensor *keys) {
    return number_after(keys->view_src ? keys->view_src->name : keys->name, "cache_k_l");
}

/*
 * Hosts from before September 2025 do not name softmax nodes. Their inputs are products with keys,
 * possibly scaled, capped or with a bias added.
 */
static int layer_of_products(const host *h, const host_tensor *logits) {
    for (int i = 0; logits && i < PRODUCT_DISTANCE; i++, logits = logits->src[0])
        if (logits->op == h->op_product)
            return logits->src[0] ? layer_of_keys(logits->src[0]) : -1;
    return -1;
}

/*
 * Keys of a language model come from its cache, whose tensors are numbered by layer. Image
 * encoders have no cache and so are left alone. Softmax over attention logits has a name or takes
 * products with such keys and, unlike routers and samplers, a mask. For an empty node nothing is
 * computed, under any policy.
 */
int recognise_attention(const host *h, const host_tensor *node) {
    for (int i = 0; i < HOST_DIMENSIONS; i++)
        if (node->ne[i] <= 0)
            return -1;
    if (node->op == h->op_attention && node->src[1])
        return layer_of_keys(node->src[1]);
    if (node->op != h->op_softmax || !node->src[0] || !node->src[HOST_SOFTMAX_MASK])
        return -1;
    int named = number_after(node->name, "kq_soft_max-");
    return named >= 0 ? named : layer_of_products(h, node->src[0]);
}

/* The input of rotary embeddings, whatever its name. */
const int32_t *recognise_positions(const host *h, host_graph *graph, int nodes, size_t tokens) {
    for (int i = 0; i < nodes; i++) {
        const host_tensor *node = h->graph_node(graph, i), *input = node->src[1];
        if (node->op == h->op_rotation && input && input->type == HOST_I32 &&
            input->ne[0] >= (int64_t)tokens && input->data)
            return input->data;
    }
    return NULL;
}
