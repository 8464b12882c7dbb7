/* Layers of a decoder: products by the engine, attention by libwhet. */
#include "nn/decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void nn_linear_forward(const nn_engine *engine, size_t tokens, size_t in, size_t out,
                       const float *weight, const float *x, float *y, bool add) {
    nn_product_of(engine, (nn_product){.m = tokens, .n = out, .k = in, .tb = true, .add = add}, x,
                  weight, y);
}

void nn_linear_backward(const nn_engine *engine, size_t tokens, size_t in, size_t out,
                        const float *weight, const float *x, const float *grad_y, float *grad_x,
                        float *grad_weight) {
    if (grad_weight)
        nn_product_of(engine, (nn_product){.m = out, .n = in, .k = tokens, .ta = true, .add = true},
                      grad_y, x, grad_weight);
    if (grad_x)
        nn_product_of(engine, (nn_product){.m = tokens, .n = in, .k = out}, grad_y, weight, grad_x);
}

void nn_embedding_forward(const float *table, const uint32_t *ids, size_t count, size_t width,
                          float *x) {
    for (size_t i = 0; i < count; i++)
        memcpy(x + i * width, table + ids[i] * width, width * sizeof(float));
}

void nn_embedding_backward(const nn_engine *engine, const uint32_t *ids, size_t count, size_t width,
                           const float *grad_x, float *grad_table) {
    for (size_t i = 0; i < count; i++)
        engine->kernels->add(grad_table + ids[i] * width, grad_x + i * width, width);
}

void nn_rotate(const nn_engine *engine, const nn_rope *rope, const float *table, size_t rows,
               size_t length, size_t heads, size_t head_dim, size_t stride, float *x) {
    if (rope->dims == 0)
        return;
    for (size_t row = 0; row < rows; row++)
        for (size_t position = 0; position < length; position++, x += stride)
            engine->kernels->rotate(x, heads, head_dim, rope->dims,
                                    rope->cosine + position * rope->dims,
                                    table + position * rope->dims);
}

void nn_head_norm_forward(const nn_engine *engine, const nn_head_norm *norm, const float *x,
                          float *y, float *scale) {
    for (size_t i = 0; i < norm->tokens; i++)
        engine->kernels->rmsnorm_forward(x + i * norm->stride, norm->gain, norm->heads,
                                         norm->head_dim, norm->epsilon, y + i * norm->stride,
                                         scale + i * norm->scale_stride);
}

void nn_head_norm_backward(const nn_engine *engine, const nn_head_norm *norm, const float *x,
                           const float *scale, const float *grad_y, float *grad_x,
                           float *grad_gain) {
    for (size_t i = 0; i < norm->tokens; i++)
        engine->kernels->rmsnorm_backward(x + i * norm->stride, norm->gain,
                                          scale + i * norm->scale_stride, grad_y + i * norm->stride,
                                          norm->heads, norm->head_dim, grad_x + i * norm->stride,
                                          grad_gain);
}

void nn_cap_forward(float cap, size_t count, float *x) {
    for (size_t i = 0; i < count; i++)
        x[i] = cap * tanhf(x[i] / cap);
}

void nn_cap_backward(float cap, size_t count, const float *value, float *grad) {
    for (size_t i = 0; i < count; i++)
        grad[i] *= 1 - value[i] / cap * (value[i] / cap);
}

void nn_scratch_free(nn_scratch *scratch) {
    free(scratch->memory);
    *scratch = (nn_scratch){.memory = NULL};
}

static bool reserve_memory(nn_scratch *scratch, size_t size) {
    if (size <= scratch->size)
        return true;
    if (size > SIZE_MAX - WHET_ALIGNMENT)
        return false;
    nn_scratch_free(scratch);
    size = (size + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
    scratch->memory = aligned_alloc(WHET_ALIGNMENT, size);
    scratch->size = scratch->memory ? size : 0;
    return scratch->memory != NULL;
}

/* Strides in bytes for heads in rows of `stride` floats. */
typedef struct stride_set {
    ptrdiff_t of[4];
} stride_set;

static stride_set strides_of(const nn_attention *attention, size_t stride) {
    const ptrdiff_t element = sizeof(float);
    ptrdiff_t token = (ptrdiff_t)stride * element;
    return (stride_set){{(ptrdiff_t)attention->length * token,
                         (ptrdiff_t)attention->head_dim * element, token, element}};
}

static whet_tensor tensor_at(const float *data, stride_set strides) {
    whet_tensor tensor = {.data = data, .type = WHET_F32};
    memcpy(tensor.stride, strides.of, sizeof tensor.stride);
    return tensor;
}

static whet_tensor_out tensor_out_at(void *data, stride_set strides) {
    whet_tensor_out tensor = {.data = data, .type = WHET_F32};
    memcpy(tensor.stride, strides.of, sizeof tensor.stride);
    return tensor;
}

static size_t width_of(const nn_attention *attention) {
    return (attention->heads + 2 * attention->key_heads) * attention->head_dim;
}

static whet_attention describe(const nn_attention *attention, float *out) {
    stride_set joint = strides_of(attention, width_of(attention));
    size_t queries = attention->heads * attention->head_dim;
    size_t keys = attention->key_heads * attention->head_dim;
    ptrdiff_t mask_row = (ptrdiff_t)(attention->mask_stride * sizeof(uint16_t));
    return (whet_attention){
        .size = sizeof(whet_attention),
        .batch = attention->rows,
        .heads = attention->heads,
        .kv_heads = attention->key_heads,
        .queries = attention->length,
        .keys = attention->length,
        .head_dim = attention->head_dim,
        .q = tensor_at(attention->qkv, joint),
        .k = tensor_at(attention->qkv + queries, joint),
        .v = tensor_at(attention->qkv + queries + keys, joint),
        .out = tensor_out_at(out, strides_of(attention, queries)),
        .scale = attention->scale,
        .softcap = attention->softcap,
        .flags = WHET_CAUSAL,
        .window = attention->window,
        .mask = {attention->mask, {0, 0, mask_row, sizeof(uint16_t)}, WHET_F16, 0},
        .alibi_slopes = attention->alibi_slopes,
        .sinks = attention->sinks,
        .betas = attention->betas,
        .policies = attention->policies,
        .policy_count = attention->policy_count,
        .stats = attention->stats,
    };
}

/* The library does not write interleaved gradients: those of q, k and v are separate. */
static whet_gradients describe_backward(const nn_attention *attention, const float *grad_out,
                                        float *parts, const nn_attention_gradients *gradients) {
    size_t tokens = attention->rows * attention->length;
    size_t queries = attention->heads * attention->head_dim;
    size_t keys = attention->key_heads * attention->head_dim;
    stride_set query_strides = strides_of(attention, queries);
    stride_set key_strides = strides_of(attention, keys);
    return (whet_gradients){
        .size = sizeof(whet_gradients),
        .attention = describe(attention, NULL),
        .out = tensor_at(grad_out, query_strides),
        .q = tensor_out_at(parts, query_strides),
        .k = tensor_out_at(parts + tokens * queries, key_strides),
        .v = tensor_out_at(parts + tokens * (queries + keys), key_strides),
        .policies = gradients->policies,
        .sinks = gradients->sinks,
        .betas = gradients->betas,
    };
}

static void join(const nn_attention *attention, const float *parts, float *grad_qkv) {
    size_t tokens = attention->rows * attention->length;
    size_t queries = attention->heads * attention->head_dim;
    size_t keys = attention->key_heads * attention->head_dim;
    const float *k = parts + tokens * queries, *v = k + tokens * keys;
    for (size_t i = 0; i < tokens; i++, grad_qkv += queries + 2 * keys) {
        memcpy(grad_qkv, parts + i * queries, queries * sizeof(float));
        memcpy(grad_qkv + queries, k + i * keys, keys * sizeof(float));
        memcpy(grad_qkv + queries + keys, v + i * keys, keys * sizeof(float));
    }
}

static whet_status run(const whet_plan *plan, nn_scratch *scratch) {
    if (!reserve_memory(scratch, whet_attention_memory(plan, NULL)))
        return WHET_ERROR_MEMORY;
    return whet_attention_execute(plan, NULL, scratch->memory, NULL);
}

bool nn_attention_reserve(const nn_attention *attention, float *out, float *parts,
                          nn_scratch *scratch) {
    whet_plan plan = {.size = sizeof plan};
    whet_attention forward = describe(attention, out);
    if (whet_attention_plan(&forward, &plan) != WHET_OK ||
        !reserve_memory(scratch, whet_attention_memory(&plan, NULL)))
        return false;
    const nn_attention_gradients none = {.qkv = NULL};
    if (!parts)
        return true;
    whet_gradients backward = describe_backward(attention, attention->qkv, parts, &none);
    return whet_attention_backward_plan(&backward, &plan) == WHET_OK &&
           reserve_memory(scratch, whet_attention_memory(&plan, NULL));
}

whet_status nn_attention_forward(const nn_attention *attention, nn_scratch *scratch, float *out) {
    whet_plan plan = {.size = sizeof plan};
    whet_attention described = describe(attention, out);
    whet_status status = whet_attention_plan(&described, &plan);
    return status == WHET_OK ? run(&plan, scratch) : status;
}

whet_status nn_attention_backward(const nn_attention *attention, nn_scratch *scratch,
                                  const float *grad_out, float *parts,
                                  const nn_attention_gradients *gradients) {
    whet_plan plan = {.size = sizeof plan};
    whet_gradients described = describe_backward(attention, grad_out, parts, gradients);
    whet_status status = whet_attention_backward_plan(&described, &plan);
    if (status == WHET_OK)
        status = run(&plan, scratch);
    if (status == WHET_OK)
        join(attention, parts, gradients->qkv);
    return status;
}
