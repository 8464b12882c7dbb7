/*
 * Has a description of attention checked, chooses the path and lets it divide
 * the work.
 */
#include "attention/plan.h"
#include "attention/check.h"
#include "attention/decode.h"
#include "attention/max_logits.h"
#include "attention/prefill.h"
#include "attention/row_form.h"
#include "base/checked.h"
#include "base/last_error.h"
#include <string.h>

/* Up to this many query rows to a key head, reading the cache is what costs; and a single query
 * is split along the keys however many heads it has, or one thread would do it all. */
#define DECODE_ROWS 32

static bool is_plain(const whet_attention *a, const whet_policy *policy) {
    return !a->betas && whet_beta_is_one(policy) && whet_policy_is_temperature(policy);
}

/* One pass is enough where beta does not depend on the logits and the statistics asked for, if
 * any, come from that same pass. */
static bool one_pass(const whet_attention *a, const whet_policy *policy, uint64_t path) {
    if (a->skip > 0 && path == PATH_PREFILL)
        return false;
    if (a->stats && (!is_plain(a, policy) || path == PATH_DECODE))
        return false;
    return whet_beta_is_known(a, policy) && !(whet_map_of(policy)->traits & MAP_SEARCHES) &&
           whet_panel_form(policy) != PANEL_BY_ROW;
}

whet_status whet_check_plan(const whet_plan *plan) {
    if (!plan)
        return whet_refuse(WHET_ERROR_ARGUMENT, "plan is NULL");
    if (plan->size != sizeof *plan)
        return whet_refuse(WHET_ERROR_ARGUMENT, "plan.size is %zu, but sizeof(whet_plan) is %zu",
                           plan->size, sizeof *plan);
    return WHET_OK;
}

whet_status whet_refuse_workspace(const whet_attention *a, const char *owner) {
    return whet_refuse(WHET_ERROR_OVERFLOW,
                       "%skeys is %zu: with %zu batches, %zu heads and %zu queries the workspace "
                       "is larger than memory can be",
                       owner, a->keys, a->batch, a->heads, a->queries);
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
    size_t row_count, slices;
    shape->kernels = whet_kernels_get();
    shape->heads_per_kv = a->heads / a->kv_heads;
    if (!size_multiply(shape->heads_per_kv, a->queries, &row_count) ||
        !size_multiply(a->batch, a->kv_heads, &slices))
        return whet_refuse(WHET_ERROR_OVERFLOW, "queries is %zu: too many rows with %zu heads",
                           a->queries, a->heads);
    shape->row_count = row_count;
    shape->slices = slices;
    return WHET_OK;
}

bool whet_is_decode(const whet_attention *a, const plan_shape *shape) {
    return shape->row_count <= DECODE_ROWS || a->queries == 1;
}

/* What the policies need in total. sigmoid's ln n depends on the mask: see whet_count_visible. */
static void look_at_policies(const whet_attention *a, plan_shape *shape) {
    shape->fused = 1;
    shape->summed = shape->extremes = a->stats != NULL;
    /* a row without keys has no use for a beta that is not a number */
    shape->counted = a->stats || a->betas;
    shape->searched = a->skip > 0;
    for (size_t i = 0; i < a->policy_count; i++) {
        const whet_policy *policy = &a->policies[i];
        unsigned needs = whet_temperature_of(policy)->needs;
        unsigned traits = whet_map_of(policy)->traits;
        panel_form form = whet_panel_form(policy);
        bool by_row = form == PANEL_BY_ROW;
        shape->fused = shape->fused && one_pass(a, policy, shape->path);
        shape->mapped = shape->mapped || !whet_policy_is_temperature(policy);
        shape->counted = shape->counted || by_row || (needs & NEEDS_COUNT);
        shape->summed = shape->summed || by_row || (needs & NEEDS_SUMS);
        shape->extremes = shape->extremes || (needs & NEEDS_STATS);
        shape->by_row = shape->by_row || by_row;
        shape->searched = shape->searched || by_row || (traits & MAP_SEARCHES);
        shape->backwards = shape->backwards || form == PANEL_STICK;
    }
}

/* A plan for no rows. */
static whet_status plan_nothing(whet_plan *result, plan_shape *shape, whet_plan *plan) {
    result->scratch_bytes = result->description.attention.max_logits ? WHET_ALIGNMENT : 0;
    if (!whet_plan_max_logits(result, shape))
        return whet_refuse_workspace(&result->description.attention, "");
    whet_plan_set_shape(result, shape);
    *plan = *result;
    return WHET_OK;
}

static bool divide(whet_plan *plan, plan_shape *shape, const key_part *part) {
    if (part)
        return whet_plan_decode_part(plan, shape, part->all_keys, part->chunk_keys);
    return shape->path == PATH_DECODE ? whet_plan_decode(plan, shape)
                                      : whet_plan_prefill(plan, shape);
}

whet_status whet_plan_part(const whet_attention *attention, const key_part *part, whet_plan *plan) {
    if (!attention)
        return whet_refuse(WHET_ERROR_ARGUMENT, "attention is NULL");
    if (attention->size != sizeof *attention)
        return whet_refuse(WHET_ERROR_ARGUMENT, "size is %zu, but sizeof(whet_attention) is %zu",
                           attention->size, sizeof *attention);
    whet_status status = whet_check_plan(plan);
    if (status != WHET_OK)
        return status;
    whet_plan result = {.size = sizeof result, .description = {.attention = *attention}};
    whet_attention *a = &result.description.attention;
    status = whet_fill_description(a, "");
    if (status == WHET_OK && a->queries > 0)
        status = whet_check_tensors(a);
    if (status != WHET_OK)
        return status;
    plan_shape shape = {.kernels = NULL};
    if (a->queries == 0) /* no phases, except for max_logits, which becomes -inf */
        return plan_nothing(&result, &shape, plan);

    status = whet_shape_slices(a, &shape);
    if (status != WHET_OK)
        return status;
    shape.path = part || whet_is_decode(a, &shape) ? PATH_DECODE : PATH_PREFILL;
    look_at_policies(a, &shape);
    /* blocks that skip leaves out are those of a key head, and masks of heads may differ */
    shape.has_sets = shape.path == PATH_DECODE && !part && a->mask.data && a->keys > 0 &&
                     (a->mask.stride[1] == 0 || a->heads == 1) && !(a->skip > 0);
    if (!divide(&result, &shape, part) || !whet_plan_max_logits(&result, &shape))
        return whet_refuse_workspace(a, "");
    whet_plan_set_shape(&result, &shape);
    *plan = result;
    return WHET_OK;
}

whet_status whet_attention_plan(const whet_attention *attention, whet_plan *plan) {
    return whet_plan_part(attention, NULL, plan);
}
