/*
 * Logits of a row by plain products; see last_rows.h. One row of an evaluation takes little time
 * beside the evaluation, and the loops need no instruction set of their own.
 */
#include "last_rows.h"
#include "run.h"
#include <math.h>
#include <string.h>

enum { LANES = 16 }; /* independent sums, which compilers turn into vectors */

static bool has_keys(const operation *o, size_t head) {
    const settings *s = o->run->settings;
    return s->stats_keys > 0 && index_set_has(&s->stats_layers, (unsigned)o->layer) &&
           index_set_has(&s->stats_heads, (unsigned)head);
}

bool last_row_is_wanted(const operation *o, size_t head) {
    return o->details && (o->run->settings->stats_gaps || has_keys(o, head));
}

static record_detail *detail_of(const operation *o, size_t item, size_t head) {
    return &o->details[item * o->attention.heads + head];
}

/* ---- details from logits and weights ---- */

void last_row_logits(operation *o, size_t item, size_t head, const float *logits) {
    if (o->run->settings->stats_gaps)
        gaps_add_row(&detail_of(o, item, head)->gaps, logits, o->attention.keys);
}

/* Keeps the list in descending order; among equals the first key comes first. */
static void insert(record_detail *detail, size_t most, uint64_t index, double weight) {
    size_t at = detail->key_count;
    if (at == most && !(weight > detail->keys[most - 1].weight))
        return;
    at -= at == most;
    detail->key_count = at + 1;
    for (; at > 0 && weight > detail->keys[at - 1].weight; at--)
        detail->keys[at] = detail->keys[at - 1];
    detail->keys[at] = (record_key){index, weight};
}

void last_row_weights(operation *o, size_t item, size_t head, const float *weights) {
    for (size_t i = 0; has_keys(o, head) && i < o->attention.keys; i++)
        if (weights[i] > 0)
            insert(detail_of(o, item, head), o->run->settings->stats_keys, i, (double)weights[i]);
}

/* ---- logits ---- */

static float product(const float *a, const float *b, size_t n) {
    float sums[LANES] = {0}, sum = 0;
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (size_t i = whole; i < n; i++)
        sum += a[i] * b[i];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* The row of the mask as floats; NULL without a mask. */
static const float *read_mask(const operation *o, size_t item, size_t head, float *buffer) {
    const whet_attention *a = &o->attention;
    if (!a->mask.data)
        return NULL;
    const char *row = mask_row(o->mask, item, head, a->queries - 1);
    if (a->mask.type == WHET_F16)
        o->run->host->type_of(HOST_F16)->to_float(row, buffer, (int64_t)a->keys);
    else
        memcpy(buffer, row, a->keys * sizeof *buffer);
    return buffer;
}

static void compute_logits(const operation *o, size_t item, size_t head, const float *mask,
                           float *key, float *logits) {
    const whet_attention *a = &o->attention;
    const char *keys = (const char *)a->k.data + (ptrdiff_t)item * a->k.stride[0] +
                       (ptrdiff_t)(head / (a->heads / a->kv_heads)) * a->k.stride[1];
    const float *q =
        (const float *)(const void *)((const char *)a->q.data + (ptrdiff_t)item * a->q.stride[0] +
                                      (ptrdiff_t)head * a->q.stride[1] +
                                      (ptrdiff_t)(a->queries - 1) * a->q.stride[2]);
    float slope = operation_slope(o, head);
    for (size_t j = 0; j < a->keys; j++) {
        const char *row = keys + (ptrdiff_t)j * a->k.stride[2];
        logits[j] = -INFINITY;
        if (mask && mask[j] == -INFINITY)
            continue;
        if (a->k.type == WHET_F32)
            memcpy(key, row, a->head_dim * sizeof *key);
        else
            o->key_type->to_float(row, key, (int64_t)a->head_dim);
        float e = a->scale * product(q, key, a->head_dim);
        e = a->softcap > 0 ? a->softcap * tanhf(e / a->softcap) : e;
        logits[j] = e + (mask ? slope * mask[j] : 0);
    }
}

/* ---- one head ---- */

size_t last_rows_bytes(const operation *o) {
    return o->details ? (2 * o->attention.keys + o->attention.head_dim) * sizeof(float) : 0;
}

void last_row_of_attention(operation *o, size_t item, size_t head, char *memory) {
    const whet_attention *a = &o->attention;
    float *logits = (float *)(void *)memory, *mask = logits + a->keys, *key = mask + a->keys;
    const int64_t *positions = run_positions(o->run, o);
    compute_logits(o, item, head, read_mask(o, item, head, mask), key, logits);
    last_row_logits(o, item, head, logits);
    if (!has_keys(o, head))
        return;
    whet_rows row = {.size = sizeof row,
                     .rows = 1,
                     .n = a->keys,
                     .in = logits,
                     .out = logits,
                     .sink = a->sinks ? a->sinks + head : NULL,
                     .position = positions ? positions[(item + 1) * a->queries - 1]
                                           : (int64_t)a->queries - 1};
    whet_softmax(&row, &o->policies->policies[o->policies->count > 1 ? head : 0], NULL);
    last_row_weights(o, item, head, logits);
}
