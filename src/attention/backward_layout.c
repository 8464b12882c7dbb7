/*
 * The memory layout of a backward task. Sums over rows are in a task's scratch if it has
 * a slice to itself, else in the workspace, where a second phase adds them up.
 */
#include "attention/backward.h"
#include "base/checked.h"
#include <string.h>

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
    size_t panels, maps, queries, grads, query_rows, grad_rows, query_sums, query_totals;
    size_t keys, values, key_columns, logits, weight_grads, softcap_grads, map_rows, spare,
        row_buffer, sums;
    size_t block_weights, block_order, left_out, row_weights; /* with skip */
    size_t total;
} layout;

/* Keys that one set of panels may see. */
static size_t keys_to_set(const whet_attention *a, const plan_shape *shape) {
    size_t all = round_up(a->keys, BLOCK);
    if (a->window == 0 || a->window > a->keys)
        return all;
    size_t queries = shape->panels * shape->kernels->lanes / shape->heads_per_kv + 2;
    size_t seen = round_up(2 * a->window + queries, BLOCK) + BLOCK;
    return seen < all ? seen : all;
}

static bool lay_out(const whet_gradients *g, const plan_shape *shape, layout *at) {
    const whet_attention *a = &g->attention;
    const kernels *k = shape->kernels;
    size_t row_count = shape->panels * k->lanes;
    size_t columns = round_up(a->head_dim, k->strip);
    size_t outer = k->outer_columns;
    size_t row = shape->mapped ? keys_to_set(a, shape) + 1 : 0;
    size_t tile = shape->mapped ? BLOCK * k->lanes : 0;
    arena scratch = {0};
    size_t kept = whet_arena_product(&scratch, keys_to_set(a, shape), row_count);
    sum_sizes sums;
    if (!whet_backward_size_sums(g, k, &sums))
        return false;
    at->panels = whet_arena_place(&scratch, shape->panels, sizeof(backward_panel));
    at->maps = whet_arena_place(&scratch, shape->mapped ? 1 : 0, sizeof(panel_maps));
    at->queries = whet_arena_place(&scratch, a->head_dim * row_count, sizeof(float));
    at->grads = whet_arena_place(&scratch, a->value_dim * row_count, sizeof(float));
    at->query_rows =
        whet_arena_place(&scratch, round_up(a->head_dim, outer) * row_count, sizeof(float));
    at->grad_rows =
        whet_arena_place(&scratch, round_up(a->value_dim, outer) * row_count, sizeof(float));
    at->query_sums = whet_arena_place(&scratch, columns * row_count, sizeof(float));
    at->query_totals = whet_arena_place(&scratch, columns * row_count, sizeof(double));
    at->keys = whet_arena_place(&scratch, BLOCK * a->head_dim, sizeof(float));
    at->values = whet_arena_place(&scratch, BLOCK * a->value_dim, sizeof(float));
    at->key_columns = whet_arena_place(&scratch, BLOCK * columns, sizeof(float));
    at->logits = whet_arena_place(&scratch, kept, sizeof(float));
    at->weight_grads = whet_arena_place(&scratch, kept, sizeof(float));
    at->softcap_grads = whet_arena_place(&scratch, a->softcap > 0 ? kept : 0, sizeof(float));
    at->map_rows = whet_arena_place(&scratch, row, 2 * sizeof(float));
    at->spare = whet_arena_place(&scratch, tile, 2 * sizeof(float));
    at->row_buffer = whet_arena_place(&scratch, (size_t)STRIP_MAX * HEAD_DIM_MAX, sizeof(float));
    at->sums = whet_arena_place(&scratch, shape->chunks == 1 ? sums.total : 0, sizeof(float));
    size_t set_rows = a->skip > 0 ? shape->panels * shape->kernels->lanes : 0;
    size_t blocks = a->skip > 0 ? keys_to_set(a, shape) / SKIP_KEYS : 0;
    at->block_weights =
        whet_arena_place(&scratch, whet_arena_product(&scratch, blocks, set_rows), sizeof(float));
    at->block_order = whet_arena_place(&scratch, blocks, sizeof(uint32_t));
    at->left_out = whet_arena_place(&scratch, whet_arena_product(&scratch, blocks, shape->panels),
                                    sizeof(bool));
    at->row_weights = whet_arena_place(&scratch, set_rows, sizeof(double));
    at->total = scratch.bytes;
    return !scratch.overflow;
}

bool whet_backward_scratch(const whet_gradients *g, const plan_shape *shape, size_t *bytes) {
    layout at;
    bool fits = lay_out(g, shape, &at);
    *bytes = fits ? at.total : 0;
    return fits;
}

bool whet_backward_lay_out_workspace(const whet_gradients *g, const plan_shape *shape,
                                     workspace_layout *at) {
    sum_sizes size;
    if (!whet_backward_size_sums(g, shape->kernels, &size))
        return false;
    arena workspace = {0};
    size_t tasks = whet_arena_product(&workspace, shape->slices, shape->chunks);
    size_t sums = whet_arena_product(&workspace, tasks, shape->chunks > 1 ? size.total : 0);
    size_t parameters =
        whet_arena_product(&workspace, tasks, wants_parameters(g) ? shape->heads_per_kv : 0);
    size_t bias = whet_arena_product(&workspace, round_up(g->attention.keys, BLOCK),
                                     g->bias.data ? shape->heads_per_kv : 0);
    at->sums = whet_arena_place(&workspace, sums, sizeof(float));
    at->bias =
        whet_arena_place(&workspace, whet_arena_product(&workspace, tasks, bias), sizeof(double));
    at->parameters = whet_arena_place(&workspace, parameters, sizeof(parameter_sums));
    at->total = workspace.bytes;
    return !workspace.overflow;
}

static void place_bias(backward_work *w, double *all, size_t task) {
    size_t count = w->shape.heads_per_kv * w->padded_keys;
    w->bias_sums = NULL;
    if (!w->gradients->bias.data || count == 0)
        return;
    w->bias_sums = all + task * count;
    memset(w->bias_sums, 0, count * sizeof *w->bias_sums);
}

static void place_sums(backward_work *w, const whet_plan *plan, size_t task, float *scratch_sums) {
    workspace_layout at = {0}; /* the plan has seen that all of it fits */
    sum_sizes size = {0};
    whet_backward_lay_out_workspace(w->gradients, &w->shape, &at);
    whet_backward_size_sums(w->gradients, w->k, &size);
    w->key_sums = scratch_sums;
    if (w->shape.chunks > 1)
        w->key_sums = (float *)arena_part(plan->workspace, at.sums) + task * size.total;
    w->value_sums = w->key_sums + size.keys;
    if (size.total > 0)
        memset(w->key_sums, 0, size.total * sizeof(float));
    place_bias(w, arena_part(plan->workspace, at.bias), task);
    w->parameters = NULL;
    if (wants_parameters(w->gradients)) {
        w->parameters = (parameter_sums *)arena_part(plan->workspace, at.parameters) +
                        task * w->shape.heads_per_kv;
        memset(w->parameters, 0, w->shape.heads_per_kv * sizeof *w->parameters);
    }
}

void whet_backward_start_task(backward_work *w, const whet_plan *plan, size_t task, void *scratch) {
    layout at = {0};
    w->gradients = &plan->description.gradients;
    w->a = &w->gradients->attention;
    w->shape = whet_shape_of(plan);
    w->part = w->shape.part;
    w->slice = whet_slice_at(plan, &w->shape, task / w->shape.chunks);
    w->k = w->shape.kernels;
    w->lanes = w->k->lanes;
    w->kept_keys = keys_to_set(w->a, &w->shape);
    w->padded_keys = round_up(w->a->keys, BLOCK);
    lay_out(w->gradients, &w->shape, &at);
    w->panels = arena_part(scratch, at.panels);
    w->maps = w->shape.mapped ? arena_part(scratch, at.maps) : NULL;
    w->queries = arena_part(scratch, at.queries);
    w->grads = arena_part(scratch, at.grads);
    w->query_rows = arena_part(scratch, at.query_rows);
    w->grad_rows = arena_part(scratch, at.grad_rows);
    w->query_sums = arena_part(scratch, at.query_sums);
    w->query_totals = arena_part(scratch, at.query_totals);
    w->keys = arena_part(scratch, at.keys);
    w->values = arena_part(scratch, at.values);
    w->key_columns = arena_part(scratch, at.key_columns);
    w->logits = arena_part(scratch, at.logits);
    w->weight_grads = arena_part(scratch, at.weight_grads);
    w->softcap_grads = w->a->softcap > 0 ? arena_part(scratch, at.softcap_grads) : NULL;
    w->row_logits = arena_part(scratch, at.map_rows);
    w->row_grads = w->row_logits + w->kept_keys + 1;
    w->spare_logits = arena_part(scratch, at.spare);
    w->spare_grads = w->spare_logits + BLOCK * w->lanes;
    w->row_buffer = arena_part(scratch, at.row_buffer);
    w->block_weights = arena_part(scratch, at.block_weights);
    w->block_order = arena_part(scratch, at.block_order);
    w->left_out = arena_part(scratch, at.left_out);
    w->row_weights = arena_part(scratch, at.row_weights);
    place_sums(w, plan, task, arena_part(scratch, at.sums));
}
