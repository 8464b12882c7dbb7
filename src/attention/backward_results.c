/*
 * The results of the backward pass, written in the types that were asked for:
 * gradients of queries and betas once a set is done, of keys and values once a slice's
 * sums are complete, of parameters once all are. Sums of several tasks are added
 * in their order, so that results do not depend on threads.
 */
#include "attention/backward.h"
#include <math.h>
#include <string.h>

static void store_query(backward_work *w, size_t index, size_t lane) {
    const backward_panel *p = w->panels + index;
    const double *total =
        w->query_totals + index * round_up(w->a->head_dim, w->k->strip) * w->lanes + lane;
    for (size_t c = 0; c < w->a->head_dim; c++)
        w->row_buffer[c] = p->bad[lane] ? NAN : (float)(total[c * w->lanes] * (double)w->a->scale);
    whet_store_row(&w->slice, &w->gradients->q, p->row[lane].head, p->row[lane].query,
                   w->row_buffer, w->a->head_dim);
}

static void store_beta(const backward_work *w, const backward_panel *p, size_t lane) {
    w->gradients->betas[whet_row_index(&w->slice, &p->row[lane])] =
        p->bad[lane] ? NAN : (float)p->beta_grad[lane];
}

whet_status whet_backward_finish_set(backward_work *w, whet_status status,
                                     uint64_t *first_bad_row) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].row_count; lane++) {
            const backward_panel *p = w->panels + i;
            if (w->gradients->q.data)
                store_query(w, i, lane);
            if (w->gradients->betas)
                store_beta(w, p, lane);
            if (!p->bad[lane]) {
                if (w->parameters)
                    w->parameters[p->row[lane].head % w->shape.heads_per_kv].alibi_slope -=
                        p->distance[lane];
                continue;
            }
            status = whet_note_bad_row(&w->slice, &p->row[lane], status, first_bad_row);
        }
    return status;
}

/* Gradients of keys or values of a block from the sums of a slice's tasks, added in order. */
static void store_keys(const kv_slice *slice, const whet_tensor_out *to, size_t dim,
                       const float *sums, size_t parts, size_t part_stride, size_t padded,
                       size_t start, size_t count) {
    size_t columns = slice->kernels->outer_columns;
    for (size_t j = start; j < start + count; j++) {
        float row[HEAD_DIM_MAX + OUTER_COLUMNS_MAX];
        for (size_t c = 0; c < dim; c += columns) {
            const float *part = sums + c * padded + j * columns;
            memcpy(row + c, part, columns * sizeof(float));
            for (size_t i = 1; i < parts; i++)
                slice->kernels->add(part + i * part_stride, columns, row + c);
        }
        whet_store_row(slice, to, slice->kv_head, j, row, dim);
    }
}

/* Both gradients of a block of keys. sums are those of the slice's first task. */
void whet_backward_store_block(const kv_slice *slice, const whet_gradients *g, const float *sums,
                               size_t parts, size_t start) {
    const whet_attention *a = &g->attention;
    size_t padded = round_up(a->keys, BLOCK);
    size_t count = a->keys - start < BLOCK ? a->keys - start : BLOCK;
    sum_sizes size;
    whet_backward_size_sums(g, slice->kernels, &size);
    if (g->k.data)
        store_keys(slice, &g->k, a->head_dim, sums, parts, size.total, padded, start, count);
    if (g->v.data)
        store_keys(slice, &g->v, a->value_dim, sums + size.keys, parts, size.total, padded, start,
                   count);
}

/* A key's bias in one batch and head: the sums of all tasks of their slice, in order. */
static double sum_bias(const double *all, const whet_attention *a, const plan_shape *shape,
                       size_t batch, size_t head, size_t j) {
    size_t padded = round_up(a->keys, BLOCK), heads = shape->heads_per_kv;
    size_t slice = batch * a->kv_heads + head / heads;
    const double *part = all + (slice * shape->chunks * heads + head % heads) * padded + j;
    double total = 0;
    for (size_t i = 0; i < shape->chunks; i++)
        total += part[i * heads * padded];
    return total;
}

/* Summed over the batches and heads that share a bias (stride zero). */
void whet_backward_store_bias(const whet_plan *plan, const plan_shape *shape, size_t start) {
    const whet_gradients *g = &plan->description.gradients;
    const whet_attention *a = &g->attention;
    const ptrdiff_t *stride = g->bias.stride;
    workspace_layout at;
    whet_backward_lay_out_workspace(g, shape, &at);
    const double *all = arena_part(plan->workspace, at.bias);
    size_t batches = stride[0] ? 1 : a->batch, heads = stride[1] ? 1 : a->heads;
    for (size_t b = 0; b < a->batch; b += batches)
        for (size_t h = 0; h < a->heads; h += heads)
            for (size_t j = start; j < start + BLOCK && j < a->keys; j++) {
                double total = 0;
                for (size_t batch = b; batch < b + batches; batch++)
                    for (size_t head = h; head < h + heads; head++)
                        total += sum_bias(all, a, shape, batch, head, j);
                *(float *)(void *)((char *)g->bias.data + (ptrdiff_t)b * stride[0] +
                                   (ptrdiff_t)h * stride[1] + (ptrdiff_t)j * stride[2]) =
                    (float)total;
            }
}

/* Parameters of every head, summed over batches, tasks and, where one policy serves all, heads. */
void whet_backward_store_parameters(const whet_plan *plan, const plan_shape *shape) {
    const whet_gradients *g = &plan->description.gradients;
    const whet_attention *a = &g->attention;
    workspace_layout at;
    whet_backward_lay_out_workspace(g, shape, &at);
    const parameter_sums *all = arena_part(plan->workspace, at.parameters);
    for (size_t i = 0; g->policies && i < a->policy_count; i++)
        memset(&g->policies[i], 0, sizeof g->policies[i]);
    for (size_t head = 0; head < a->heads; head++) {
        parameter_sums total = {.sink = 0};
        for (size_t batch = 0; batch < a->batch; batch++) {
            size_t slice = batch * a->kv_heads + head / shape->heads_per_kv;
            for (size_t part = 0; part < shape->chunks; part++) {
                const parameter_sums *more = all +
                                             (slice * shape->chunks + part) * shape->heads_per_kv +
                                             head % shape->heads_per_kv;
                for (size_t i = 0; i < POLICY_PARAMETERS; i++)
                    total.parameters[i] += more->parameters[i];
                total.sink += more->sink;
                total.alibi_slope += more->alibi_slope;
            }
        }
        if (g->sinks)
            g->sinks[head] = (float)total.sink;
        if (g->alibi_slopes)
            g->alibi_slopes[head] = (float)total.alibi_slope;
        if (!g->policies)
            continue;
        double parameters[POLICY_PARAMETERS];
        whet_policy_gradient *to = &g->policies[a->policy_count > 1 ? head : 0];
        memcpy(parameters, to, sizeof parameters);
        for (size_t i = 0; i < POLICY_PARAMETERS; i++)
            parameters[i] += total.parameters[i];
        memcpy(to, parameters, sizeof parameters);
    }
}
