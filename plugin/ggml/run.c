/*
 * What the operations of a graph share; see run.h.
 */
#include "run.h"
#include <stdlib.h>

run *run_create(const host *h, const settings *s) {
    run *r = calloc(1, sizeof *r);
    if (r) {
        r->host = h;
        r->settings = s;
    }
    return r;
}

void run_free(run *r) {
    policies_free(&r->policies);
    free(r->operations);
    free(r->patterns);
    free(r->memory);
    free(r->record_memory);
    free(r->details);
    free(r->recorded);
    free(r);
}

bool run_begin(run *r, size_t count) {
    r->count = r->mask_count = 0;
    atomic_store(&r->has_failed, false);
    if (count <= r->capacity)
        return true;
    free(r->operations);
    free(r->patterns);
    r->operations = aligned_alloc(_Alignof(operation), count * sizeof(operation));
    r->patterns = malloc(count * sizeof(pattern));
    r->capacity = r->operations && r->patterns ? count : 0;
    return r->capacity > 0;
}

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

size_t run_tokens(const run *r) { return r->count ? operation_tokens(&r->operations[0]) : 0; }

const int64_t *run_positions(const run *r, const operation *o) {
    return operation_tokens(o) == run_tokens(r) ? r->positions : NULL;
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
