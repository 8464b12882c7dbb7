/*
 * Checks a description of attention's backward pass. Outputs are all the
 * gradients asked for; none may touch an input or another output, since tasks
 * write some while others still read.
 */
#include "attention/backward.h"
#include "attention/check.h"
#include "base/element_types.h"
#include "base/last_error.h"

/* Where the description of the forward pass is; gradients themselves have no owner. */
#define FORWARD "attention."

/* Statistics may have gradients, with or without one of the output. */
static bool statistics_arrive(const whet_gradients *g) {
    return g->logsumexp || g->entropy || g->entropy_after;
}

static whet_status check_written_type(const whet_tensor_out *gradient, const whet_tensor *tensor,
                                      const char *name) {
    const element_type *type = element_type_of(tensor->type);
    if (!gradient->data || type->is_output)
        return WHET_OK;
    return whet_refuse(WHET_ERROR_UNSUPPORTED,
                       "%s.data is given, but " FORWARD "%s.type is %s, which has no gradient",
                       name, name, type->name);
}

/* Gradients flow into what can be written; only what sums to one has an entropy. */
static whet_status check_offered(const whet_gradients *g) {
    const whet_attention *a = &g->attention;
    whet_status status = check_written_type(&g->k, &a->k, "k");
    if (status == WHET_OK)
        status = check_written_type(&g->v, &a->v, "v");
    for (size_t i = 0; status == WHET_OK && g->entropy_after && i < a->policy_count; i++)
        if (!(whet_map_of(&a->policies[i])->traits & MAP_SUMS_TO_ONE))
            status = whet_refuse(WHET_ERROR_UNSUPPORTED,
                                 "entropy_after is given, but the map of " FORWARD
                                 "policies[%zu] need not sum to one",
                                 i);
    return status;
}

/* Everything that comes one to a row: given betas, and the gradients of statistics. */
static whet_status check_rows(const whet_gradients *g, range_list *inputs) {
    const struct {
        const float *data;
        member name;
    } rows[] = {{g->attention.betas, {FORWARD, "betas"}},
                {g->logsumexp, {"", "logsumexp"}},
                {g->entropy, {"", "entropy"}},
                {g->entropy_after, {"", "entropy_after"}}};
    whet_status status = WHET_OK;
    for (size_t i = 0; status == WHET_OK && i < COUNT_OF(rows); i++) {
        status = whet_check_aligned(rows[i].data, rows[i].name, _Alignof(float));
        if (status == WHET_OK)
            status = whet_check_row_floats(&g->attention, rows[i].data, rows[i].name,
                                           whet_list_range(inputs, rows[i].name));
    }
    return status;
}

/* Its gradient: one number for all batches or heads where their stride is zero. */
static whet_status check_bias_gradient(whet_gradients *g, range_list *outputs) {
    const whet_attention *a = &g->attention;
    const member name = {"", "bias"};
    ptrdiff_t *stride = g->bias.stride;
    if (!g->bias.data)
        return WHET_OK;
    if (!a->bias.data)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "bias.data is given, but " FORWARD "bias.data is NULL");
    if (a->keys == 0)
        return WHET_OK;
    if (stride[2] == 0)
        stride[2] = sizeof(float);
    whet_tensor_out as_tensor = {
        .data = g->bias.data, .stride = {stride[0], stride[1], 0, stride[2]}, .type = WHET_F32};
    extent size = {stride[0] ? a->batch : 1, stride[1] ? a->heads : 1, 1, a->keys};
    return whet_check_output(&as_tensor, name, size, whet_list_range(outputs, name));
}

/* The output's gradient, which counts as zeros where only statistics have one. */
static whet_status check_arriving(whet_gradients *g, range_list *inputs) {
    const whet_attention *a = &g->attention;
    const member name = {"", "out"};
    extent size = {a->batch, a->heads, a->queries, a->value_dim};
    if (g->out.data)
        return whet_check_input(&g->out, name, size, false, whet_list_range(inputs, name));
    return statistics_arrive(g) ? WHET_OK
                                : whet_refuse(WHET_ERROR_ARGUMENT, "out.data is NULL, and no "
                                                                   "gradient of a statistic is "
                                                                   "given");
}

/* What there is for each query: tensors, mask and statistics. */
static whet_status check_forward_tensors(whet_gradients *g, range_list *inputs) {
    whet_attention *a = &g->attention;
    const extent q_size = {a->batch, a->heads, a->queries, a->head_dim};
    const extent k_size = {a->batch, a->kv_heads, a->keys, a->head_dim};
    const extent v_size = {a->batch, a->kv_heads, a->keys, a->value_dim};
    const member q = {FORWARD, "q"}, k = {FORWARD, "k"}, v = {FORWARD, "v"};
    if (!a->stats)
        return whet_refuse(WHET_ERROR_ARGUMENT, FORWARD "stats is NULL: the backward pass needs "
                                                        "the forward pass's statistics");
    whet_status status = whet_check_input(&a->q, q, q_size, false, whet_list_range(inputs, q));
    if (status == WHET_OK)
        status = check_arriving(g, inputs);
    if (status == WHET_OK)
        status = whet_check_mask(a, FORWARD, whet_list_range(inputs, (member){FORWARD, "mask"}));
    if (status == WHET_OK)
        status = whet_check_stats(a, FORWARD, whet_list_range(inputs, (member){FORWARD, "stats"}));
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->k, k, k_size, true, whet_list_range(inputs, k));
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->v, v, v_size, true, whet_list_range(inputs, v));
    return status;
}

/* Optional arrays with an element for each head or policy. */
typedef struct head_array {
    const void *data;
    member name;
    size_t count, element;
} head_array;

static whet_status check_head_arrays(const head_array *arrays, size_t count, range_list *list) {
    whet_status status = WHET_OK;
    for (size_t i = 0; status == WHET_OK && i < count; i++)
        status = whet_check_elements(arrays[i].data, arrays[i].name, arrays[i].count,
                                     arrays[i].element, whet_list_range(list, arrays[i].name));
    return status;
}

static whet_status check_inputs(whet_gradients *g, range_list *inputs) {
    whet_attention *a = &g->attention;
    const head_array arrays[] = {
        {a->sinks, {FORWARD, "sinks"}, a->heads, sizeof(float)},
        {a->alibi_slopes, {FORWARD, "alibi_slopes"}, a->heads, sizeof(float)},
        {a->policies, {FORWARD, "policies"}, a->policy_count, sizeof(whet_policy)}};
    whet_status status = a->queries > 0 ? check_forward_tensors(g, inputs) : WHET_OK;
    if (status == WHET_OK)
        status = check_rows(g, inputs);
    if (status == WHET_OK)
        status = whet_check_bias(a, FORWARD, whet_list_range(inputs, (member){FORWARD, "bias"}));
    return status == WHET_OK ? check_head_arrays(arrays, COUNT_OF(arrays), inputs) : status;
}

static whet_status check_gradient(whet_tensor_out *tensor, const char *name, extent size,
                                  range_list *outputs) {
    const member named = {"", name};
    whet_status status = whet_check_reserved(tensor->reserved, named);
    if (status != WHET_OK || !tensor->data || size.positions == 0)
        return status;
    return whet_check_output(tensor, named, size, whet_list_range(outputs, named));
}

/* Whether the gradients of parameters can be written, and have something to be gradients of. */
static whet_status check_parameter_gradients(const whet_gradients *g) {
    const struct {
        const void *data;
        const char *name;
        const void *of;
        size_t alignment;
    } gradients[] = {{g->sinks, "sinks", g->attention.sinks, _Alignof(float)},
                     {g->alibi_slopes, "alibi_slopes", g->attention.alibi_slopes, _Alignof(float)},
                     {g->betas, "betas", g, _Alignof(float)},
                     {g->policies, "policies", g, _Alignof(whet_policy_gradient)}};
    whet_status status = WHET_OK;
    for (size_t i = 0; status == WHET_OK && i < COUNT_OF(gradients); i++) {
        status = whet_check_aligned(gradients[i].data, (member){"", gradients[i].name},
                                    gradients[i].alignment);
        if (status == WHET_OK && gradients[i].data && !gradients[i].of)
            status = whet_refuse(WHET_ERROR_ARGUMENT, "%s is given, but " FORWARD "%s is NULL",
                                 gradients[i].name, gradients[i].name);
    }
    return status;
}

static whet_status check_outputs(whet_gradients *g, range_list *outputs) {
    const whet_attention *a = &g->attention;
    const extent q_size = {a->batch, a->heads, a->queries, a->head_dim};
    const extent k_size = {a->batch, a->kv_heads, a->keys, a->head_dim};
    const extent v_size = {a->batch, a->kv_heads, a->keys, a->value_dim};
    const member betas = {"", "betas"};
    const head_array arrays[] = {
        {g->sinks, {"", "sinks"}, a->heads, sizeof(float)},
        {g->alibi_slopes, {"", "alibi_slopes"}, a->heads, sizeof(float)},
        {g->policies, {"", "policies"}, a->policy_count, sizeof(whet_policy_gradient)}};
    whet_status status = whet_check_reserved(g->out.reserved, (member){"", "out"});
    if (status == WHET_OK)
        status = check_parameter_gradients(g);
    if (status == WHET_OK)
        status = check_gradient(&g->q, "q", q_size, outputs);
    if (status == WHET_OK)
        status = check_gradient(&g->k, "k", k_size, outputs);
    if (status == WHET_OK)
        status = check_gradient(&g->v, "v", v_size, outputs);
    if (status == WHET_OK)
        status = check_bias_gradient(g, outputs);
    if (status == WHET_OK)
        status = whet_check_row_floats(a, g->betas, betas, whet_list_range(outputs, betas));
    return status == WHET_OK ? check_head_arrays(arrays, COUNT_OF(arrays), outputs) : status;
}

whet_status whet_backward_check(whet_gradients *g) {
    range_list inputs = {.count = 0}, outputs = {.count = 0};
    whet_status status = whet_fill_description(&g->attention, FORWARD);
    if (status == WHET_OK)
        status = check_offered(g);
    if (status == WHET_OK)
        status = check_inputs(g, &inputs);
    if (status == WHET_OK)
        status = check_outputs(g, &outputs);
    return status == WHET_OK ? whet_check_overlaps(&inputs, &outputs) : status;
}
