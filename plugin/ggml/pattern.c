/*
 * Finds attention that is composed of single operations; see pattern.h.
 */
#include "pattern.h"
#include <stdlib.h>
#include <string.h>

#define DISTANCE 16 /* nodes from the softmax to either end of the pattern */

/* ---- memory ---- */

typedef struct range {
    uintptr_t from, end;
} range;

/* The bytes from a tensor's first element to its last; of quantised types a few more. */
static range range_of(const host *h, const host_tensor *tensor) {
    const host_type *type = h->type_of(tensor->type);
    uintptr_t from = (uintptr_t)tensor->data;
    size_t block = type && type->block_elements > 0 ? (size_t)type->block_elements : 1;
    size_t bytes = type ? type->block_bytes : 0;
    for (int i = 0; i < HOST_DIMENSIONS; i++) {
        if (tensor->ne[i] <= 0)
            return (range){from, from};
        size_t steps = (size_t)tensor->ne[i] - 1;
        bytes += (i == 0 ? steps / block : steps) * tensor->nb[i];
    }
    return (range){from, from + bytes};
}

static bool overlap(const host *h, const host_tensor *a, const host_tensor *b) {
    range x = range_of(h, a), y = range_of(h, b);
    return x.from < y.end && y.from < x.end;
}

/* The tensors that attention reads. */
enum { INPUTS = 5 };
typedef struct inputs {
    const host_tensor *of[INPUTS];
    int count;
} inputs;

static inputs inputs_of(const pattern *p) {
    const host_tensor *all[INPUTS] = {p->q, p->k, p->v, p->softmax->src[HOST_SOFTMAX_MASK],
                                      p->softmax->src[HOST_SOFTMAX_SINKS]};
    inputs result = {.count = 0};
    for (int i = 0; i < INPUTS; i++)
        if (all[i])
            result.of[result.count++] = all[i];
    return result;
}

static bool overlaps_inputs(const host *h, const host_tensor *tensor, const inputs *in) {
    for (int i = 0; i < in->count; i++)
        if (overlap(h, tensor, in->of[i]))
            return true;
    return false;
}

/* An address after all inputs, aligned like a tensor's. */
static uintptr_t end_of(const host *h, const inputs *in) {
    enum { ALIGNMENT = 64 };
    uintptr_t end = 0;
    for (int i = 0; i < in->count; i++) {
        range of = range_of(h, in->of[i]);
        end = of.end > end ? of.end : end;
    }
    return end + ALIGNMENT - end % ALIGNMENT;
}

/* ---- finding ---- */

static bool is_contiguous_f32(const host_tensor *tensor) {
    size_t bytes = sizeof(float);
    for (int i = 0; i < HOST_DIMENSIONS; bytes *= (size_t)tensor->ne[i++])
        if (tensor->nb[i] != bytes)
            return false;
    return tensor->type == HOST_F32;
}

static bool same_shape(const host_tensor *a, const host_tensor *b) {
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

static bool add_inner(pattern *p, host_tensor *node, host_tensor *reader) {
    if (p->inner_count == PATTERN_INNER)
        return false;
    p->inner[p->inner_count] = node;
    p->reader[p->inner_count++] = reader;
    return true;
}

/* A node that only multiplies its input; its factor. */
static bool is_scale(const host *h, const host_tensor *node, float *factor) {
    *factor = host_float_param(node->op_params, 0);
    return node->op == h->op_scale && node->src[0] &&
           host_float_param(node->op_params, 1) == 0; /* nothing is added */
}

static bool is_tanh(const host *h, const host_tensor *node) {
    return node->op == h->op_unary && h->unary_tanh >= 0 && node->op_params[0] == h->unary_tanh &&
           node->src[0];
}

/*
 * From the softmax back to the products: they are scaled by a, or become c tanh(a x). With the
 * softmax's own factor s that is a scale of s a, or a cap of s c on logits scaled by s c a.
 */
static host_tensor *find_products(const host *h, pattern *p, host_tensor *softmax) {
    host_tensor *reader = softmax, *node = softmax->src[0];
    float after = 1, before = 1;
    bool is_capped = false;
    for (int i = 0; node && node->op != h->op_product && i < PATTERN_INNER; i++) {
        float factor;
        bool scales = is_scale(h, node, &factor);
        if (!is_contiguous_f32(node) || !(scales || (is_tanh(h, node) && !is_capped)) ||
            !add_inner(p, node, reader))
            return NULL;
        if (!scales)
            is_capped = true;
        else if (is_capped)
            before *= factor;
        else
            after *= factor;
        reader = node;
        node = node->src[0];
    }
    float own = host_float_param(softmax->op_params, HOST_PARAM_SCALE);
    p->softcap = is_capped ? own * after : 0;
    p->scale = own * after * before;
    bool fits = node && node->op == h->op_product && is_contiguous_f32(node) &&
                (!is_capped || p->softcap > 0) && add_inner(p, node, reader);
    return fits ? node : NULL;
}

/* The product of values and weights, some nodes after the softmax. */
static host_tensor *find_result(const host *h, host_graph *graph, int nodes, int index,
                                const host_tensor *softmax, int *at) {
    for (*at = index + 1; *at < nodes && *at <= index + DISTANCE; ++*at) {
        host_tensor *node = h->graph_node(graph, *at);
        if (node->op == h->op_product && node->src[1] == softmax)
            return node;
    }
    return NULL;
}

/* The values, where they are before they are copied: the copy has nothing but another order. */
static bool find_values(const host *h, pattern *p) {
    host_tensor *v = p->product->src[0];
    if (!v || v == p->softmax)
        return false;
    p->v = v;
    const host_tensor *source = v->op == h->op_copy ? v->src[0] : NULL;
    if (!source || source->type != v->type || !same_shape(source, v))
        return true;
    p->v = source;
    return add_inner(p, v, p->product);
}

static bool is_inner(const pattern *p, const host_tensor *node) {
    for (int i = 0; i < p->inner_count; i++)
        if (p->inner[i] == node)
            return true;
    return false;
}

/* Whether the host computes nothing for a node. */
static bool is_idle(const host *h, const host_tensor *node) {
    bool idle = node->op == h->op_nothing;
    for (size_t i = 0; i < sizeof h->op_views / sizeof *h->op_views; i++)
        idle = idle || node->op == h->op_views[i];
    return idle;
}

/*
 * The host keeps an input until the last node that reads it, which for queries and keys is their
 * product. Here they are read later, and so no node in between may write there.
 */
static bool inputs_remain(const host *h, host_graph *graph, const pattern *p,
                          const host_tensor *products, int index, int end) {
    inputs in = inputs_of(p);
    int at = index;
    while (at > 0 && at > index - DISTANCE && h->graph_node(graph, at) != products)
        at--;
    if (h->graph_node(graph, at) != products)
        return false;
    for (at++; at < end; at++) {
        const host_tensor *node = h->graph_node(graph, at);
        if (!is_inner(p, node) && !is_idle(h, node) && overlaps_inputs(h, node, &in))
            return false;
    }
    return true;
}

bool pattern_find(const host *h, host_graph *graph, int nodes, int index, pattern *found) {
    host_tensor *softmax = h->graph_node(graph, index);
    pattern p = {.softmax = softmax};
    int end;
    memset(found, 0, sizeof *found);
    if (h->op_nothing < 0 || softmax->op != h->op_softmax || !is_contiguous_f32(softmax))
        return false;
    const host_tensor *products = find_products(h, &p, softmax);
    p.product = find_result(h, graph, nodes, index, softmax, &end);
    if (!products || !p.product || !is_contiguous_f32(p.product) ||
        !add_inner(&p, softmax, p.product) || !find_values(h, &p))
        return false;
    p.k = products->src[0];
    p.q = products->src[1];
    if (!p.k || !p.q || !inputs_remain(h, graph, &p, products, index, end))
        return false;
    inputs in = inputs_of(&p);
    if (overlaps_inputs(h, p.product, &in))
        p.behind_inputs = end_of(h, &in);
    *found = p;
    return true;
}

/* ---- what else reads the inner nodes ---- */

/* Inner nodes of all patterns by address: open addressing, at most half full. */
typedef struct entry {
    const host_tensor *inner, *reader;
    pattern *of;
} entry;

typedef struct table {
    entry *entries;
    size_t mask;
} table;

static entry *entry_at(const table *t, const host_tensor *node) {
    size_t at = ((uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u >> 20 & t->mask;
    while (t->entries[at].inner && t->entries[at].inner != node)
        at = (at + 1) & t->mask;
    return &t->entries[at];
}

static bool make_table(table *t, pattern *patterns, size_t count) {
    size_t size = 16;
    while (size < 2 * count * PATTERN_INNER)
        size *= 2;
    *t = (table){.entries = calloc(size, sizeof(entry)), .mask = size - 1};
    for (size_t i = 0; t->entries && i < count; i++)
        for (int n = 0; patterns[i].product && n < patterns[i].inner_count; n++)
            *entry_at(t, patterns[i].inner[n]) =
                (entry){patterns[i].inner[n], patterns[i].reader[n], &patterns[i]};
    return t->entries != NULL;
}

/* `node` reads `source`, or is a view of it. */
static void note_reader(const table *t, const host_tensor *node, const host_tensor *source) {
    const entry *e = entry_at(t, source);
    if (e->inner && e->reader != node)
        e->of->product = NULL;
}

bool patterns_keep_private(const host *h, host_graph *graph, int nodes, pattern *patterns,
                           size_t count) {
    table t;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        for (int n = 0; patterns[i].product && n < patterns[i].inner_count; n++)
            if (patterns[i].inner[n]->flags & HOST_FLAG_OUTPUT)
                patterns[i].product = NULL;
        any = any || patterns[i].product;
    }
    if (!any)
        return true;
    if (!make_table(&t, patterns, count))
        return false;
    for (int i = 0; i < nodes; i++) {
        const host_tensor *node = h->graph_node(graph, i);
        for (int s = 0; s < HOST_SOURCES; s++)
            if (node->src[s])
                note_reader(&t, node, node->src[s]);
        if (node->view_src)
            note_reader(&t, node, node->view_src);
    }
    free(t.entries);
    return true;
}
