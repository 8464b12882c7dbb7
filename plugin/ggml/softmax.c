/*
 * SOFT_MAX: logits [keys, queries, heads, batch] to weights of the same shape, perhaps in place,
 * with a scale, a mask [at least keys, queries, divisor of heads, of batch] times ALiBi's slope,
 * and sinks. The host itself computes the products with keys and values. A task is a few rows of
 * one head: their logits are completed in the result, which libwhet then turns into weights in
 * place.
 */
#include "last_rows.h"
#include "run.h"
#include <math.h>
#include <string.h>

#define TASK_ELEMENTS 16384 /* logits of a task stay in the near caches */

static void softmax_compute(host_tensor *result, int thread, int threads, void *context);

bool softmax_describe(operation *o, message *why) {
    const host_tensor *node = o->node, *logits = node->src[0];
    const host_tensor *mask = node->src[HOST_SOFTMAX_MASK], *sinks = node->src[HOST_SOFTMAX_SINKS];
    for (int i = 0; i < HOST_DIMENSIONS; i++)
        if (logits->ne[i] != node->ne[i])
            return message_set(why, "unsupported shapes");
    if (logits->type != HOST_F32 || node->type != HOST_F32 || logits->nb[0] != sizeof(float) ||
        node->nb[0] != sizeof(float) || node->nb[1] % sizeof(float) != 0)
        return message_set(why, "logits are not f32 or not contiguous");
    o->compute = softmax_compute;
    o->mask = mask;
    o->attention = (whet_attention){
        .batch = (size_t)node->ne[3],
        .heads = (size_t)node->ne[2],
        .queries = (size_t)node->ne[1],
        .keys = (size_t)node->ne[0],
        .scale = host_float_param(o->op_params, HOST_PARAM_SCALE),
        .sinks = sinks ? sinks->data : NULL,
    };
    o->max_bias = host_float_param(o->op_params, HOST_PARAM_MAX_BIAS);
    return mask_is_known(mask, &o->attention, why) && sinks_are_known(sinks, &o->attention, why);
}

/* ---- rows ---- */

/* A row of the logits or of the result, each of which has a plane for every head. */
static float *row_of(const host_tensor *tensor, size_t item, size_t head, size_t query) {
    return (float *)(void *)((char *)tensor->data + item * tensor->nb[3] + head * tensor->nb[2] +
                             query * tensor->nb[1]);
}

static void add_mask(float *result, const float *logits, float scale, const float *mask,
                     float slope, size_t n) {
    for (size_t i = 0; i < n; i++)
        result[i] = scale * logits[i] + slope * mask[i];
}

static float largest_of(const float *row, size_t n) {
    float largest = -INFINITY;
    for (size_t i = 0; i < n; i++)
        largest = row[i] > largest ? row[i] : largest;
    return largest;
}

static whet_rows rows_at(float *data, size_t rows, size_t n, size_t stride, whet_stats *stats) {
    return (whet_rows){
        .size = sizeof(whet_rows),
        .rows = rows,
        .n = n,
        .in = data,
        .in_stride = (ptrdiff_t)stride,
        .out = data,
        .out_stride = (ptrdiff_t)stride,
        .stats = stats,
    };
}

/* ---- tasks ---- */

static size_t rows_to_task(const operation *o) {
    size_t rows = TASK_ELEMENTS / (o->attention.keys + 1);
    return rows ? rows : 1;
}

static size_t tasks_to_head(const operation *o) {
    return (o->attention.queries + rows_to_task(o) - 1) / rows_to_task(o);
}

/* A thread's memory: a row of the mask as floats, and the largest logit of each row of a task. */
static size_t mask_floats(const operation *o) { return o->attention.keys + 16; }

static bool prepare(operation *o, size_t threads) {
    return operation_memory(o, 0, (mask_floats(o) + rows_to_task(o)) * sizeof(float), threads);
}

static const whet_policy *policy_of(const operation *o, size_t head) {
    return &o->policies->policies[o->policies->count > 1 ? head : 0];
}

/* Writes the row's logits, scaled and masked, to the place of the result. */
static float *complete_row(const operation *o, size_t item, size_t head, size_t query, float slope,
                           float *buffer) {
    const host_tensor *mask = o->mask;
    const char *stored = mask_row(mask, item, head, query);
    const float *masked = (const float *)(const void *)stored;
    float *result = row_of(o->node, item, head, query);
    if (mask->type == HOST_F16) {
        o->run->host->type_of(HOST_F16)->to_float(stored, buffer, (int64_t)o->attention.keys);
        masked = buffer;
    }
    add_mask(result, row_of(o->node->src[0], item, head, query), o->attention.scale, masked, slope,
             o->attention.keys);
    return result;
}

/* Positions of the tokens from a query on, or NULL. */
static const int64_t *positions_of(const operation *o, size_t item, size_t query) {
    const int64_t *all = run_positions(o->run, o);
    return all ? all + item * o->attention.queries + query : NULL;
}

/* The number of leading tokens with consecutive positions. */
static size_t consecutive(const int64_t *positions, size_t count) {
    size_t n = 1;
    while (n < count && (!positions || positions[n] == positions[n - 1] + 1))
        n++;
    return n;
}

/* Computes the weights of `count` rows whose tokens have consecutive positions. */
static void weigh_rows(const operation *o, size_t item, size_t head, size_t first, size_t count,
                       whet_stats *stats) {
    const whet_attention *a = &o->attention;
    const int64_t *positions = positions_of(o, item, first);
    whet_rows rows = rows_at(row_of(o->node, item, head, first), count, a->keys,
                             o->node->nb[1] / sizeof(float), stats);
    rows.sink = a->sinks ? a->sinks + head : NULL;
    rows.position = positions ? *positions : (int64_t)first;
    rows.position_stride = 1;
    whet_softmax(&rows, policy_of(o, head), NULL);
}

static void compute_rows(operation *o, size_t task, float *buffer) {
    const whet_attention *a = &o->attention;
    size_t item_head = task / tasks_to_head(o), item = item_head / a->heads,
           head = item_head % a->heads;
    size_t first = task % tasks_to_head(o) * rows_to_task(o);
    size_t end = first + rows_to_task(o) < a->queries ? first + rows_to_task(o) : a->queries;
    float slope = operation_slope(o, head);
    whet_stats *stats = o->stats ? o->stats + item_head * a->queries + first : NULL;
    bool has_last = end == a->queries && last_row_is_wanted(o, head);
    float *largest = stats && a->sinks ? buffer + mask_floats(o) : NULL;
    for (size_t query = first; query < end; query++) {
        float *logits = complete_row(o, item, head, query, slope, buffer);
        if (largest)
            largest[query - first] = largest_of(logits, a->keys);
        if (has_last && query == a->queries - 1)
            last_row_logits(o, item, head, logits);
    }
    for (size_t next = first, count; next < end; next += count) {
        const int64_t *positions = positions_of(o, item, next);
        count = consecutive(positions, end - next);
        weigh_rows(o, item, head, next, count, stats ? stats + (next - first) : NULL);
    }
    if (has_last)
        last_row_weights(o, item, head, row_of(o->node, item, head, a->queries - 1));
    for (size_t i = 0; largest && i < end - first; i++)
        stats[i].max = (double)largest[i]; /* a recording does not count the sink */
}

static void softmax_compute(host_tensor *result, int thread, int threads, void *context) {
    (void)result;
    operation *o = context;
    size_t task, tasks = o->attention.batch * o->attention.heads * tasks_to_head(o);
    if (!operation_prepare(o, thread, threads, prepare))
        return;
    float *buffer = (float *)(void *)operation_thread_memory(o, thread);
    while (team_take(&o->team, tasks, &task))
        compute_rows(o, task, buffer);
}
