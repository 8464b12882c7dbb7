/*
 * Checks a description of attention's backward pass. Outputs are all the
 * gradients asked for; none may touch an input or another output, since tasks
 * write some while others still read.
 */
#include "attention/backward.h"
#include "attention/check.h"
#include "base/element_types.h"

enum { RANGES_MAX = 16 };

typedef struct range_list {
    memory_range range[RANGES_MAX];
    size_t count;
} range_list;

static void add_range(range_list *list, memory_range range) { list->range[list->count++] = range; }

/* `count` elements in a row, if there is an address at all. */
static void add_array(range_list *list, const void *data, size_t count, size_t element) {
    if (data)
        add_range(list, range_at(data, count * element));
}

/* One float for each row, [batch][head][query]; false if they leave the address range. The number
 * of rows has been checked together with the statistics. */
static bool add_rows(range_list *list, const whet_attention *a, const float *data) {
    size_t row_count = a->batch * a->heads * a->queries;
    if (!data || row_count == 0)
        return true;
    memory_range range = range_at(data, sizeof(float));
    if (!range_extend(&range, row_count, sizeof(float)))
        return false;
    add_range(list, range);
    return true;
}

/* Gradients of statistics may arrive, in place of that of the output or beside it. */
static bool statistics_arrive(const whet_gradients *g) {
    return g->logsumexp || g->entropy || g->entropy_after;
}

static bool can_be_written(whet_type type) { return element_type_of(type)->is_output; }

/* Gradients flow into what can be written; only what sums to one has an entropy. */
static whet_status check_offered(const whet_gradients *g) {
    const whet_attention *a = &g->attention;
    if ((g->k.data && !can_be_written(a->k.type)) || (g->v.data && !can_be_written(a->v.type)))
        return WHET_ERROR_UNSUPPORTED;
    for (size_t i = 0; g->entropy_after && i < a->policy_count; i++)
        if (!(whet_map_of(&a->policies[i])->traits & MAP_SUMS_TO_ONE))
            return WHET_ERROR_UNSUPPORTED;
    return WHET_OK;
}

/* Everything that comes one to a row: given betas, and the gradients of statistics. */
static whet_status check_rows(const whet_gradients *g, range_list *inputs) {
    const float *given[] = {g->attention.betas, g->logsumexp, g->entropy, g->entropy_after};
    for (size_t i = 0; i < COUNT_OF(given); i++) {
        if (!floats_are_aligned(given[i]))
            return WHET_ERROR_ARGUMENT;
        if (!add_rows(inputs, &g->attention, given[i]))
            return WHET_ERROR_OVERFLOW;
    }
    return WHET_OK;
}

/* Its gradient: one number for all batches or heads where their stride is zero. */
static whet_status check_bias_gradient(whet_gradients *g, range_list *outputs) {
    const whet_attention *a = &g->attention;
    ptrdiff_t *stride = g->bias.stride;
    if (!g->bias.data)
        return WHET_OK;
    if (!a->bias.data)
        return WHET_ERROR_ARGUMENT;
    if (a->keys == 0)
        return WHET_OK;
    if (stride[2] == 0)
        stride[2] = sizeof(float);
    whet_tensor_out as_tensor = {
        .data = g->bias.data, .stride = {stride[0], stride[1], 0, stride[2]}, .type = WHET_F32};
    extent size = {stride[0] ? a->batch : 1, stride[1] ? a->heads : 1, 1, a->keys};
    memory_range range;
    whet_status status = whet_check_output(&as_tensor, size, &range);
    if (status == WHET_OK)
        add_range(outputs, range);
    return status;
}

/* The output's gradient, which counts as zeros where only statistics have one. */
static whet_status check_arriving(whet_gradients *g, memory_range *range) {
    const whet_attention *a = &g->attention;
    extent size = {a->batch, a->heads, a->queries, a->value_dim};
    if (!g->out.data && statistics_arrive(g))
        return WHET_OK;
    return whet_check_input(&g->out, size, false, range);
}

static whet_status check_inputs(whet_gradients *g, range_list *inputs) {
    whet_attention *a = &g->attention;
    extent q_size = {a->batch, a->heads, a->queries, a->head_dim};
    extent k_size = {a->batch, a->kv_heads, a->keys, a->head_dim};
    extent v_size = {a->batch, a->kv_heads, a->keys, a->value_dim};
    memory_range range[7] = {{0, 0}};
    whet_status status = WHET_OK;
    if (a->queries > 0) {
        status = a->stats ? whet_check_input(&a->q, q_size, false, &range[0]) : WHET_ERROR_ARGUMENT;
        if (status == WHET_OK)
            status = check_arriving(g, &range[1]);
        if (status == WHET_OK)
            status = whet_check_mask(a, &range[2]);
        if (status == WHET_OK)
            status = whet_check_stats(a, &range[3]);
    }
    if (status == WHET_OK && a->keys > 0 && a->queries > 0)
        status = whet_check_input(&a->k, k_size, true, &range[4]);
    if (status == WHET_OK && a->keys > 0 && a->queries > 0)
        status = whet_check_input(&a->v, v_size, true, &range[5]);
    if (status == WHET_OK)
        status = check_rows(g, inputs);
    if (status == WHET_OK)
        status = whet_check_bias(a, &range[6]);
    for (size_t i = 0; i < COUNT_OF(range); i++)
        add_range(inputs, range[i]);
    add_array(inputs, a->sinks, a->heads, sizeof(float));
    add_array(inputs, a->alibi_slopes, a->heads, sizeof(float));
    add_array(inputs, a->policies, a->policy_count, sizeof(whet_policy));
    return status;
}

static whet_status check_gradient(whet_tensor_out *tensor, extent size, range_list *outputs) {
    memory_range range = {0, 0};
    if (!tensor->data || size.positions == 0)
        return WHET_OK;
    whet_status status = whet_check_output(tensor, size, &range);
    if (status == WHET_OK)
        add_range(outputs, range);
    return status;
}

static whet_status check_outputs(whet_gradients *g, range_list *outputs) {
    const whet_attention *a = &g->attention;
    extent q_size = {a->batch, a->heads, a->queries, a->head_dim};
    extent k_size = {a->batch, a->kv_heads, a->keys, a->head_dim};
    extent v_size = {a->batch, a->kv_heads, a->keys, a->value_dim};
    if (g->q.reserved || g->k.reserved || g->v.reserved || g->out.reserved)
        return WHET_ERROR_ARGUMENT;
    if (!floats_are_aligned(g->sinks) || !floats_are_aligned(g->alibi_slopes) ||
        !floats_are_aligned(g->betas) ||
        (uintptr_t)g->policies % _Alignof(whet_policy_gradient) != 0)
        return WHET_ERROR_ARGUMENT;
    if ((g->sinks && !a->sinks) || (g->alibi_slopes && !a->alibi_slopes))
        return WHET_ERROR_ARGUMENT;
    whet_status status = check_gradient(&g->q, q_size, outputs);
    if (status == WHET_OK)
        status = check_gradient(&g->k, k_size, outputs);
    if (status == WHET_OK)
        status = check_gradient(&g->v, v_size, outputs);
    if (status == WHET_OK)
        status = check_bias_gradient(g, outputs);
    if (status == WHET_OK && !add_rows(outputs, a, g->betas))
        status = WHET_ERROR_OVERFLOW;
    add_array(outputs, g->sinks, a->heads, sizeof(float));
    add_array(outputs, g->alibi_slopes, a->heads, sizeof(float));
    add_array(outputs, g->policies, a->policy_count, sizeof(whet_policy_gradient));
    return status;
}

static bool any_overlap(const range_list *inputs, const range_list *outputs) {
    for (size_t i = 0; i < outputs->count; i++) {
        for (size_t j = 0; j < inputs->count; j++)
            if (range_overlap(outputs->range[i], inputs->range[j]))
                return true;
        for (size_t j = 0; j < i; j++)
            if (range_overlap(outputs->range[i], outputs->range[j]))
                return true;
    }
    return false;
}

whet_status whet_backward_check(whet_gradients *g) {
    range_list inputs = {.count = 0}, outputs = {.count = 0};
    whet_status status = whet_fill_description(&g->attention);
    if (status == WHET_OK)
        status = check_offered(g);
    if (status == WHET_OK)
        status = check_inputs(g, &inputs);
    if (status == WHET_OK)
        status = check_outputs(g, &outputs);
    if (status == WHET_OK && any_overlap(&inputs, &outputs))
        status = WHET_ERROR_OVERLAP;
    return status;
}
