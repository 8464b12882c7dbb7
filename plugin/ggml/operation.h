/*
 * One attention operation of the host. A recognised node of a graph is described to libwhet just
 * before the graph is computed, replaced by a custom operation, and restored afterwards. The
 * host's threads call the custom operation's function, each with its number: the first one
 * prepares the operation (inspects the mask, plans, provides memory), the others wait for it, and
 * then all take tasks.
 */
#ifndef WHET_PLUGIN_OPERATION_H
#define WHET_PLUGIN_OPERATION_H

#include "llama/ggml_layout.h"
#include "llama/message.h"
#include "llama/record.h"
#include "pattern.h"
#include "policies.h"
#include "team.h"

typedef struct run run;

typedef struct operation {
    host_tensor *node;     /* the last, if the host composes attention of several */
    int op;                /* the node's original operation */
    int32_t op_params[16]; /* and its parameters */
    const pattern *whole;  /* if the host composes it and all of it is replaced, otherwise NULL */
    int inner_op[PATTERN_INNER];
    const host_tensor *mask;
    host_custom compute; /* the function that replaces it */
    int layer;
    run *run;
    const layer_policies *policies;
    const host_type *key_type, *value_type; /* of types that libwhet lets the host convert */
    whet_attention attention;               /* as the host describes it, with its mask */
    float max_bias;                         /* of ALiBi */
    whet_plan plan;
    whet_stats *stats; /* recorded statistics, or NULL: [batch][heads][queries]; max is that of the
                          keys only, NaN where unknown */
    record_detail *details; /* recorded of last rows, or NULL: [batch][heads] */
    /* prepared by the first thread */
    atomic_int ready; /* 1: ready, -1: out of memory */
    char *shared;     /* memory shared by all threads, then `thread_bytes` for each of them */
    size_t thread_bytes;
    team team;
} operation;

/*
 * Describes a recognised node, or all of the pattern that it is part of, if that is not NULL.
 * False: it is attention of an unsupported kind, and `why` has the reason.
 */
bool operation_describe(operation *o, run *r, host_tensor *node, const pattern *whole,
                        message *why);

/* Parts of it, each in the file of its name; they set `mask`, `attention` and `compute`. */
bool attention_describe(operation *o, message *why);
bool softmax_describe(operation *o, message *why);

/* Replaces the node by a custom operation and the rest of the pattern by nothing, and restores
 * them. */
void operation_replace(operation *o);
void operation_restore(operation *o);

/* Calls whet_attention_plan on an uninitialised plan. */
static inline whet_status operation_plan(const whet_attention *attention, whet_plan *plan) {
    plan->size = sizeof *plan;
    return whet_attention_plan(attention, plan);
}

/* The first thread prepares, the others wait for it. False: out of memory. */
bool operation_prepare(operation *o, int thread, int threads,
                       bool (*prepare)(operation *o, size_t threads));

/* Memory for all threads together, then for each of them, aligned; false on overflow. */
bool operation_memory(operation *o, size_t shared, size_t each, size_t threads);

/* A thread's part of it. */
static inline char *operation_thread_memory(const operation *o, int thread) {
    return o->shared + (size_t)thread * o->thread_bytes;
}

static inline size_t operation_aligned(size_t bytes) {
    return (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
}

/* The number of queries of all batch items. */
static inline size_t operation_tokens(const operation *o) {
    return o->attention.batch * o->attention.queries;
}

/* The interval between recorded queries. */
size_t operation_interval(const operation *o);

/* The slope of ALiBi for a head; 1 without ALiBi. */
float operation_slope(const operation *o, size_t head);

#endif
