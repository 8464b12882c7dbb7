/*
 * Decoding with a cache that grows by a token at a time. All memory is taken once, for the cache's
 * capacity; in the loop a plan is made for the length of the moment (cheap: no allocation, no pass
 * over data) and run. Compares plain softmax with the paper's rule, which lets go of rows whose
 * entropy is above 5.9, and with its variant that holds on.
 */
#include "needle.h"
#include <stdio.h>
#include <stdlib.h>
#include <whet.h>

static void must(whet_status status) {
    if (status == WHET_OK)
        return;
    fprintf(stderr, "decode_loop: %s: %s\n", whet_status_text(status), whet_last_error());
    exit(EXIT_FAILURE);
}

static void *must_have(void *memory) {
    if (memory)
        return memory;
    fprintf(stderr, "decode_loop: out of memory\n");
    exit(EXIT_FAILURE);
}

int main(void) {
    float *keys = must_have(calloc(CACHE_FLOATS, sizeof(float)));
    float *values = must_have(calloc(CACHE_FLOATS, sizeof(float)));
    float query[QUERY_FLOATS], out[QUERY_FLOATS];
    whet_policy policies[3] = {whet_policy_softmax(), whet_policy_adaptive(),
                               whet_policy_adaptive_hold()};

    /* Strides in bytes, [batch][head][position][element]: a head's part of the cache holds
     * CAPACITY positions, however many are in use. */
    ptrdiff_t position = HEAD_DIM * sizeof(float), head = CAPACITY * position;
    whet_attention attention = {
        .size = sizeof attention,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .queries = 1,
        .keys = CAPACITY,
        .head_dim = HEAD_DIM,
        .q = {.data = query},
        .k = {.data = keys, .stride = {KV_HEADS * head, head, position, sizeof(float)}},
        .v = {.data = values, .stride = {KV_HEADS * head, head, position, sizeof(float)}},
        .out = {.data = out},
        .policies = &policies[1]};

    /* Memory for the longest cache serves all shorter ones. */
    whet_plan plan = {.size = sizeof plan};
    must(whet_attention_plan(&attention, &plan));
    size_t bytes = whet_attention_memory(&plan, NULL);
    if (bytes > SIZE_MAX - WHET_ALIGNMENT)
        must(WHET_ERROR_MEMORY);
    bytes = (bytes / WHET_ALIGNMENT + 1) * WHET_ALIGNMENT;
    void *memory = must_have(aligned_alloc(WHET_ALIGNMENT, bytes));

    printf("%8s %10s %10s %14s\n", "keys", "softmax", "adaptive", "adaptive:hold");
    for (size_t length = 1; length <= CAPACITY; length++) {
        next_token(length - 1, query, keys, values);
        attention.keys = length;
        float weight[3];
        for (int i = 0; i < 3; i++) {
            attention.policies = &policies[i];
            must(whet_attention_plan(&attention, &plan));
            must(whet_attention_execute(&plan, NULL, memory, NULL));
            weight[i] = out[0];
        }
        if (worth_printing(length))
            printf("%8zu %10.4f %10.4f %14.4f\n", length, (double)weight[0], (double)weight[1],
                   (double)weight[2]);
    }
    free(memory);
    free(values);
    free(keys);
    return EXIT_SUCCESS;
}
