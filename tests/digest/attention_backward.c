// whet_attention_backward.
#include "attention.h"

#include <stdlib.h>
#include <string.h>

// More than 288 rows, eight key heads and fewer, batches, and sizes that fill no block.
static const struct shape shapes[] = {
    {1, 1, 1, 40, 33, 8, 8},  {1, 2, 1, 5, 193, 32, 32}, {2, 4, 2, 1, 31, 80, 8},
    {1, 8, 8, 5, 33, 32, 64}, {1, 1, 1, 1, 1, 1, 1},
};
static const struct shape large_shapes[] = {
    {1, 3, 1, 130, 192, 8, 8},
    {1, 2, 2, 40, 500, 80, 1},
    {2, 8, 4, 5, 191, 8, 8},
    {1, 1, 1, 5, 1100, 128, 64},
};

static bool has_gradient(whet_type type) {
    return type == WHET_F32 || type == WHET_F16 || type == WHET_BF16;
}

static whet_tensor_out gradient_make(whet_type type, bool wanted, size_t elements) {
    return (whet_tensor_out){
        .data = wanted ? allocate(elements * element_bytes(type)) : NULL,
        .type = type,
    };
}

static void backward(const struct shape *shape, const struct types *types,
                     const struct named_policy *policy, enum mask_kind mask, enum layout layout) {
    struct example example;
    whet_policy_gradient policies[heads_max];
    float sinks[heads_max], slopes[heads_max];
    uint64_t bad_row = UINT64_MAX;
    example_make(&example, shape, types, policy, mask, layout);
    whet_attention *attention = &example.attention;
    attention->stats = example.stats;
    whet_status status = whet_attention_forward(attention, NULL, &bad_row);
    if (!group_add_status(status, bad_row)) {
        example_free(&example);
        return;
    }
    size_t q_elements = example.rows * shape->head_dim;
    size_t positions = shape->batch * shape->kv_heads * shape->keys;
    size_t k_elements = positions * shape->head_dim, v_elements = positions * shape->value_dim;
    fill_row(example.out, types->out, example.out_elements, 4000000, 1, 0.1f);
    whet_gradients gradients = {
        .size = sizeof gradients,
        .attention = *attention,
        .out = {.data = example.out, .type = types->out},
        .q = gradient_make(types->out, true, q_elements),
        .k = gradient_make(types->out, has_gradient(types->k), k_elements),
        .v = gradient_make(types->out, has_gradient(types->v), v_elements),
        .policies = policies,
        .sinks = attention->sinks ? sinks : NULL,
        .alibi_slopes = attention->alibi_slopes ? slopes : NULL,
    };
    gradients.attention.out = (whet_tensor_out){0};
    bad_row = UINT64_MAX;
    if (group_add_status(whet_attention_backward(&gradients, NULL, &bad_row), bad_row)) {
        group_add_elements("grad.q", gradients.q.data, types->out, q_elements);
        if (gradients.k.data) {
            group_add_elements("grad.k", gradients.k.data, types->out, k_elements);
        }
        if (gradients.v.data) {
            group_add_elements("grad.v", gradients.v.data, types->out, v_elements);
        }
        if (gradients.sinks) {
            group_add_elements("grad.sinks", sinks, WHET_F32, shape->heads);
        }
        if (gradients.alibi_slopes) {
            group_add_elements("grad.alibi_slopes", slopes, WHET_F32, shape->heads);
        }
        group_add_policy_gradients(policies, attention->policy_count);
    }
    free(gradients.q.data);
    free(gradients.k.data);
    free(gradients.v.data);
    example_free(&example);
}

static void backward_group(bool large, const struct types *types, const struct named_policy *policy,
                           enum mask_kind mask, enum layout layout) {
    static const char *const paths[] = {"attention.backward", "attention.backward.interleaved",
                                        "attention.backward.apart"};
    if (!group_begin(large ? "attention.backward.sizes" : paths[layout], policy->name,
                     types_name(types), mask_kind_names[mask],
                     large ? "keys191-1100" : "keys1-193")) {
        return;
    }
    for (size_t i = 0; i < (large ? COUNT(large_shapes) : COUNT(shapes)); i++) {
        const struct shape *shape = large ? &large_shapes[i] : &shapes[i];
        if (types_fit(types, shape)) {
            backward(shape, types, policy, mask, layout);
        }
    }
    group_end();
}

static void digest_policy(const struct named_policy *policy) {
    static const struct types plain = {WHET_F32, WHET_F32, WHET_F32, WHET_F32};
    static const struct types others[] = {
        {WHET_F16, WHET_F16, WHET_F16, WHET_F16},
        {WHET_BF16, WHET_BF16, WHET_BF16, WHET_BF16},
        {WHET_F16, WHET_BF16, WHET_F32, WHET_F32},
        {WHET_F32, WHET_Q8_0, WHET_Q4_0, WHET_F32},
        {WHET_F32, WHET_CUSTOM, WHET_F16, WHET_BF16},
#if DIGEST_HAS_ROW_EXTRAS
        {WHET_F32, WHET_Q4_1, WHET_Q5_0, WHET_F32},
        {WHET_F32, WHET_IQ4_NL, WHET_Q5_1, WHET_F32},
#endif
    };
    for (int mask = 0; mask < mask_kind_count; mask++) {
        backward_group(false, &plain, policy, (enum mask_kind)mask, CONTIGUOUS);
    }
    for (size_t t = 0; t < COUNT(others); t++) {
        backward_group(false, &others[t], policy, NO_MASK, CONTIGUOUS);
        backward_group(false, &others[t], policy, ALL_OF_THEM, CONTIGUOUS);
    }
    backward_group(false, &plain, policy, NO_MASK, INTERLEAVED);
    backward_group(false, &plain, policy, NO_MASK, APART);
    backward_group(true, &plain, policy, NO_MASK, CONTIGUOUS);
}

void digest_attention_backward(void) {
    size_t policy_count;
    const struct named_policy *policies = all_policies(&policy_count);
    for (size_t p = 0; p < policy_count; p++) {
        digest_policy(&policies[p]);
    }
    digest_policy(&mixed_policies);
}
