/*
 * Has a description of attention checked, chooses the path and lets it divide
 * the work.
 */
#include "attention/plan.h"
#include "attention/check.h"
#include "attention/decode.h"
#include "attention/prefill.h"
#include "attention/policy_traits.h"
#include "base/checked.h"
#include <string.h>

/* Up to this many query rows to a key head, reading the cache is what costs; and a single query
 * is split along the keys however many heads it has, or one thread would do it all. */
#define DECODE_ROWS 32

/* One pass is enough where beta does not depend on the logits and the statistics asked for, if
 * any, come from that same pass. */
static bool one_pass(const whet_attention *a, uint64_t path) {
    for (size_t i = 0; i < a->policy_count; i++) {
        const whet_policy *policy = &a->policies[i];
        bool is_temperature = whet_policy_is_temperature(policy) != 0;
        if (is_temperature ? !whet_policy_is_constant(policy) : policy_is_searched(policy))
            return false;
        if (a->stats && (!policy_is_softmax(policy) || path == PATH_DECODE))
            return false;
    }
    return true;
}

/* For sigmoid the mask tells: see whet_count_visible. */
static bool needs_count(const whet_attention *a) {
    for (size_t i = 0; i < a->policy_count; i++)
        if (whet_policy_is_temperature(&a->policies[i]) && whet_policy_needs_count(&a->policies[i]))
            return true;
    return a->stats != NULL;
}

plan_shape whet_shape_of(const whet_plan *plan) {
    plan_shape shape;
    memcpy(&shape, plan->internal, sizeof shape);
    return shape;
}

void whet_plan_set_shape(whet_plan *plan, const plan_shape *shape) {
    memcpy(plan->internal, shape, sizeof *shape);
}

whet_status whet_shape_slices(const whet_attention *a, plan_shape *shape) {
    size_t rows, slices;
    shape->kernels = whet_kernels_get();
    shape->heads_per_kv = a->heads / a->kv_heads;
    if (!size_multiply(shape->heads_per_kv, a->queries, &rows) ||
        !size_multiply(a->batch, a->kv_heads, &slices))
        return WHET_ERROR_OVERFLOW;
    shape->rows = rows;
    shape->slices = slices;
    return WHET_OK;
}

/* What the policies ask for between them. */
static void look_at_policies(const whet_attention *a, plan_shape *shape) {
    shape->fused = one_pass(a, shape->path);
    shape->counted = needs_count(a);
    shape->summed = a->stats != NULL;
    for (size_t i = 0; i < a->policy_count; i++) {
        const whet_policy *policy = &a->policies[i];
        if (!whet_policy_is_temperature(policy))
            shape->mapped = 1;
        else if (!whet_policy_is_constant(policy))
            shape->summed = 1;
        if (policy_is_searched(policy))
            shape->searched = 1;
        if (policy_goes_backwards(policy))
            shape->backwards = 1;
    }
}

whet_status whet_attention_plan(const whet_attention *attention, whet_plan *plan) {
    if (!attention || !plan || attention->size != sizeof *attention)
        return WHET_ERROR_ARGUMENT;
    whet_plan result = {.description = {.attention = *attention}};
    whet_attention *a = &result.description.attention;
    whet_status status = whet_fill_description(a);
    if (status == WHET_OK && a->queries > 0)
        status = whet_check_tensors(a);
    if (status != WHET_OK)
        return status;
    if (a->queries == 0) { /* nothing to do: no phases */
        *plan = result;
        return WHET_OK;
    }

    plan_shape shape = {.kernels = NULL};
    status = whet_shape_slices(a, &shape);
    if (status != WHET_OK)
        return status;
    shape.path = shape.rows <= DECODE_ROWS || a->queries == 1 ? PATH_DECODE : PATH_PREFILL;
    look_at_policies(a, &shape);
    bool fits = shape.path == PATH_DECODE ? whet_plan_decode(&result, &shape)
                                          : whet_plan_prefill(&result, &shape);
    if (!fits)
        return WHET_ERROR_OVERFLOW;
    whet_plan_set_shape(&result, &shape);
    *plan = result;
    return WHET_OK;
}
