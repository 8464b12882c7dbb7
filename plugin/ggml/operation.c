/*
 * Recognising attention among a graph's nodes, and what its two kinds share; see operation.h.
 */
#include "operation.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool operation_describe(operation *o, run *r, host_tensor *node, message *why) {
    memset(o, 0, sizeof *o);
    o->node = node;
    o->run = r;
    o->op = node->op;
    memcpy(o->op_params, node->op_params, sizeof o->op_params);
    o->layer = recognise_attention(r->host, node);
    bool is_attention = node->op == r->host->op_attention;
    size_t heads = (size_t)(is_attention ? node->ne[1] : node->ne[2]);
    o->policies = run_policies(r, (unsigned)o->layer, heads);
    if (!o->policies)
        return message_set(why, "out of memory");
    return is_attention ? attention_describe(o, why) : softmax_describe(o, why);
}

void operation_replace(operation *o) {
    host_custom_params params = {
        .function = o->kind == OPERATION_SOFTMAX ? softmax_compute : attention_compute,
        .tasks = HOST_ALL_THREADS,
        .context = o,
    };
    o->node->op = o->run->host->op_custom;
    memcpy(o->node->op_params, &params, sizeof params);
}

void operation_restore(operation *o) {
    o->node->op = o->op;
    memcpy(o->node->op_params, o->op_params, sizeof o->op_params);
}

/* ---- policies ---- */

static void fill_policies(layer_policies *l, const settings *s, unsigned layer) {
    const whet_policy *first = settings_policy(s, layer, 0);
    bool same = true;
    l->is_softmax = true;
    for (size_t head = 0; head < l->heads; head++) {
        const whet_policy *policy = settings_policy(s, layer, (unsigned)head);
        l->policies[head] = *policy;
        l->is_softmax &= policy->kind == WHET_POLICY_SOFTMAX;
        same &= policy == first;
    }
    l->count = same ? 1 : l->heads;
}

static bool make_layers(run *r, size_t count) {
    if (count <= r->layer_count)
        return true;
    layer_policies **layers = realloc(r->layers, count * sizeof(layer_policies *));
    if (!layers)
        return false;
    memset(layers + r->layer_count, 0, (count - r->layer_count) * sizeof(layer_policies *));
    r->layers = layers;
    r->layer_count = count;
    return true;
}

const layer_policies *run_policies(run *r, unsigned layer, size_t heads) {
    if (!make_layers(r, (size_t)layer + 1))
        return NULL;
    for (const layer_policies *l = r->layers[layer]; l; l = l->other)
        if (l->heads == heads)
            return l;
    layer_policies *l = calloc(1, sizeof *l);
    if (!l || !(l->policies = calloc(heads, sizeof(whet_policy)))) {
        free(l);
        return NULL;
    }
    l->heads = heads;
    l->other = r->layers[layer];
    r->layers[layer] = l;
    fill_policies(l, r->settings, layer);
    return l;
}

float alibi_slope(float max_bias, size_t heads, size_t head) {
    if (!(max_bias > 0))
        return 1;
    size_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    float m0 = powf(2, -max_bias / (float)power), m1 = powf(2, -max_bias / 2 / (float)power);
    return head < power ? powf(m0, (float)(head + 1)) : powf(m1, (float)(2 * (head - power) + 1));
}

/* ---- masks and memory ---- */

const mask_shape *run_mask(run *r, const host_tensor *mask, size_t queries, size_t keys) {
    for (size_t i = 0; i < r->mask_count; i++)
        if (r->masks[i].mask == mask && r->masks[i].queries == queries && r->masks[i].keys == keys)
            return &r->masks[i].shape;
    size_t i = r->mask_count < MASKS_KNOWN ? r->mask_count++ : MASKS_KNOWN - 1;
    r->masks[i].mask = mask;
    r->masks[i].queries = queries;
    r->masks[i].keys = keys;
    r->masks[i].shape = mask_look(mask, queries, keys);
    return &r->masks[i].shape;
}

char *run_memory(run *r, size_t bytes) {
    if (bytes > r->memory_bytes || !r->memory) {
        size_t rounded = (bytes + bytes / 8 + 4095) / 4096 * 4096;
        if (rounded < bytes)
            return NULL;
        free(r->memory);
        r->memory = aligned_alloc(4096, rounded ? rounded : 4096);
        r->memory_bytes = r->memory ? rounded : 0;
    }
    return r->memory;
}

bool operation_memory(operation *o, size_t shared, size_t each, size_t threads) {
    size_t bytes;
    o->thread_bytes = (each + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
    if (o->thread_bytes < each || __builtin_mul_overflow(o->thread_bytes, threads, &bytes) ||
        __builtin_add_overflow(bytes, shared, &bytes))
        return false;
    o->shared = run_memory(o->run, bytes);
    return o->shared != NULL;
}

bool operation_set_out(operation *o, int thread, int threads,
                       bool (*set_out)(operation *o, size_t threads)) {
    if (thread == 0) {
        int ready = set_out(o, (size_t)threads) ? 1 : -1;
        if (ready < 0)
            atomic_store(&o->run->has_failed, true);
        atomic_store_explicit(&o->ready, ready, memory_order_release);
        return ready > 0;
    }
    int ready;
    for (unsigned spins = 0; (ready = atomic_load_explicit(&o->ready, memory_order_acquire)) == 0;
         spins++)
        team_pause(spins);
    return ready > 0;
}

void run_free(run *r) {
    for (size_t i = 0; i < r->layer_count; i++)
        while (r->layers[i]) {
            layer_policies *l = r->layers[i];
            r->layers[i] = l->other;
            free(l->policies);
            free(l);
        }
    free(r->layers);
    free(r->operations);
    free(r->memory);
    free(r->record_memory);
    free(r->recorded);
    free(r);
}
