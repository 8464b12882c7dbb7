/*
 * SOFT_MAX: logits [keys, queries, heads, streams] to weights of the same shape, perhaps in place,
 * with a scale, a mask [at least keys, queries, a part of heads, of streams] times ALiBi's slope,
 * and sinks. The products with keys and values are the host's here. A task is a few rows of one
 * head: their logits are completed in the result, which libwhet then turns into weights where they
 * lie.
 */
#include "operation.h"
#include <math.h>
#include <string.h>

#define SOURCE_MASK 1
#define SOURCE_SINKS 2
#define TASK_ELEMENTS 16384 /* logits of a task stay in the nearest caches */

bool softmax_describe(operation *o, message *why) {
    const host_tensor *node = o->node, *logits = node->src[0], *mask = node->src[SOURCE_MASK],
                      *sinks = node->src[SOURCE_SINKS];
    for (int i = 0; i < HOST_DIMENSIONS; i++)
        if (logits->ne[i] != node->ne[i])
            return message_set(why, "its shapes are unknown");
    if (logits->type != HOST_F32 || node->type != HOST_F32 || logits->nb[0] != sizeof(float) ||
        node->nb[0] != sizeof(float) || node->nb[1] % sizeof(float) != 0)
        return message_set(why, "its logits are not of type f32, or not contiguous");
    if ((mask->type != HOST_F16 && mask->type != HOST_F32) || mask->ne[0] < node->ne[0] ||
        mask->ne[1] < node->ne[1] || mask->ne[2] < 1 || node->ne[2] % mask->ne[2] != 0 ||
        mask->ne[3] < 1 || node->ne[3] % mask->ne[3] != 0)
        return message_set(why, "its mask has an unknown shape or type");
    if (sinks && (sinks->type != HOST_F32 || sinks->ne[0] != node->ne[2]))
        return message_set(why, "its sinks have an unknown shape or type");
    o->kind = OPERATION_SOFTMAX;
    o->attention = (whet_attention){
        .batch = (size_t)node->ne[3],
        .heads = (size_t)node->ne[2],
        .queries = (size_t)node->ne[1],
        .keys = (size_t)node->ne[0],
        .sinks = sinks ? sinks->data : NULL,
    };
    memcpy(&o->attention.scale, &o->op_params[0], sizeof(float));
    memcpy(&o->max_bias, &o->op_params[1], sizeof(float));
    return true;
}

/* ---- rows ---- */

static char *row_of(const host_tensor *tensor, size_t stream, size_t head, size_t query) {
    size_t plane = head % (size_t)tensor->ne[2] * tensor->nb[2] +
                   stream % (size_t)tensor->ne[3] * tensor->nb[3];
    return (char *)tensor->data + plane + query * tensor->nb[1];
}

static void add_mask(float *result, const float *logits, float scale, const float *mask,
                     float slope, size_t n) {
    for (size_t i = 0; i < n; i++)
        result[i] = scale * logits[i] + slope * mask[i];
}

static float spread_of_row(const float *row, size_t n) {
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (row[i] > -INFINITY && row[i] < low)
            low = row[i];
        if (row[i] > high)
            high = row[i];
    }
    return high - low;
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

static double known_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    (void)stats;
    *dbeta_dentropy = 0;
    return *(const double *)context;
}

/* Weights of a row with beta as it is for these statistics, whose count of keys is right. */
static void weigh_as_counted(const whet_policy *policy, const whet_stats *counted,
                             const whet_rows *rows) {
    double beta = whet_policy_beta(policy, counted);
    whet_policy chosen = whet_policy_custom(known_beta, &beta);
    whet_softmax(rows, &chosen, NULL);
}

/*
 * A row with a sink: one more logit, in front, whose share is lost. It takes part in the entropy
 * but is not counted among the keys, which lengths in policies are about; so beta is worked out
 * with the count put right. To the coefficients of sigmoid and stick-breaking a sink is nothing.
 */
static void weigh_with_sink(const whet_policy *policy, float sink, float *row, size_t n,
                            float *longer, whet_stats *stats) {
    whet_stats counted;
    longer[0] = sink;
    memcpy(longer + 1, row, n * sizeof(float));
    whet_rows rows = rows_at(longer, 1, n + 1, n + 1, &counted);
    whet_entropy(&rows, NULL, NULL);
    counted.n -= sink > -INFINITY && counted.n > 0;
    rows.stats = stats;
    if (policy->kind == WHET_POLICY_SIGMOID || policy->kind == WHET_POLICY_STICK_BREAKING) {
        whet_rows plain = rows_at(row, 1, n, n, stats);
        whet_softmax(&plain, policy, NULL);
    } else {
        if (whet_policy_is_temperature(policy) && policy->kind != WHET_POLICY_TARGET)
            weigh_as_counted(policy, &counted, &rows);
        else
            whet_softmax(&rows, policy, NULL);
        memcpy(row, longer + 1, n * sizeof(float));
    }
    stats->n = counted.n;
    stats->max = counted.max;
    stats->z = counted.z;
    stats->s = counted.s;
    stats->logsumexp = counted.logsumexp;
    stats->entropy = counted.entropy;
}

/* ---- tasks ---- */

static size_t rows_to_task(const operation *o) {
    size_t rows = TASK_ELEMENTS / (o->attention.keys + 1);
    return rows ? rows : 1;
}

static size_t tasks_to_head(const operation *o) {
    return (o->attention.queries + rows_to_task(o) - 1) / rows_to_task(o);
}

/* A thread's memory: a mask's row as floats, and a row with its sink. */
static size_t buffer_floats(const operation *o) { return o->attention.keys + 16; }

static bool set_out_rows(operation *o, size_t threads) {
    return operation_memory(o, 0, 2 * buffer_floats(o) * sizeof(float), threads);
}

static const whet_policy *policy_of(const operation *o, size_t head) {
    return &o->policies->policies[o->policies->count > 1 ? head : 0];
}

/* The row's logits, scaled and masked, in the place of the result. */
static float *complete_row(const operation *o, size_t stream, size_t head, size_t query,
                           float slope, float *buffer) {
    const host_tensor *mask = o->node->src[SOURCE_MASK];
    const float *logits = (const float *)(void *)row_of(o->node->src[0], stream, head, query);
    float *result = (float *)(void *)row_of(o->node, stream, head, query);
    const char *masked = row_of(mask, stream, head, query);
    const float *numbers = (const float *)(const void *)masked;
    if (mask->type == HOST_F16) {
        o->run->host->type_of(HOST_F16)->to_float(masked, buffer, (int64_t)o->attention.keys);
        numbers = buffer;
    }
    add_mask(result, logits, o->attention.scale, numbers, slope, o->attention.keys);
    return result;
}

static void record_spread(operation *o, size_t row, size_t query, const float *logits) {
    size_t queries = o->attention.queries, step = settings_step(o->run->settings, queries);
    if (o->stats && (queries - 1 - query) % step == 0) {
        size_t recorded = recorded_count(queries, step);
        size_t i = recorded - 1 - (queries - 1 - query) / step;
        o->spread[row * recorded + i] = spread_of_row(logits, o->attention.keys);
    }
}

static void compute_rows(operation *o, size_t task, float *buffer) {
    const whet_attention *a = &o->attention;
    size_t row = task / tasks_to_head(o), stream = row / a->heads, head = row % a->heads;
    size_t first = task % tasks_to_head(o) * rows_to_task(o);
    size_t end = first + rows_to_task(o) < a->queries ? first + rows_to_task(o) : a->queries;
    float slope = alibi_slope(o->max_bias, a->heads, head);
    const whet_policy *policy = policy_of(o, head);
    whet_stats unwanted, *stats = o->stats ? o->stats + row * a->queries : NULL;
    for (size_t query = first; query < end; query++) {
        float *logits = complete_row(o, stream, head, query, slope, buffer);
        record_spread(o, row, query, logits);
        if (a->sinks)
            weigh_with_sink(policy, a->sinks[head], logits, a->keys, buffer + buffer_floats(o),
                            stats ? stats + query : &unwanted);
    }
    if (!a->sinks) {
        float *rows = (float *)(void *)row_of(o->node, stream, head, first);
        whet_rows all = rows_at(rows, end - first, a->keys, o->node->nb[1] / sizeof(float),
                                stats ? stats + first : NULL);
        whet_softmax(&all, policy, NULL);
    }
}

void softmax_compute(host_tensor *result, int thread, int threads, void *context) {
    (void)result;
    operation *o = context;
    size_t task, tasks = o->attention.batch * o->attention.heads * tasks_to_head(o);
    if (!operation_set_out(o, thread, threads, set_out_rows))
        return;
    float *buffer = (float *)(void *)operation_memory_of(o, 0, thread);
    while (team_take(&o->team, tasks, &task))
        compute_rows(o, task, buffer);
}
