/*
 * A run: all attention operations of one graph, and what they share. It serves one graph at a time
 * and is kept, with its memory, for the next.
 */
#ifndef WHET_PLUGIN_RUN_H
#define WHET_PLUGIN_RUN_H

#include "llama/recognise.h"
#include "mask.h"
#include "operation.h"
#include "recording.h"

#define MASKS_KNOWN 8

struct run {
    const host *host;
    const settings *settings;
    operation *operations;
    pattern *patterns; /* one for each attention node of the graph */
    size_t count, capacity;
    policies policies;
    char *memory;
    size_t memory_bytes;
    struct {
        const host_tensor *mask;
        size_t queries, keys;
        mask_shape shape;
    } masks[MASKS_KNOWN];
    size_t mask_count;
    int64_t *positions; /* of the first operation's tokens while it computes; NULL: unknown */
    /* run_recording.c */
    char *record_memory;
    size_t record_bytes;
    record_detail *details; /* of all operations' last rows */
    size_t detail_capacity;
    recorded_operation *recorded;
    size_t recorded_capacity;
    atomic_bool has_failed;
    run *next;
};

/* ---- run.c ---- */

/* All other members are zero. NULL: out of memory. */
run *run_create(const host *h, const settings *s);
void run_free(run *r);

/* Prepares for another graph: space for this many operations, none of which is described yet. */
bool run_begin(run *r, size_t count);

/* The mask's shape, inspected once for each graph. */
const mask_shape *run_mask(run *r, const host_tensor *mask, size_t queries, size_t keys);

/* The number of tokens that positions are known for, and the positions of an operation's tokens:
 * all operations have the same, or none. */
size_t run_tokens(const run *r);
const int64_t *run_positions(const run *r, const operation *o);

/* At least this many bytes, aligned; earlier contents are lost. NULL: out of memory. */
char *run_memory(run *r, size_t bytes);

/* ---- run_recording.c ---- */

/* Gives every operation space for its statistics until the graph is done. */
bool run_prepare_recording(run *r);

/* Writes the statistics of the operations that were computed. */
void run_write_recording(run *r, recording *to, const int32_t *positions);

#endif
