/*
 * What all kinds of attention operations share; see operation.h.
 */
#include "operation.h"
#include "run.h"
#include <math.h>
#include <string.h>

static void begin(operation *o, run *r, host_tensor *node, int layer, const pattern *whole) {
    memset(o, 0, sizeof *o);
    o->node = node;
    o->run = r;
    o->op = node->op;
    memcpy(o->op_params, node->op_params, sizeof o->op_params);
    o->layer = layer;
    o->whole = whole;
}

bool operation_describe(operation *o, run *r, host_tensor *node, const pattern *whole,
                        message *why) {
    int layer = recognise_attention(r->host, node);
    bool is_attention = node->op == r->host->op_attention;
    size_t heads = (size_t)(is_attention ? node->ne[1] : node->ne[2]);
    begin(o, r, whole ? whole->product : node, layer, whole);
    o->policies = policies_of_layer(&r->policies, r->settings, (unsigned)layer, heads);
    if (!o->policies)
        return message_set(why, "out of memory");
    if (is_attention)
        return attention_describe(o, why);
    if (whole && attention_describe(o, why))
        return true;
    const layer_policies *of_layer = o->policies;
    begin(o, r, node, layer, NULL);
    o->policies = of_layer;
    return softmax_describe(o, why);
}

void operation_replace(operation *o) {
    host_custom_params params = {
        .function = o->compute,
        .tasks = HOST_ALL_THREADS,
        .context = o,
    };
    o->node->op = o->run->host->op_custom;
    memcpy(o->node->op_params, &params, sizeof params);
    for (int i = 0; o->whole && i < o->whole->inner_count; i++) {
        o->inner_op[i] = o->whole->inner[i]->op;
        o->whole->inner[i]->op = o->run->host->op_nothing;
    }
}

void operation_restore(operation *o) {
    o->node->op = o->op;
    memcpy(o->node->op_params, o->op_params, sizeof o->op_params);
    for (int i = 0; o->whole && i < o->whole->inner_count; i++)
        o->whole->inner[i]->op = o->inner_op[i];
}

bool operation_prepare(operation *o, int thread, int threads,
                       bool (*prepare)(operation *o, size_t threads)) {
    if (thread == 0) {
        int ready = prepare(o, (size_t)threads) ? 1 : -1;
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

bool operation_memory(operation *o, size_t shared, size_t each, size_t threads) {
    size_t bytes;
    o->thread_bytes = operation_aligned(each);
    if (o->thread_bytes < each || __builtin_mul_overflow(o->thread_bytes, threads, &bytes) ||
        __builtin_add_overflow(bytes, shared, &bytes))
        return false;
    o->shared = run_memory(o->run, bytes);
    return o->shared != NULL;
}

size_t operation_interval(const operation *o) {
    return settings_interval(o->run->settings, o->attention.queries);
}

float operation_slope(const operation *o, size_t head) {
    if (!(o->max_bias > 0))
        return 1;
    size_t heads = o->attention.heads, power = 1;
    while (2 * power <= heads)
        power *= 2;
    float m0 = powf(2, -o->max_bias / (float)power), m1 = powf(2, -o->max_bias / 2 / (float)power);
    return head < power ? powf(m0, (float)(head + 1)) : powf(m1, (float)(2 * (head - power) + 1));
}
