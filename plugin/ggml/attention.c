/*
 * Describing FLASH_ATTN_EXT to libwhet; see attention.h.
 */
#include "attention.h"
#include "run.h"
#include <math.h>

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

/* `type` is where the host's description of the type is stored while the operation exists. */
static bool describe_cache(whet_tensor *result, const host_type **type) {
    if (is_known(*type, &result->type))
        return true;
    if (!*type || !(*type)->to_float)
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

bool attention_describe(operation *o, message *why) {
    const host_tensor *node = o->node, *q = node->src[0], *k = node->src[1], *v = node->src[2];
    const host_tensor *mask = node->src[HOST_ATTENTION_MASK],
                      *sinks = node->src[HOST_ATTENTION_SINKS];
    if (!q || !k || !v || !shapes_agree(q, k, v, node))
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
        .out = {.data = node->data, .type = WHET_F32},
        .policies = o->policies->policies,
        .policy_count = o->policies->count,
        .skip = o->run->settings->skip,
        .flags = o->run->settings->invariant ? WHET_INVARIANT : 0,
    };
    o->key_type = o->run->host->type_of(k->type);
    o->value_type = o->run->host->type_of(v->type);
    if (!describe_cache(&a->k, &o->key_type) || !describe_cache(&a->v, &o->value_type))
        return message_set(why, "unsupported type of keys or values");
    describe_strides(a->q.stride, q);
    describe_strides(a->k.stride, k);
    describe_strides(a->v.stride, v);
    a->out.stride[0] = (ptrdiff_t)node->nb[3];
    a->out.stride[1] = (ptrdiff_t)node->nb[1];
    a->out.stride[2] = (ptrdiff_t)node->nb[2];
    a->out.stride[3] = (ptrdiff_t)node->nb[0];
    a->scale = host_float_param(o->op_params, HOST_PARAM_SCALE);
    a->softcap = host_float_param(o->op_params, HOST_PARAM_SOFTCAP);
    o->max_bias = host_float_param(o->op_params, HOST_PARAM_MAX_BIAS);
    if (a->scale == 0)
        return message_set(why, "scale is 0");
    if (!mask_is_known(mask, a, why) || !sinks_are_known(sinks, a, why))
        return false;
    if (mask)
        describe_mask(a, mask);
    a->sinks = sinks ? sinks->data : NULL;
    o->compute = mask && (o->max_bias > 0 || planes_repeat(a, mask)) ? attention_heads_compute
                                                                     : attention_team_compute;
    whet_status status = operation_plan(a, &o->plan);
    return status == WHET_OK || message_set(why, "%s", whet_last_error());
}
