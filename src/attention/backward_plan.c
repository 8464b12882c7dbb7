/*
 * How the work of attention's backward pass is divided. A task takes every n-th set of
 * panels of one slice; the kept logits limit the panels of a set.
 */
#include "attention/backward.h"
#include "base/checked.h"
#include "base/last_error.h"

#define ROWS_TO_SET 288  /* what layout and loading sums are spread over ... */
#define ROWS_AT_LEAST 96 /* ... and where logits take more than KEPT_BYTES */
#define TASKS_WANTED 8   /* with fewer slices, each is divided into several tasks */

size_t whet_backward_sets(const plan_shape *shape) {
    size_t row_count = shape->panels * shape->kernels->lanes;
    return (shape->row_count + row_count - 1) / row_count;
}

/* Panels per set for a number of tasks per slice. */
static size_t panels_to_set(const whet_attention *a, const plan_shape *shape, size_t tasks) {
    size_t lanes = shape->kernels->lanes, least = (ROWS_AT_LEAST + lanes - 1) / lanes;
    size_t panels = (ROWS_TO_SET + lanes - 1) / lanes;
    size_t needed = (shape->row_count + lanes - 1) / lanes;
    if (needed == 0)
        return 1;
    while (panels > least &&
           round_up(a->keys, BLOCK) > KEPT_BYTES / (2 * sizeof(float)) / (panels * lanes))
        panels--;
    /* as many sets for one task as for the other, unless that makes them too small */
    size_t rounds = (needed - 1) / (tasks * panels) + 1;
    size_t even = (needed - 1) / (tasks * rounds) + 1;
    panels = even > least ? even : least;
    return panels < needed ? panels : needed;
}

size_t whet_backward_blocks_to_add(const whet_gradients *g, const plan_shape *shape) {
    if (shape->chunks == 1 || !(g->k.data || g->v.data))
        return 0;
    return round_up(g->attention.keys, BLOCK) / BLOCK;
}

size_t whet_backward_bias_blocks(const whet_gradients *g) {
    return g->bias.data ? round_up(g->attention.keys, BLOCK) / BLOCK : 0;
}

static bool is_anything_wanted(const whet_gradients *g) {
    return g->q.data || g->k.data || g->v.data || g->bias.data || g->betas || wants_parameters(g);
}

static bool plan_work(whet_plan *plan, plan_shape *shape) {
    const whet_gradients *g = &plan->description.gradients;
    workspace_layout workspace;
    if (!is_anything_wanted(g))
        return true; /* nothing to do: no phases */
    for (size_t i = 0; i < g->attention.policy_count; i++)
        if (is_by_row(g, &g->attention.policies[i]))
            shape->mapped = 1;
    shape->chunks = 1;
    if (shape->slices < TASKS_WANTED)
        shape->chunks = (TASKS_WANTED + shape->slices - 1) / shape->slices;
    shape->panels = panels_to_set(&g->attention, shape, shape->chunks);
    size_t sets = whet_backward_sets(shape);
    if (shape->chunks > sets)
        shape->chunks = sets > 0 ? sets : 1;
    if (!whet_backward_scratch(g, shape, &plan->scratch_bytes) ||
        !whet_backward_lay_out_workspace(g, shape, &workspace))
        return false;
    plan->workspace_bytes = workspace.total;
    size_t adding;
    if (!size_multiply(shape->slices, shape->chunks, &plan->tasks[0]) ||
        !size_multiply(shape->slices, whet_backward_blocks_to_add(g, shape), &adding))
        return false;
    plan->tasks[1] = adding + whet_backward_bias_blocks(g) + (wants_parameters(g) ? 1 : 0);
    plan->phases = plan->tasks[1] > 0 ? 2 : 1;
    return true;
}

whet_status whet_plan_backward_part(const whet_gradients *gradients, const backward_part *part,
                                    whet_plan *plan) {
    if (!gradients)
        return whet_refuse(WHET_ERROR_ARGUMENT, "gradients is NULL");
    if (gradients->size != sizeof *gradients)
        return whet_refuse(WHET_ERROR_ARGUMENT, "size is %zu, but sizeof(whet_gradients) is %zu",
                           gradients->size, sizeof *gradients);
    if (gradients->attention.size != sizeof gradients->attention)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "attention.size is %zu, but sizeof(whet_attention) is %zu",
                           gradients->attention.size, sizeof gradients->attention);
    whet_status status = whet_check_plan(plan);
    if (status != WHET_OK)
        return status;
    whet_plan result = {.size = sizeof result, .description = {.gradients = *gradients}};
    whet_gradients *g = &result.description.gradients;
    plan_shape shape = {.path = PATH_BACKWARD, .part = part};
    status = whet_backward_check(g);
    if (status == WHET_OK)
        status = whet_shape_slices(&g->attention, &shape);
    if (status != WHET_OK)
        return status;
    if (!plan_work(&result, &shape))
        return whet_refuse_workspace(&g->attention, "attention.");
    whet_plan_set_shape(&result, &shape);
    *plan = result;
    return WHET_OK;
}

whet_status whet_attention_backward_plan(const whet_gradients *gradients, whet_plan *plan) {
    return whet_plan_backward_part(gradients, NULL, plan);
}
