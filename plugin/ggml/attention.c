/*
 * Describing FLASH_ATTN_EXT to libwhet; see attention.h.
 */
#include "attention.h"
#include "run.h"
#include <math.h>
#include <string.h>

static void read_row(const void *row, float *result, size_t n, void *context) {
    const host_type *const *type = context;
    (*type)->to_float(row, result, (int64_t)n);
}

/* Whether libwhet supports the host's type, judged by its name and the bytes of a block. */
static bool is_known(const host_type *type, whet_type *result) {
    return type && type->name && whet_type_parse(type->name, result) == WHET_OK &&
           type->block_bytes > 0 &&
           whet_type_row_bytes(*result, (size_t)type->block_elements) == type->block_bytes;
}

/* `type` is where the host's description of the type is stored while the operation exists. Rows
 * with gaps between their elements, as those of transposed values, are read only of plain types. */
static bool describe_cache(whet_tensor *result, const host_type **type, size_t element_stride) {
    bool has_gaps = *type && element_stride != (*type)->block_bytes;
    if (is_known(*type, &result->type))
        return !has_gaps || (*type)->block_elements == 1;
    if (!*type || !(*type)->to_float || has_gaps)
        return false;
    result->type = WHET_CUSTOM;
    result->to_f32 = read_row;
    result->context = (void *)type;
    return true;
}

/* Converts axes of ggml (element, position, head, batch item) to those of libwhet. */
static void describe_strides(ptrdiff_t stride[4], const host_tensor *tensor) {
    stride[0] = tensor->ne[3] > 1 ? (ptrdiff_t)tensor->nb[3] : 0;
    stride[1] = (ptrdiff_t)tensor->nb[2];
    stride[2] = (ptrdiff_t)tensor->nb[1];
    stride[3] = (ptrdiff_t)tensor->nb[0];
}

static void describe_mask(whet_attention *a, const host_tensor *mask) {
    a->mask.data = mask->data;
    a->mask.type = mask->type == HOST_F16 ? WHET_F16 : WHET_F32;
    a->mask.stride[0] = mask->ne[3] > 1 ? (ptrdiff_t)mask->nb[3] : 0;
    a->mask.stride[1] = mask->ne[2] > 1 ? (ptrdiff_t)mask->nb[2] : 0;
    a->mask.stride[2] = (ptrdiff_t)mask->nb[1];
    a->mask.stride[3] = (ptrdiff_t)mask->nb[0];
}

/* Whether the mask's planes repeat over heads or batch items, which no stride can express. */
static bool planes_repeat(const whet_attention *a, const host_tensor *mask) {
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

void attention_forget_sinks(const whet_attention *a) {
    size_t rows = a->batch * a->heads * a->queries;
    for (size_t row = 0; a->stats && a->sinks && row < rows; row++)
        if (a->stats[row].max == (double)a->sinks[row / a->queries % a->heads])
            a->stats[row].max = (double)NAN;
}

/* ---- what the host computes ---- */

/* Tensors as FLASH_ATTN_EXT has them. */
typedef struct parts {
    const host_tensor *q, *k, *mask, *sinks;
    host_tensor v, result;
    float scale, softcap, max_bias;
} parts;

static void swap_axes(host_tensor *tensor, int a, int b) {
    int64_t ne = tensor->ne[a];
    size_t nb = tensor->nb[a];
    tensor->ne[a] = tensor->ne[b];
    tensor->nb[a] = tensor->nb[b];
    tensor->ne[b] = ne;
    tensor->nb[b] = nb;
}

static bool parts_of_node(const operation *o, parts *p) {
    const host_tensor *node = o->node;
    if (!node->src[0] || !node->src[1] || !node->src[2])
        return false;
    *p = (parts){.q = node->src[0],
                 .k = node->src[1],
                 .v = *node->src[2],
                 .mask = node->src[HOST_ATTENTION_MASK],
                 .sinks = node->src[HOST_ATTENTION_SINKS],
                 .result = *node,
                 .scale = host_float_param(o->op_params, HOST_PARAM_SCALE),
                 .softcap = host_float_param(o->op_params, HOST_PARAM_SOFTCAP),
                 .max_bias = host_float_param(o->op_params, HOST_PARAM_MAX_BIAS)};
    return true;
}

/* The host's values are transposed, and its results are those of a head one after the other. */
static void parts_of_pattern(const pattern *whole, parts *p) {
    const host_tensor *softmax = whole->softmax;
    *p = (parts){.q = whole->q,
                 .k = whole->k,
                 .v = *whole->v,
                 .mask = softmax->src[HOST_SOFTMAX_MASK],
                 .sinks = softmax->src[HOST_SOFTMAX_SINKS],
                 .result = *whole->product,
                 .scale = whole->scale,
                 .softcap = whole->softcap,
                 .max_bias = host_float_param(softmax->op_params, HOST_PARAM_MAX_BIAS)};
    swap_axes(&p->v, 0, 1);
    swap_axes(&p->result, 1, 2);
}

/*
 * Results in memory that the host shares with an input are written to memory of the plug-in's first
 * (attention_place). Until that exists they are planned for where no input is.
 */
static void describe_result(operation *o, const host_tensor *result) {
    o->attention.out.data = result->data;
    if (o->whole && o->whole->behind_inputs)
        memcpy(&o->attention.out.data, &o->whole->behind_inputs, sizeof o->attention.out.data);
    o->attention.out.type = WHET_F32;
    o->attention.out.stride[0] = (ptrdiff_t)result->nb[3];
    o->attention.out.stride[1] = (ptrdiff_t)result->nb[1];
    o->attention.out.stride[2] = (ptrdiff_t)result->nb[2];
    o->attention.out.stride[3] = (ptrdiff_t)result->nb[0];
}

static bool describe(operation *o, const parts *p, message *why) {
    const host_tensor *q = p->q, *k = p->k, *v = &p->v;
    if (!shapes_agree(q, k, v, &p->result))
        return message_set(why, "unsupported shapes");
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
        .scale = p->scale,
        .softcap = p->softcap,
        .policies = o->policies->policies,
        .policy_count = o->policies->count,
        .skip = o->run->settings->skip,
    };
    o->key_type = o->run->host->type_of(k->type);
    o->value_type = o->run->host->type_of(v->type);
    if (!describe_cache(&a->k, &o->key_type, k->nb[0]) ||
        !describe_cache(&a->v, &o->value_type, v->nb[0]))
        return message_set(why, "unsupported type of keys or values");
    describe_strides(a->q.stride, q);
    describe_strides(a->k.stride, k);
    describe_strides(a->v.stride, v);
    describe_result(o, &p->result);
    o->max_bias = p->max_bias;
    if (a->scale == 0)
        return message_set(why, "scale is 0");
    if (!mask_is_known(p->mask, a, why) || !sinks_are_known(p->sinks, a, why))
        return false;
    o->mask = p->mask;
    if (p->mask)
        describe_mask(a, p->mask);
    a->sinks = p->sinks ? p->sinks->data : NULL;
    o->compute = p->mask && (o->max_bias > 0 || planes_repeat(a, p->mask)) ? attention_heads_compute
                                                                           : attention_team_compute;
    whet_status status = operation_plan(a, &o->plan);
    return status == WHET_OK || message_set(why, "%s", whet_last_error());
}

bool attention_describe(operation *o, message *why) {
    parts p;
    if (o->whole)
        parts_of_pattern(o->whole, &p);
    else if (!parts_of_node(o, &p))
        return message_set(why, "unsupported shapes");
    return describe(o, &p, why);
}

/* ---- results elsewhere ---- */

size_t attention_place_bytes(const operation *o) {
    const whet_attention *a = &o->attention;
    return o->whole && o->whole->behind_inputs
               ? operation_aligned((size_t)a->out.stride[0] * a->batch)
               : 0;
}

void attention_place(operation *o, void *memory) {
    if (attention_place_bytes(o))
        o->attention.out.data = memory;
}

void attention_fetch_result(const operation *o) {
    if (attention_place_bytes(o))
        memcpy(o->node->data, o->attention.out.data,
               (size_t)o->attention.out.stride[0] * o->attention.batch);
}
