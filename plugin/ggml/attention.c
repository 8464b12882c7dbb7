/*
 * FLASH_ATTN_EXT: queries [head_dim, queries, heads, streams], keys and values likewise with heads
 * of their own, a mask [keys, queries, a part of heads, a part of streams], sinks [heads]; the
 * result is [value_dim, heads, queries, streams]. It is described to libwhet as it lies, and the
 * tasks of the plan are shared by the host's threads.
 *
 * ALiBi is a mask of distances that each head multiplies by its slope. Such operations are rare;
 * a head is then one task, with a mask of its own. So are masks with some planes that heads take by
 * turns, for which the slope is 1.
 *
 * For a recording, the smallest logit is the negated largest one of the same attention with a
 * negated scale, which is computed for the recorded rows with next to no values. (A mask's entries
 * are 0 or -inf here; ALiBi's, which are not, are negated too.)
 */
#include "operation.h"
#include <math.h>
#include <string.h>

#define SOURCE_MASK 3
#define SOURCE_SINKS 4

static whet_status make_plan(const whet_attention *attention, whet_plan *plan) {
    plan->size = sizeof *plan;
    return whet_attention_plan(attention, plan);
}

/* ---- describing ---- */

static void read_row(const void *row, float *result, size_t n, void *context) {
    const host_type *const *type = context;
    (*type)->to_float(row, result, (int64_t)n);
}

/* `type` is where the host's description of the type is kept as long as the operation. */
static bool describe_cache(whet_tensor *result, const host_tensor *tensor, const host_type **type) {
    switch (tensor->type) {
    case HOST_F32:
        result->type = WHET_F32;
        break;
    case HOST_F16:
        result->type = WHET_F16;
        break;
    case HOST_BF16:
        result->type = WHET_BF16;
        break;
    case HOST_Q8_0:
        result->type = WHET_Q8_0;
        break;
    case HOST_Q4_0:
        result->type = WHET_Q4_0;
        break;
    default:
        if (!*type || !(*type)->to_float)
            return false;
        result->type = WHET_CUSTOM;
        result->to_f32 = read_row;
        result->context = (void *)type;
    }
    return true;
}

/* Axes of ggml (element, position, head, stream) into those of libwhet. */
static void describe_strides(ptrdiff_t stride[4], const host_tensor *tensor) {
    stride[0] = tensor->ne[3] > 1 ? (ptrdiff_t)tensor->nb[3] : 0;
    stride[1] = (ptrdiff_t)tensor->nb[2];
    stride[2] = (ptrdiff_t)tensor->nb[1];
    stride[3] = (ptrdiff_t)tensor->nb[0];
}

static bool describe_mask(whet_attention *a, const host_tensor *mask, message *why) {
    if ((mask->type != HOST_F16 && mask->type != HOST_F32) || mask->ne[0] < (int64_t)a->keys ||
        mask->ne[1] < (int64_t)a->queries || mask->ne[2] < 1 ||
        (int64_t)a->heads % mask->ne[2] != 0 || mask->ne[3] < 1 ||
        (int64_t)a->batch % mask->ne[3] != 0)
        return message_set(why, "its mask has an unknown shape or type");
    a->mask.data = mask->data;
    a->mask.type = mask->type == HOST_F16 ? WHET_F16 : WHET_F32;
    a->mask.stride[0] = mask->ne[3] > 1 ? (ptrdiff_t)mask->nb[3] : 0;
    a->mask.stride[1] = mask->ne[2] > 1 ? (ptrdiff_t)mask->nb[2] : 0;
    a->mask.stride[2] = (ptrdiff_t)mask->nb[1];
    a->mask.stride[3] = (ptrdiff_t)mask->nb[0];
    return true;
}

/* Whether heads or streams share the mask's planes by turns, which no stride can say. */
static bool planes_take_turns(const whet_attention *a, const host_tensor *mask) {
    return (mask->ne[2] != 1 && mask->ne[2] != (int64_t)a->heads) ||
           (mask->ne[3] != 1 && mask->ne[3] != (int64_t)a->batch);
}

static bool shapes_agree(const host_tensor *q, const host_tensor *k, const host_tensor *v,
                         const host_tensor *result) {
    return q->ne[0] == k->ne[0] && k->ne[1] == v->ne[1] && k->ne[2] == v->ne[2] && k->ne[2] > 0 &&
           q->ne[2] % k->ne[2] == 0 && k->ne[3] == v->ne[3] &&
           (k->ne[3] == q->ne[3] || k->ne[3] == 1) && result->ne[0] == v->ne[0] &&
           result->ne[1] == q->ne[2] && result->ne[2] == q->ne[1] && result->ne[3] == q->ne[3] &&
           q->type == HOST_F32 && result->type == HOST_F32 && k->ne[1] > 0;
}

bool attention_describe(operation *o, message *why) {
    const host_tensor *node = o->node, *q = node->src[0], *k = node->src[1], *v = node->src[2];
    const host_tensor *mask = node->src[SOURCE_MASK], *sinks = node->src[SOURCE_SINKS];
    if (!q || !k || !v || !shapes_agree(q, k, v, node))
        return message_set(why, "its shapes are unknown");
    whet_attention *a = &o->attention;
    *a = (whet_attention){
        .size = sizeof *a,
        .batch = (size_t)q->ne[3],
        .heads = (size_t)q->ne[2],
        .kv_heads = (size_t)k->ne[2],
        .queries = (size_t)q->ne[1],
        .keys = (size_t)k->ne[1],
        .head_dim = (size_t)q->ne[0],
        .value_dim = (size_t)v->ne[0],
        .q = {.data = q->data, .type = WHET_F32},
        .k = {.data = k->data},
        .v = {.data = v->data},
        .out = {.data = node->data, .type = WHET_F32},
        .policies = o->policies->policies,
        .policy_count = o->policies->count,
    };
    o->key_type = o->run->host->type_of(k->type);
    o->value_type = o->run->host->type_of(v->type);
    if (!describe_cache(&a->k, k, &o->key_type) || !describe_cache(&a->v, v, &o->value_type))
        return message_set(why, "its keys or values are of a type that cannot be read");
    describe_strides(a->q.stride, q);
    describe_strides(a->k.stride, k);
    describe_strides(a->v.stride, v);
    a->out.stride[0] = (ptrdiff_t)node->nb[3];
    a->out.stride[1] = (ptrdiff_t)node->nb[1];
    a->out.stride[2] = (ptrdiff_t)node->nb[2];
    a->out.stride[3] = (ptrdiff_t)node->nb[0];
    memcpy(&a->scale, &o->op_params[0], sizeof a->scale);
    memcpy(&o->max_bias, &o->op_params[1], sizeof o->max_bias);
    memcpy(&a->softcap, &o->op_params[2], sizeof a->softcap);
    if (a->scale == 0)
        return message_set(why, "its scale is 0");
    if (mask && !describe_mask(a, mask, why))
        return false;
    if (sinks && (sinks->type != HOST_F32 || sinks->ne[0] != q->ne[2]))
        return message_set(why, "its sinks have an unknown shape or type");
    a->sinks = sinks ? sinks->data : NULL;
    o->kind = mask && (o->max_bias > 0 || planes_take_turns(a, mask)) ? OPERATION_ALIBI
                                                                      : OPERATION_ATTENTION;
    whet_status status = make_plan(a, &o->plan);
    return status == WHET_OK || message_set(why, "%s", whet_status_text(status));
}

/* ---- setting out ---- */

/* Replaces the mask by what it amounts to, where that is simple. */
static void simplify_mask(operation *o, whet_attention *a) {
    if (!a->mask.data || o->kind == OPERATION_ALIBI)
        return;
    const mask_shape *shape = run_mask(o->run, o->node->src[SOURCE_MASK], a->queries, a->keys);
    if (!shape->is_simple)
        return;
    a->mask = (whet_mask){.data = NULL};
    if (shape->is_causal) {
        a->flags |= WHET_CAUSAL;
        a->offset = shape->offset;
        a->window = shape->window;
        return;
    }
    a->k.data = (const char *)a->k.data + (ptrdiff_t)shape->low * a->k.stride[2];
    a->v.data = (const char *)a->v.data + (ptrdiff_t)shape->low * a->v.stride[2];
    a->keys = shape->high - shape->low;
}

static size_t recorded_rows_of(const operation *o) {
    return recorded_count(o->attention.queries,
                          settings_step(o->run->settings, o->attention.queries));
}

/* Columns of the keys that are taken for values: the fewest their type allows. */
static size_t fewest_columns(const operation *o) {
    switch (o->attention.k.type) {
    case WHET_Q8_0:
    case WHET_Q4_0:
    case WHET_CUSTOM:
        return (size_t)o->key_type->block_elements;
    default:
        return 1;
    }
}

/*
 * The attention whose largest logits are the negated smallest ones of the recorded rows. Its mask
 * may be simplified only where rows keep their distance.
 */
static whet_attention negated(const operation *o, const whet_attention *simplified) {
    size_t step = settings_step(o->run->settings, o->attention.queries), rows = recorded_rows_of(o);
    size_t first = recorded_query(o->attention.queries, step, 0);
    whet_attention a = step == 1 || rows == 1 ? *simplified : o->attention;
    if (rows == 1)
        step = 1;
    a.scale = -a.scale;
    a.queries = rows;
    a.value_dim = fewest_columns(o);
    a.v = a.k;
    a.q.data = (const char *)a.q.data + (ptrdiff_t)first * a.q.stride[2];
    a.q.stride[2] *= (ptrdiff_t)step;
    if (a.mask.data) {
        a.mask.data = (const char *)a.mask.data + (ptrdiff_t)first * a.mask.stride[2];
        a.mask.stride[2] *= (ptrdiff_t)step;
    }
    a.offset += (int64_t)first;
    a.sinks = NULL;
    a.policies = NULL;
    a.policy_count = 0;
    a.stats = o->spread_stats;
    a.out = (whet_tensor_out){.type = WHET_F32};
    return a;
}

static size_t output_bytes(const whet_attention *a) {
    return a->batch * a->heads * a->queries * a->value_dim * sizeof(float);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t aligned(size_t bytes) {
    return (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
}

/* The place of its output is known only after the plan that says how much room it needs. */
static bool plan_negated(operation *o, const whet_attention *simplified, void *output) {
    whet_attention a = negated(o, simplified);
    a.out.data = output;
    return make_plan(&a, &o->spread_plan) == WHET_OK;
}

/* Shared memory: the plan's workspace, then what the recording's plan writes. */
static bool set_out_attention(operation *o, size_t threads) {
    whet_attention a = o->attention;
    a.stats = o->stats;
    simplify_mask(o, &a);
    if (make_plan(&a, &o->plan) != WHET_OK)
        return false;
    size_t shared = o->plan.workspace_bytes, each = o->plan.scratch_bytes, output = 0;
    if (o->stats) {
        /* what it needs is asked first, as if it wrote to the result */
        if (!plan_negated(o, &a, a.out.data))
            return false;
        shared = larger(shared, o->spread_plan.workspace_bytes);
        each = larger(each, o->spread_plan.scratch_bytes);
        output = output_bytes(&o->spread_plan.description.attention);
    }
    shared = aligned(shared);
    if (!operation_memory(o, shared + aligned(output), each, threads))
        return false;
    o->plan.workspace = o->shared;
    if (o->stats && !plan_negated(o, &a, o->shared + shared))
        return false;
    o->spread_plan.workspace = o->shared;
    o->shared += shared + aligned(output);
    return true;
}

/* ---- computing ---- */

static void run_plan(operation *o, const whet_plan *plan, int thread, int threads) {
    void *scratch = operation_memory_of(o, 0, thread);
    size_t task;
    for (unsigned phase = 0; phase < plan->phases; phase++) {
        while (team_take(&o->team, plan->tasks[phase], &task))
            whet_attention_run_task(plan, phase, task, scratch, NULL);
        team_wait(&o->team, (unsigned)threads);
    }
}

/* max e - min e from the two statistics of a recorded row; where a sink is the largest logit, that
 * of the keys is not known. */
static float spread_of(const operation *o, size_t stream_and_head, size_t recorded) {
    const whet_attention *a = &o->attention;
    size_t query =
        recorded_query(a->queries, settings_step(o->run->settings, o->attention.queries), recorded);
    const whet_stats *row = &o->stats[stream_and_head * a->queries + query];
    const whet_stats *least = &o->spread_stats[stream_and_head * recorded_rows_of(o) + recorded];
    if (a->sinks && row->max == (double)a->sinks[stream_and_head % a->heads])
        return NAN;
    return (float)(row->max + least->max);
}

static void fill_spread(operation *o) {
    size_t recorded = recorded_rows_of(o);
    for (size_t i = 0; i < o->attention.batch * o->attention.heads; i++)
        for (size_t j = 0; j < recorded; j++)
            o->spread[i * recorded + j] = spread_of(o, i, j);
}

static void compute_shared(operation *o, int thread, int threads) {
    if (!operation_set_out(o, thread, threads, set_out_attention))
        return;
    run_plan(o, &o->plan, thread, threads);
    if (o->stats) {
        run_plan(o, &o->spread_plan, thread, threads);
        if (thread == 0)
            fill_spread(o);
    }
}

/* ---- ALiBi ---- */

/* Attention of one head of one stream; the mask is yet to be set. */
static whet_attention single_head(const operation *o, size_t stream, size_t head) {
    whet_attention a = o->attention;
    size_t key_head = head / (a.heads / a.kv_heads);
    ptrdiff_t b = (ptrdiff_t)stream, h = (ptrdiff_t)head, g = (ptrdiff_t)key_head;
    a.q.data = (const char *)a.q.data + b * a.q.stride[0] + h * a.q.stride[1];
    a.k.data = (const char *)a.k.data + b * a.k.stride[0] + g * a.k.stride[1];
    a.v.data = (const char *)a.v.data + b * a.v.stride[0] + g * a.v.stride[1];
    a.out.data = (char *)a.out.data + b * a.out.stride[0] + h * a.out.stride[1];
    a.sinks = a.sinks ? a.sinks + head : NULL;
    a.policies = o->policies->count > 1 ? o->policies->policies + head : o->policies->policies;
    a.policy_count = 1;
    a.stats = o->stats ? o->stats + (stream * a.heads + head) * a.queries : NULL;
    a.batch = a.heads = a.kv_heads = 1;
    return a;
}

static void scale_mask(const operation *o, size_t stream, size_t head, float factor,
                       float *result) {
    const whet_attention *a = &o->attention;
    const host_tensor *mask = o->node->src[SOURCE_MASK];
    const char *plane = (const char *)a->mask.data + stream % (size_t)mask->ne[3] * mask->nb[3] +
                        head % (size_t)mask->ne[2] * mask->nb[2];
    for (size_t i = 0; i < a->queries; i++) {
        const char *row = plane + (ptrdiff_t)i * a->mask.stride[2];
        float *scaled = result + i * a->keys;
        if (a->mask.type == WHET_F16)
            o->run->host->type_of(HOST_F16)->to_float(row, scaled, (int64_t)a->keys);
        else
            memcpy(scaled, row, a->keys * sizeof(float));
        for (size_t j = 0; j < a->keys; j++)
            scaled[j] = scaled[j] == -INFINITY ? -INFINITY : factor * scaled[j];
    }
}

static size_t scaled_mask_bytes(const operation *o) {
    return aligned(o->attention.queries * o->attention.keys * sizeof(float));
}

static void use_mask(whet_attention *a, const float *mask) {
    a->mask = (whet_mask){.data = mask, .type = WHET_F32};
    a->mask.stride[2] = (ptrdiff_t)(a->keys * sizeof(float));
}

/* The negated attention of one head: all rows, since here speed matters less than being short. */
static whet_attention single_negated(const whet_attention *single, const operation *o, void *output,
                                     whet_stats *stats) {
    whet_attention a = *single;
    a.scale = -a.scale;
    a.value_dim = fewest_columns(o);
    a.v = a.k;
    a.sinks = NULL;
    a.policies = NULL;
    a.policy_count = 0;
    a.stats = stats;
    a.out = (whet_tensor_out){.data = output, .type = WHET_F32};
    return a;
}

/* A thread's memory: mask, output and statistics of the negated attention, what a plan needs. */
static size_t negated_bytes(const operation *o) {
    return o->stats ? aligned(o->attention.queries * fewest_columns(o) * sizeof(float)) +
                          aligned(o->attention.queries * sizeof(whet_stats))
                    : 0;
}

/* What planning and running a head, and recording it, takes; 0: it cannot be planned. */
static size_t single_bytes(operation *o, size_t head) {
    whet_attention a = single_head(o, 0, head); /* with the mask as it is: needs are the same */
    if (make_plan(&a, &o->plan) != WHET_OK)
        return 0;
    size_t bytes = larger(whet_attention_memory(&o->plan, NULL), 1);
    if (!o->stats)
        return bytes;
    whet_attention n = single_negated(&a, o, a.out.data, o->stats);
    if (make_plan(&n, &o->spread_plan) != WHET_OK)
        return 0;
    return larger(bytes, whet_attention_memory(&o->spread_plan, NULL));
}

/* Any thread may come to any head, and policies differ in what they need. */
static bool set_out_alibi(operation *o, size_t threads) {
    size_t each = 0;
    for (size_t head = 0; head < o->policies->count; head++) {
        size_t bytes = single_bytes(o, head);
        if (bytes == 0)
            return false;
        each = larger(each, bytes);
    }
    return operation_memory(o, 0, scaled_mask_bytes(o) + negated_bytes(o) + each, threads);
}

static void record_single(operation *o, const whet_attention *a, size_t stream_and_head,
                          char *memory, whet_plan *plan) {
    size_t output_size = aligned(a->queries * fewest_columns(o) * sizeof(float));
    whet_stats *stats = (whet_stats *)(void *)(memory + output_size);
    whet_attention n = single_negated(a, o, memory, stats);
    size_t recorded = recorded_rows_of(o),
           step = settings_step(o->run->settings, o->attention.queries);
    if (make_plan(&n, plan) != WHET_OK)
        return;
    whet_attention_execute(plan, NULL, memory + negated_bytes(o), NULL);
    for (size_t i = 0; i < recorded; i++)
        o->spread_stats[stream_and_head * recorded + i] =
            stats[recorded_query(a->queries, step, i)];
}

static void compute_head(operation *o, size_t index, char *memory) {
    size_t stream = index / o->attention.heads, head = index % o->attention.heads;
    float slope = alibi_slope(o->max_bias, o->attention.heads, head);
    float *mask = (float *)(void *)memory;
    char *rest = memory + scaled_mask_bytes(o);
    whet_plan plan;
    whet_attention a = single_head(o, stream, head);
    scale_mask(o, stream, head, slope, mask);
    use_mask(&a, mask);
    if (make_plan(&a, &plan) != WHET_OK) {
        atomic_store(&o->run->has_failed, true);
        return;
    }
    whet_attention_execute(&plan, NULL, rest + negated_bytes(o), NULL);
    if (o->stats) {
        scale_mask(o, stream, head, -slope, mask);
        record_single(o, &a, index, rest, &plan);
    }
}

static void compute_alibi(operation *o, int thread, int threads) {
    size_t index;
    if (!operation_set_out(o, thread, threads, set_out_alibi))
        return;
    while (team_take(&o->team, o->attention.batch * o->attention.heads, &index))
        compute_head(o, index, operation_memory_of(o, 0, thread));
    team_wait(&o->team, (unsigned)threads);
    if (o->stats && thread == 0)
        fill_spread(o);
}

void attention_compute(host_tensor *result, int thread, int threads, void *context) {
    (void)result;
    operation *o = context;
    if (o->kind == OPERATION_ALIBI)
        compute_alibi(o, thread, threads);
    else
        compute_shared(o, thread, threads);
}
