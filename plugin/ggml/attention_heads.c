/*
 * Attention head by head, each on one thread with its own mask; see attention.h. ALiBi is a mask
 * of distances that each head multiplies by its slope. Masks whose planes repeat over the heads
 * are handled in the same way, with a slope of 1. Such operations are rare.
 */
#include "attention.h"
#include "last_rows.h"
#include "run.h"
#include <math.h>
#include <string.h>

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* ---- one head ---- */

/* Attention of one head of one batch item, without its mask. */
static whet_attention single_head(const operation *o, size_t item, size_t head) {
    whet_attention a = o->attention;
    ptrdiff_t b = (ptrdiff_t)item, h = (ptrdiff_t)head;
    ptrdiff_t key_head = (ptrdiff_t)(head / (a.heads / a.kv_heads));
    a.q.data = (const char *)a.q.data + b * a.q.stride[0] + h * a.q.stride[1];
    a.k.data = (const char *)a.k.data + b * a.k.stride[0] + key_head * a.k.stride[1];
    a.v.data = (const char *)a.v.data + b * a.v.stride[0] + key_head * a.v.stride[1];
    a.out.data = (char *)a.out.data + b * a.out.stride[0] + h * a.out.stride[1];
    a.sinks = a.sinks ? a.sinks + head : NULL;
    a.policies = o->policies->count > 1 ? o->policies->policies + head : o->policies->policies;
    a.policy_count = 1;
    a.stats = o->stats ? o->stats + (item * a.heads + head) * a.queries : NULL;
    const int64_t *positions = run_positions(o->run, o);
    a.positions = positions ? positions + item * a.queries : NULL;
    a.batch = a.heads = a.kv_heads = 1;
    return a;
}

static void scale_mask(const operation *o, size_t item, size_t head, float factor, float *result) {
    const whet_attention *a = &o->attention;
    for (size_t i = 0; i < a->queries; i++) {
        const char *row = mask_row(o->mask, item, head, i);
        float *scaled = result + i * a->keys;
        if (a->mask.type == WHET_F16)
            o->run->host->type_of(HOST_F16)->to_float(row, scaled, (int64_t)a->keys);
        else
            memcpy(scaled, row, a->keys * sizeof(float));
        for (size_t j = 0; j < a->keys; j++)
            scaled[j] = scaled[j] == -INFINITY ? -INFINITY : factor * scaled[j];
    }
}

static void use_mask(whet_attention *a, const float *mask) {
    a->mask = (whet_mask){.data = mask, .type = WHET_F32};
    a->mask.stride[2] = (ptrdiff_t)(a->keys * sizeof(float));
}

/* ---- preparing ---- */

/* A thread's memory: the mask, then what a plan needs. */
static size_t mask_bytes(const operation *o) {
    return operation_aligned(o->attention.queries * o->attention.keys * sizeof(float));
}

/* Bytes for planning and running a head; 0: it cannot be planned. */
static size_t plan_bytes(operation *o, size_t head) {
    whet_attention a = single_head(o, 0, head); /* with the original mask: the need is the same */
    if (operation_plan(&a, &o->plan) != WHET_OK)
        return 0;
    return larger(whet_attention_memory(&o->plan, NULL), 1);
}

/* Any thread may get any head, and policies differ in what they need. */
static bool prepare(operation *o, size_t threads) {
    size_t each = 0;
    for (size_t head = 0; head < o->policies->count; head++) {
        size_t bytes = plan_bytes(o, head);
        if (bytes == 0)
            return false;
        each = larger(each, bytes);
    }
    size_t place = attention_place_bytes(o);
    if (!operation_memory(o, place, larger(mask_bytes(o) + each, last_rows_bytes(o)), threads))
        return false;
    attention_place(o, o->shared);
    o->shared += place;
    return true;
}

/* ---- computing ---- */

static void compute_head(operation *o, size_t item_head, char *memory) {
    size_t item = item_head / o->attention.heads, head = item_head % o->attention.heads;
    float *mask = (float *)(void *)memory;
    whet_plan plan;
    whet_attention a = single_head(o, item, head);
    scale_mask(o, item, head, operation_slope(o, head), mask);
    use_mask(&a, mask);
    if (operation_plan(&a, &plan) != WHET_OK) {
        atomic_store(&o->run->has_failed, true);
        return;
    }
    whet_attention_execute(&plan, NULL, memory + mask_bytes(o), NULL);
    attention_forget_sinks(&a);
    if (last_row_is_wanted(o, head))
        last_row_of_attention(o, item, head, memory);
}

void attention_heads_compute(host_tensor *result, int thread, int threads, void *context) {
    (void)result;
    operation *o = context;
    size_t item_head;
    if (!operation_prepare(o, thread, threads, prepare))
        return;
    while (team_take(&o->team, o->attention.batch * o->attention.heads, &item_head))
        compute_head(o, item_head, operation_thread_memory(o, thread));
    team_wait(&o->team, (unsigned)threads);
    if (thread == 0)
        attention_fetch_result(o);
}
