/*
 * One attention operation of the host's. A node of a graph that is recognised is described to
 * libwhet once the graph is about to be computed, replaced by a custom operation, and restored
 * afterwards. The host's threads call the custom operation's function, each with its number: the
 * first of them sets the operation out (looks at the mask, plans, sees to memory), the others wait
 * for it, and then all take tasks.
 */
#ifndef WHET_PLUGIN_OPERATION_H
#define WHET_PLUGIN_OPERATION_H

#include "llama/ggml_layout.h"
#include "message.h"
#include "policies.h"
#include "team.h"

typedef struct run run;

typedef struct operation {
    host_tensor *node;
    int op;                /* the node's own, as is */
    int32_t op_params[16]; /* this */
    host_custom compute;   /* what takes its place */
    int layer;
    run *run;
    const layer_policies *policies;
    const host_type *key_type, *value_type; /* of types that libwhet has read by the host */
    whet_attention attention;               /* as the host describes it, with its mask */
    float max_bias;                         /* of ALiBi */
    whet_plan plan;
    whet_stats *stats; /* what is recorded, if anything: [batch][heads][queries]; max is that of the
                          keys alone, NaN where it is not known */
    /* set out by the first thread */
    atomic_int ready; /* 1: go on, -1: there is no memory */
    char *shared;     /* the memory all threads use, then `thread_bytes` for each of them */
    size_t thread_bytes;
    team team;
} operation;

/*
 * Describes a node that was recognised. False: it is attention, but not of a kind that can be taken
 * over, and why says so.
 */
bool operation_describe(operation *o, run *r, host_tensor *node, message *why);

/* Parts of it, each in the file of its name: they set `attention` and `compute`. */
bool attention_describe(operation *o, message *why);
bool softmax_describe(operation *o, message *why);

/* Makes the node a custom operation, and what it was. */
void operation_replace(operation *o);
void operation_restore(operation *o);

/* whet_attention_plan, for a plan as it comes. */
static inline whet_status operation_plan(const whet_attention *attention, whet_plan *plan) {
    plan->size = sizeof *plan;
    return whet_attention_plan(attention, plan);
}

/* The first thread sets out, the others wait for it. False: there is no memory. */
bool operation_set_out(operation *o, int thread, int threads,
                       bool (*set_out)(operation *o, size_t threads));

/* Memory for all threads, then for each of them, aligned; false on overflow. */
bool operation_memory(operation *o, size_t shared, size_t each, size_t threads);

/* A thread's part of it. */
static inline char *operation_thread_memory(const operation *o, int thread) {
    return o->shared + (size_t)thread * o->thread_bytes;
}

static inline size_t operation_aligned(size_t bytes) {
    return (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
}

/* Queries of all batch items. */
static inline size_t operation_tokens(const operation *o) {
    return o->attention.batch * o->attention.queries;
}

/* From one recorded query to the next. */
size_t operation_interval(const operation *o);

/* The slope of ALiBi for a head; 1 where there is none. */
float operation_slope(const operation *o, size_t head);

#endif
