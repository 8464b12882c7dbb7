/*
 * What a run's operations leave to be recorded; see run.h.
 */
#include "run.h"
#include <stdlib.h>

static size_t heads_of(const operation *o) { return o->attention.batch * o->attention.heads; }

static size_t row_count(const operation *o) { return heads_of(o) * o->attention.queries; }

static size_t recorded_rows(const operation *o) { return heads_of(o) * operation_recorded(o); }

static size_t token_count(const operation *o) { return o->attention.batch * o->attention.queries; }

static size_t spread_bytes(const operation *o) {
    return (recorded_rows(o) * sizeof(float) + 15) / 16 * 16;
}

bool run_prepare_recording(run *r) {
    size_t bytes = 0;
    for (size_t i = 0; i < r->count; i++) {
        const operation *o = &r->operations[i];
        bytes += (row_count(o) + recorded_rows(o)) * sizeof(whet_stats) + spread_bytes(o);
    }
    if (bytes > r->record_bytes) {
        free(r->record_memory);
        r->record_memory = malloc(bytes);
        r->record_bytes = r->record_memory ? bytes : 0;
    }
    if (r->count > r->recorded_room) {
        free(r->recorded);
        r->recorded = calloc(r->count, sizeof *r->recorded);
        r->recorded_room = r->recorded ? r->count : 0;
    }
    if (bytes > r->record_bytes || r->count > r->recorded_room)
        return false;
    char *at = r->record_memory;
    for (size_t i = 0; i < r->count; i++) {
        operation *o = &r->operations[i];
        o->stats = (whet_stats *)(void *)at;
        o->negated_stats = o->stats + row_count(o);
        o->spread = (float *)(void *)(o->negated_stats + recorded_rows(o));
        at = (char *)o->spread + spread_bytes(o);
    }
    return true;
}

size_t run_tokens(const run *r) { return r->count ? token_count(&r->operations[0]) : 0; }

/* The positions are those of the first operation's tokens; all others have the same, or none. */
void run_write_recording(run *r, recording *to, const int32_t *positions) {
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const operation *o = &r->operations[i];
        if (atomic_load(&o->ready) > 0)
            r->recorded[count++] = (recorded_operation){
                .layer = o->layer,
                .batch = o->attention.batch,
                .heads = o->attention.heads,
                .queries = o->attention.queries,
                .interval = operation_interval(o),
                .stats = o->stats,
                .spread = o->spread,
                .positions = token_count(o) == run_tokens(r) ? positions : NULL,
            };
    }
    if (count)
        recording_write(to, r->recorded, count);
}
