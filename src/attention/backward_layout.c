/*
 * How the work of the way back is divided, and how a task's memory is cut up. A
 * task takes every so-many-th set of panels of one stream; as many panels make a
 * set as their kept logits allow. Sums over rows lie in a task's scratch if it
 * has a stream to itself, else in the workspace, where a second phase adds them
 * up.
 */
#include "attention/backward.h"
#include "base/checked.h"
#include <string.h>

#define ROWS_TO_SET 288  /* what layout and loading sums are spread over ... */
#define ROWS_AT_LEAST 96 /* ... and where logits take more than KEPT_BYTES */
#define KEPT_BYTES ((size_t)25 << 20)
#define TASKS_WANTED 8 /* with fewer streams, each is divided into several tasks */

bool whet_backward_size_sums(const whet_gradients *g, const kernels *k, sum_sizes *size) {
    const whet_attention *a = &g->attention;
    *size = (sum_sizes){.total = 0};
    size_t padded = round_up(a->keys, BLOCK);
    size_t key_columns = g->k.data ? round_up(a->head_dim, k->outer_columns) : 0;
    size_t value_columns = g->v.data ? round_up(a->value_dim, k->outer_columns) : 0;
    return size_multiply(padded, key_columns, &size->keys) &&
           size_multiply(padded, value_columns, &size->values) &&
           size_add(size->keys, size->values, &size->total);
}

typedef struct layout {
    size_t panels, queries, grads, query_rows, grad_rows, query_sums, query_totals;
    size_t keys, values, key_columns, logits, slopes, capped, map_rows, spare, rows, sums, total;
} layout;

/* Keys that one set of panels may see. */
static size_t keys_to_set(const whet_attention *a, const plan_shape *shape) {
    size_t all = round_up(a->keys, BLOCK);
    if (a->window == 0 || a->window > a->keys)
        return all;
    size_t queries = shape->panels * shape->kernels->lanes / shape->group + 2;
    size_t seen = round_up(2 * a->window + queries, BLOCK) + BLOCK;
    return seen < all ? seen : all;
}

static bool lay_out(const whet_gradients *g, const plan_shape *shape, layout *at) {
    const whet_attention *a = &g->attention;
    const kernels *k = shape->kernels;
    size_t rows = shape->panels * k->lanes;
    size_t columns = round_up(a->head_dim, k->group);
    size_t outer = k->outer_columns;
    size_t row = shape->mapped ? keys_to_set(a, shape) + 1 : 0;
    size_t tile = shape->mapped ? BLOCK * k->lanes : 0;
    size_t kept;
    sum_sizes sums;
    *at = (layout){.total = 0};
    return size_multiply(keys_to_set(a, shape), rows, &kept) &&
           whet_backward_size_sums(g, k, &sums) &&
           whet_place(&at->total, &at->panels, shape->panels, sizeof(back_panel)) &&
           whet_place(&at->total, &at->queries, a->head_dim * rows, sizeof(float)) &&
           whet_place(&at->total, &at->grads, a->value_dim * rows, sizeof(float)) &&
           whet_place(&at->total, &at->query_rows, round_up(a->head_dim, outer) * rows,
                      sizeof(float)) &&
           whet_place(&at->total, &at->grad_rows, round_up(a->value_dim, outer) * rows,
                      sizeof(float)) &&
           whet_place(&at->total, &at->query_sums, columns * rows, sizeof(float)) &&
           whet_place(&at->total, &at->query_totals, columns * rows, sizeof(double)) &&
           whet_place(&at->total, &at->keys, BLOCK * a->head_dim, sizeof(float)) &&
           whet_place(&at->total, &at->values, BLOCK * a->value_dim, sizeof(float)) &&
           whet_place(&at->total, &at->key_columns, BLOCK * columns, sizeof(float)) &&
           whet_place(&at->total, &at->logits, kept, sizeof(float)) &&
           whet_place(&at->total, &at->slopes, kept, sizeof(float)) &&
           whet_place(&at->total, &at->capped, a->softcap > 0 ? kept : 0, sizeof(float)) &&
           whet_place(&at->total, &at->map_rows, row, 2 * sizeof(float)) &&
           whet_place(&at->total, &at->spare, tile, 2 * sizeof(float)) &&
           whet_place(&at->total, &at->rows, (size_t)GROUP_MAX * HEAD_DIM_MAX, sizeof(float)) &&
           whet_place(&at->total, &at->sums, shape->chunks == 1 ? sums.total : 0, sizeof(float));
}

bool whet_backward_lay_out_workspace(const whet_gradients *g, const plan_shape *shape,
                                     workspace_layout *at) {
    size_t tasks, sums, parameters;
    sum_sizes size;
    *at = (workspace_layout){.total = 0};
    return size_multiply(shape->streams, shape->chunks, &tasks) &&
           whet_backward_size_sums(g, shape->kernels, &size) &&
           size_multiply(tasks, shape->chunks > 1 ? size.total : 0, &sums) &&
           size_multiply(tasks, wants_parameters(g) ? shape->group : 0, &parameters) &&
           whet_place(&at->total, &at->sums, sums, sizeof(float)) &&
           whet_place(&at->total, &at->parameters, parameters, sizeof(parameter_sums));
}

size_t whet_backward_sets(const plan_shape *shape) {
    size_t rows = shape->panels * shape->kernels->lanes;
    return (shape->rows + rows - 1) / rows;
}

/* Panels to a set where a stream has so many tasks. */
static size_t panels_to_set(const whet_attention *a, const plan_shape *shape, size_t tasks) {
    size_t lanes = shape->kernels->lanes, least = (ROWS_AT_LEAST + lanes - 1) / lanes;
    size_t panels = (ROWS_TO_SET + lanes - 1) / lanes;
    size_t needed = (shape->rows + lanes - 1) / lanes;
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

/* Blocks of keys that the second phase adds up, each a task. */
size_t whet_backward_blocks_to_add(const whet_gradients *g, const plan_shape *shape) {
    if (shape->chunks == 1 || !(g->k.data || g->v.data))
        return 0;
    return round_up(g->attention.keys, BLOCK) / BLOCK;
}

bool whet_plan_backward(whet_plan *plan, plan_shape *shape) {
    const whet_gradients *g = &plan->description.gradients;
    layout at;
    workspace_layout workspace;
    if (!g->q.data && !g->k.data && !g->v.data && !wants_parameters(g))
        return true; /* nothing to do: no phases */
    for (size_t i = 0; i < g->attention.policy_count; i++)
        if (is_map(&g->attention.policies[i]))
            shape->mapped = 1;
    shape->chunks = 1;
    if (shape->streams < TASKS_WANTED)
        shape->chunks = (TASKS_WANTED + shape->streams - 1) / shape->streams;
    shape->panels = panels_to_set(&g->attention, shape, shape->chunks);
    size_t sets = whet_backward_sets(shape);
    if (shape->chunks > sets)
        shape->chunks = sets > 0 ? sets : 1;
    if (!lay_out(g, shape, &at) || !whet_backward_lay_out_workspace(g, shape, &workspace))
        return false;
    plan->scratch_bytes = at.total;
    plan->workspace_bytes = workspace.total;
    size_t adding;
    if (!size_multiply(shape->streams, shape->chunks, &plan->tasks[0]) ||
        !size_multiply(shape->streams, whet_backward_blocks_to_add(g, shape), &adding))
        return false;
    plan->tasks[1] = adding + (wants_parameters(g) ? 1 : 0);
    plan->phases = plan->tasks[1] > 0 ? 2 : 1;
    return true;
}

static void place_sums(back_work *w, const whet_plan *plan, size_t task, float *scratch_sums) {
    workspace_layout at;
    sum_sizes size;
    whet_backward_lay_out_workspace(w->gradients, &w->shape, &at);
    whet_backward_size_sums(w->gradients, w->k, &size);
    w->key_sums = scratch_sums;
    if (w->shape.chunks > 1)
        w->key_sums = floats_at(plan->workspace, at.sums) + task * size.total;
    w->value_sums = w->key_sums + size.keys;
    if (size.total > 0)
        memset(w->key_sums, 0, size.total * sizeof(float));
    w->parameters = NULL;
    if (wants_parameters(w->gradients)) {
        w->parameters = (parameter_sums *)(void *)((char *)plan->workspace + at.parameters) +
                        task * w->shape.group;
        memset(w->parameters, 0, w->shape.group * sizeof *w->parameters);
    }
}

void whet_backward_start_task(back_work *w, const whet_plan *plan, size_t task, void *scratch) {
    layout at;
    w->gradients = &plan->description.gradients;
    w->a = &w->gradients->attention;
    w->shape = whet_shape_of(plan);
    w->stream = whet_stream_at(plan, &w->shape, task / w->shape.chunks);
    w->k = w->shape.kernels;
    w->lanes = w->k->lanes;
    w->kept_keys = keys_to_set(w->a, &w->shape);
    w->padded_keys = round_up(w->a->keys, BLOCK);
    lay_out(w->gradients, &w->shape, &at);
    w->panels = (back_panel *)(void *)((char *)scratch + at.panels);
    w->queries = floats_at(scratch, at.queries);
    w->grads = floats_at(scratch, at.grads);
    w->query_rows = floats_at(scratch, at.query_rows);
    w->grad_rows = floats_at(scratch, at.grad_rows);
    w->query_sums = floats_at(scratch, at.query_sums);
    w->query_totals = (double *)(void *)((char *)scratch + at.query_totals);
    w->keys = floats_at(scratch, at.keys);
    w->values = floats_at(scratch, at.values);
    w->key_columns = floats_at(scratch, at.key_columns);
    w->logits = floats_at(scratch, at.logits);
    w->slopes = floats_at(scratch, at.slopes);
    w->capped = w->a->softcap > 0 ? floats_at(scratch, at.capped) : NULL;
    w->row_logits = floats_at(scratch, at.map_rows);
    w->row_slopes = w->row_logits + w->kept_keys + 1;
    w->spare_logits = floats_at(scratch, at.spare);
    w->spare_slopes = w->spare_logits + BLOCK * w->lanes;
    w->rows = floats_at(scratch, at.rows);
    place_sums(w, plan, task, floats_at(scratch, at.sums));
}
