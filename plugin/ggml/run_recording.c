/*
 * Statistics that a run's operations record; see run.h.
 */
#include "run.h"
#include <stdlib.h>
#include <string.h>

static size_t heads_of(const operation *o) { return o->attention.batch * o->attention.heads; }

static size_t row_count(const operation *o) { return heads_of(o) * o->attention.queries; }

/* Space for the details of last rows, if they are to be recorded; all empty. */
static bool prepare_details(run *r) {
    size_t count = 0;
    if (!settings_has_details(r->settings))
        return true;
    for (size_t i = 0; i < r->count; i++)
        count += heads_of(&r->operations[i]);
    if (count > r->detail_capacity) {
        free(r->details);
        r->details = malloc(count * sizeof *r->details);
        r->detail_capacity = r->details ? count : 0;
    }
    if (count > r->detail_capacity)
        return false;
    memset(r->details, 0, count * sizeof *r->details);
    record_detail *at = r->details;
    for (size_t i = 0; i < r->count; i++) {
        r->operations[i].details = at;
        at += heads_of(&r->operations[i]);
    }
    return true;
}

bool run_prepare_recording(run *r) {
    size_t bytes = 0;
    if (!prepare_details(r))
        return false;
    for (size_t i = 0; i < r->count; i++)
        bytes += row_count(&r->operations[i]) * sizeof(whet_stats);
    if (bytes > r->record_bytes) {
        free(r->record_memory);
        r->record_memory = malloc(bytes);
        r->record_bytes = r->record_memory ? bytes : 0;
    }
    if (r->count > r->recorded_capacity) {
        free(r->recorded);
        r->recorded = calloc(r->count, sizeof *r->recorded);
        r->recorded_capacity = r->recorded ? r->count : 0;
    }
    if (bytes > r->record_bytes || r->count > r->recorded_capacity)
        return false;
    whet_stats *at = (whet_stats *)(void *)r->record_memory;
    for (size_t i = 0; i < r->count; i++) {
        r->operations[i].stats = at;
        at += row_count(&r->operations[i]);
    }
    return true;
}

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
                .positions = operation_tokens(o) == run_tokens(r) ? positions : NULL,
                .details = o->details,
            };
    }
    if (count)
        recording_write(to, r->recorded, count);
}
