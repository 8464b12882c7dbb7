/*
 * One attention operation of the host's, and a run: all of them in one graph. A node of the graph
 * that is recognised is described to libwhet once the graph is about to be computed, turned into a
 * custom operation, and turned back afterwards.
 *
 * A run is used by one graph at a time and kept for the next, with its memory.
 */
#ifndef WHET_PLUGIN_OPERATION_H
#define WHET_PLUGIN_OPERATION_H

#include "llama/recognise.h"
#include "mask.h"
#include "recording.h"
#include "settings.h"
#include "team.h"

/* The policies of a layer's heads: one for all, or one for each. */
typedef struct layer_policies {
    whet_policy *policies;
    size_t heads;
    size_t count;                 /* 1 or heads */
    bool is_softmax;              /* for every head */
    struct layer_policies *other; /* of the same layer with another number of heads */
} layer_policies;

typedef enum operation_kind {
    OPERATION_NONE,
    OPERATION_ATTENTION, /* a plan whose tasks the team shares */
    OPERATION_ALIBI,     /* a mask for each head, times its slope: a head to a thread */
    OPERATION_SOFTMAX    /* logits to weights, the products are the host's */
} operation_kind;

typedef struct run run;

typedef struct operation {
    host_tensor *node;
    int op;                /* the node's own, as is */
    int32_t op_params[16]; /* this */
    operation_kind kind;
    int layer;
    run *run;
    const layer_policies *policies;
    const host_type *key_type, *value_type; /* of types that libwhet has read by the host */
    whet_attention attention;               /* as the host describes it, with its mask */
    float max_bias;                         /* of ALiBi */
    whet_plan plan, spread_plan;
    /* what is recorded, if anything */
    whet_stats *stats;        /* [stream][head][query] */
    whet_stats *spread_stats; /* [stream][head][recorded] of the negated logits */
    float *spread;            /* [stream][head][recorded] */
    /* set out by the first thread */
    atomic_int ready; /* 1: go on, -1: there is no memory */
    char *shared;     /* the memory all threads use, then `thread_bytes` for each of them */
    size_t thread_bytes;
    team team;
} operation;

#define MASKS_KNOWN 8

struct run {
    const host *host;
    const settings *settings;
    operation *operations;
    size_t count, room;
    char *memory;
    size_t memory_bytes;
    char *record_memory;
    size_t record_bytes;
    recorded_rows *recorded;
    size_t recorded_room;
    layer_policies **layers; /* none ever moves, since operations point to them */
    size_t layer_count;
    struct {
        const host_tensor *mask;
        size_t queries, keys;
        mask_shape shape;
    } masks[MASKS_KNOWN];
    size_t mask_count;
    atomic_bool has_failed;
    run *next;
};

/* ---- operation.c ---- */

/*
 * Describes a node. False: it is attention, but not of a kind that can be taken over, and why says
 * so. The policies must have been looked up already.
 */
bool operation_describe(operation *o, run *r, host_tensor *node, message *why);

/* Turns the node into a custom operation, and back. */
void operation_replace(operation *o);
void operation_restore(operation *o);

/* The mask's shape, looked at once for each graph. */
const mask_shape *run_mask(run *r, const host_tensor *mask, size_t queries, size_t keys);

/* Memory of at least so many bytes, aligned; what it held is lost. NULL: there is none. */
char *run_memory(run *r, size_t bytes);

const layer_policies *run_policies(run *r, unsigned layer, size_t heads);
void run_free(run *r);

/* What the threads of the host call, one file for each. */
void attention_compute(host_tensor *result, int thread, int threads, void *context);
void softmax_compute(host_tensor *result, int thread, int threads, void *context);

/* ---- attention.c, softmax.c: parts of operation_describe ---- */
bool attention_describe(operation *o, message *why);
bool softmax_describe(operation *o, message *why);

/* The slope of ALiBi for a head; 1 where there is none. */
float alibi_slope(float max_bias, size_t heads, size_t head);

/* The first thread sets out, the others wait for it. False: there is no memory. */
bool operation_set_out(operation *o, int thread, int threads,
                       bool (*set_out)(operation *o, size_t threads));

/* shared and per-thread bytes together, aligned; false on overflow. */
bool operation_memory(operation *o, size_t shared, size_t each, size_t threads);

static inline char *operation_memory_of(const operation *o, size_t shared, int thread) {
    return o->shared + shared + (size_t)thread * o->thread_bytes;
}

#endif
