/*
 * A run: all attention operations of one graph, and what they share. It is used by one graph at a
 * time and kept for the next, with its memory.
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
    size_t count, room;
    policies policies;
    char *memory;
    size_t memory_bytes;
    struct {
        const host_tensor *mask;
        size_t queries, keys;
        mask_shape shape;
    } masks[MASKS_KNOWN];
    size_t mask_count;
    int64_t *positions; /* of the first operation's tokens, while it computes; NULL: not known */
    /* run_recording.c */
    char *record_memory;
    size_t record_bytes;
    recorded_operation *recorded;
    size_t recorded_room;
    atomic_bool has_failed;
    run *next;
};

/* ---- run.c ---- */

/* Zeroes but for these two; NULL: there is no memory. */
run *run_create(const host *h, const settings *s);
void run_free(run *r);

/* Before another graph: room for so many operations, none of which is described yet. */
bool run_begin(run *r, size_t count);

/* The mask's shape, looked at once for each graph. */
const mask_shape *run_mask(run *r, const host_tensor *mask, size_t queries, size_t keys);

/* How many tokens the positions are of, and those of an operation: all have the same, or none. */
size_t run_tokens(const run *r);
const int64_t *run_positions(const run *r, const operation *o);

/* Memory of at least so many bytes, aligned; what it held is lost. NULL: there is none. */
char *run_memory(run *r, size_t bytes);

/* ---- run_recording.c ---- */

/* Gives every operation room for its statistics, until the graph is done. */
bool run_prepare_recording(run *r);

/* Writes what operations that were computed have left there. */
void run_write_recording(run *r, recording *to, const int32_t *positions);

#endif
