/*
 * Forward and backward of one training tile. Items go through psi_x in passes:
 * one for values and keys, a second one for keys where these do not see the
 * class, and one with items of two priorities in every class where logits that
 * depend on the class are penalised. Where psi_x needs no matrix products,
 * items are processed a few sets at a time, so that the output of one loop is
 * still in the cache for the next. The query's side is computed for the sets'
 * queries or, if that is fewer rows, for the nodes of nodes.h.
 */
#include "retrieval/tile.h"

#include <math.h>
#include <string.h>

/* The penalty compares differences between classes with that caused by this step in priority, and
 * vanishes where they are not visible in f32. */
static const float leak_step = 0.05F;
static const double leak_floor = 1e-7;

/* The queries for which the query's side is computed. */
typedef struct query_rows {
    size_t count;
    const float *query;
    float *direction, *shift; /* of each */
} query_rows;

static query_rows rows_of_queries(const tile *t) {
    retrieval_workspace *w = t->w;
    if (t->has_nodes)
        return (query_rows){RETRIEVAL_NODES, w->nodes.at, w->node_direction, w->node_shift};
    return (query_rows){t->sets, t->batch->query, w->direction, w->shift};
}

/* The factor of u . W_k h. */
static float logit_scale(const tile *t) { return t->p[t->at->scale] / sqrtf((float)t->width); }

static nn_dense dense_at(const tile *t, retrieval_layer layer, size_t out) {
    return (nn_dense){t->width, out, t->p + layer.weight, t->p + layer.bias};
}

static nn_dense matrix_at(const tile *t, size_t weight) {
    return (nn_dense){t->width, t->width, t->p + weight, NULL};
}

/* h = gelu(x weight + bias), [rows][width] */
static void hidden_forward(const tile *t, retrieval_layer layer, size_t rows, const float *x,
                           float *h, float *d) {
    nn_dense product = matrix_at(t, layer.weight);
    nn_dense_forward(t->engine, &product, rows, x, h);
    t->kernels->gelu_forward(h, t->p + layer.bias, rows, t->width, h, d);
    retrieval_round(t->model, h, rows * t->width);
}

/* grad is that of h and is overwritten; grad_x may be NULL. */
static void hidden_backward(const tile *t, retrieval_layer layer, size_t rows, const float *x,
                            const float *d, float *grad, float *grad_x) {
    nn_dense product = dense_at(t, layer, t->width);
    t->kernels->gelu_backward(grad, d, rows * t->width);
    nn_dense_backward(t->engine, &product, rows, x, grad, grad_x, t->g + layer.weight,
                      t->g + layer.bias);
}

/* Sets `first` to first + sets. */
static void pass_forward(const tile *t, const item_pass *pass, size_t first, size_t sets) {
    size_t start = first * pass->per_set, items = sets * pass->per_set, at = start * t->width;
    t->kernels->item_forward(pass->priority + start, pass->class_of + start, items, t->width,
                             t->p + t->at->item_slope, t->w->table, pass->h[0] + at,
                             pass->d[0] + at);
    retrieval_round(t->model, pass->h[0] + at, items * t->width);
    for (size_t l = 1; l < t->at->depth; l++)
        hidden_forward(t, t->at->item[l - 1], items, pass->h[l - 1] + at, pass->h[l] + at,
                       pass->d[l] + at);
}

/* From the gradients of features to those of psi_x. The features' own gradients are two outer
 * products a set, with one row of `pair`'s numbers for each item and one of its vectors for each
 * set. */
static void pass_backward(const tile *t, const item_pass *pass, const nn_pair *pair, size_t first,
                          size_t sets) {
    size_t per_set = pass->per_set, width = t->width, depth = t->at->depth;
    float *grad = pass->grad, *next = pass->spare;
    for (size_t s = first; s < first + sets; s++) {
        size_t start = s * per_set;
        nn_pair own = {pair->first + start, pair->x + s * width,
                       pair->second ? pair->second + start : NULL,
                       pair->second ? pair->y + s * width : NULL};
        if (depth == 1)
            t->kernels->item_pair_backward(&own, pass->priority + start, pass->class_of + start,
                                           per_set, width, pass->d[0] + start * width,
                                           t->g + t->at->item_slope, t->w->grad_table);
        else
            t->kernels->pair_backward(&own, per_set, width, grad + (s - first) * per_set * width);
    }
    if (depth == 1)
        return;
    size_t start = first * per_set, items = sets * per_set, at = start * width;
    for (size_t l = depth - 1; l > 0; l--) {
        hidden_backward(t, t->at->item[l - 1], items, pass->h[l - 1] + at, pass->d[l] + at, grad,
                        next);
        float *spare = grad;
        grad = next;
        next = spare;
    }
    t->kernels->item_backward(pass->priority + start, pass->class_of + start, items, width, grad,
                              pass->d[0] + at, t->g + t->at->item_slope, t->w->grad_table);
}

static bool has_leak(const tile *t) { return t->model->config.leak > 0; }

static void prepare_items(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_batch *batch = t->batch;
    size_t classes = t->at->classes;
    retrieval_class_table(t->model, w->table);
    const float *priority = batch->priority;
    w->passes[PASS_VALUES].per_set = w->passes[PASS_KEYS].per_set = t->n;
    w->passes[PASS_VALUES].priority = w->passes[PASS_KEYS].priority = priority;
    w->passes[PASS_VALUES].class_of = batch->class_of;
    w->passes[PASS_KEYS].class_of = w->no_class;
    w->passes[PASS_LEAK].per_set = LEAK_POINTS * classes;
    w->passes[PASS_LEAK].priority = w->leak_priority;
    w->passes[PASS_LEAK].class_of = w->any_class;
    for (size_t s = 0; has_leak(t) && s < t->sets; s++) {
        /* Among many items the largest is close to 1; among few it is where it is. */
        float top = s % 2 == 0 ? 1 : 0, *to = w->leak_priority + s * LEAK_POINTS * classes;
        for (size_t i = 0; i < t->n; i++)
            top = fmaxf(top, priority[s * t->n + i]);
        for (size_t c = 0; c < classes; c++) {
            to[c] = top;
            to[classes + c] = top - leak_step;
        }
    }
}

/* Directions and shifts of sets from those at nodes. */
static void between_nodes(const tile *t) {
    retrieval_workspace *w = t->w;
    nn_product mixed = {.m = t->sets, .n = t->width, .k = RETRIEVAL_NODES};
    retrieval_node_shares(&w->nodes, t->batch->query, t->sets, w->share);
    nn_product_of(t->engine, mixed, w->share, w->node_direction, w->direction);
    t->kernels->score_forward(w->share, t->sets, RETRIEVAL_NODES, w->node_shift, 0, w->shift);
}

/* Backward: gradients at nodes, which overwrite the directions and shifts there. */
static void back_to_nodes(const tile *t) {
    retrieval_workspace *w = t->w;
    nn_product summed = {.m = RETRIEVAL_NODES, .n = t->width, .k = t->sets, .ta = true};
    nn_product_of(t->engine, summed, w->share, w->grad_direction, w->node_direction);
    memset(w->node_shift, 0, RETRIEVAL_NODES * sizeof(float));
    t->kernels->mix_forward(w->share, t->sets, RETRIEVAL_NODES, w->grad_shift, w->node_shift);
}

static void query_forward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layout *at = t->at;
    const query_rows rows = rows_of_queries(t);
    /* no_class as classes of a table that has no classes: its one row is the bias */
    const uint16_t only = 0;
    for (size_t s = 0; s < rows.count; s++)
        t->kernels->item_forward(rows.query + s, &only, 1, t->width, t->p + at->query_slope,
                                 t->p + at->query_bias, w->query_h[0] + s * t->width,
                                 w->query_d[0] + s * t->width);
    retrieval_round(t->model, w->query_h[0], rows.count * t->width);
    for (size_t l = 1; l < at->depth; l++)
        hidden_forward(t, at->query[l - 1], rows.count, w->query_h[l - 1], w->query_h[l],
                       w->query_d[l]);
    nn_dense last = dense_at(t, at->query[at->depth - 1], t->width);
    nn_dense to_u = matrix_at(t, at->w_q);
    nn_dense_forward(t->engine, &last, rows.count, w->query_h[at->depth - 1], w->h_q);
    retrieval_round(t->model, w->h_q, rows.count * t->width);
    nn_dense_forward(t->engine, &to_u, rows.count, w->h_q, w->u);
    nn_product back = {.m = rows.count, .n = t->width, .k = t->width, .tb = true};
    nn_product_of(t->engine, back, w->u, t->p + at->w_k, w->k);
    t->kernels->scale(w->k, logit_scale(t), rows.count * t->width);
    const retrieval_layer *folded = &at->item[at->depth - 1];
    nn_product_of(t->engine, back, w->k, t->p + folded->weight, rows.direction);
    t->kernels->score_forward(w->k, rows.count, t->width, t->p + folded->bias, 0, rows.shift);
    if (t->has_nodes)
        between_nodes(t);
}

static void scores_forward(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    size_t n = t->n, width = t->width;
    if (w->is_unfolded) {
        tile_unfolded_scores(t, first, sets);
        return;
    }
    for (size_t s = first; s < first + sets; s++)
        t->kernels->score_forward(tile_features(t, tile_key_pass(t)) + s * n * width, n, width,
                                  w->direction + s * width, w->shift[s], w->score + s * n);
}

/* False where a logit is not finite. */
static bool head_forward(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    size_t n = t->n, width = t->width;
    pass_forward(t, &w->passes[PASS_VALUES], first, sets);
    if (tile_key_pass(t) == PASS_KEYS)
        pass_forward(t, &w->passes[PASS_KEYS], first, sets);
    if (has_leak(t))
        pass_forward(t, &w->passes[PASS_LEAK], first, sets);
    scores_forward(t, first, sets);
    whet_rows rows = {.size = sizeof rows,
                      .rows = sets,
                      .n = n,
                      .in = w->score + first * n,
                      .out = w->weight + first * n};
    bool is_finite = whet_softmax(&rows, &t->model->policy, NULL) == WHET_OK;
    memset(w->mean + first * width, 0, sets * width * sizeof(float));
    for (size_t s = first; s < first + sets; s++) {
        t->kernels->mix_forward(tile_features(t, PASS_VALUES) + s * n * width, n, width,
                                w->weight + s * n, w->mean + s * width);
        float total = 0;
        for (size_t i = 0; i < n; i++)
            total += w->weight[s * n + i];
        w->total[s] = total;
    }
    if (w->is_unfolded)
        tile_unfolded_means(t, first, sets);
    return is_finite;
}

/* psi_x of items, weighted and summed, from mean and total. */
static void h_bar_forward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layer *folded = &t->at->item[t->at->depth - 1];
    nn_dense to_h = matrix_at(t, folded->weight);
    nn_dense_forward(t->engine, &to_h, t->sets, w->mean, w->h_bar);
    t->kernels->outer_add(w->total, t->p + folded->bias, t->sets, t->width, w->h_bar);
}

static void answer_forward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layout *at = t->at;
    nn_dense to_v = matrix_at(t, at->w_v);
    if (!w->is_unfolded)
        h_bar_forward(t);
    nn_dense_forward(t->engine, &to_v, t->sets, w->h_bar, w->v);
    retrieval_round(t->model, w->v, t->sets * t->width);
    const float *x = w->v;
    for (size_t l = 0; l < at->depth; l++) {
        hidden_forward(t, at->phi[l], t->sets, x, w->phi_h[l], w->phi_d[l]);
        x = w->phi_h[l];
    }
    nn_dense last = dense_at(t, at->phi[at->depth], at->classes);
    nn_dense_forward(t->engine, &last, t->sets, x, w->logits);
}

/* From the gradient of the class logits to those of mean (in grad_a) and total. */
static void answer_backward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layout *at = t->at;
    const retrieval_layer *folded = &at->item[at->depth - 1];
    nn_dense last = dense_at(t, at->phi[at->depth], at->classes);
    float *grad = w->grad_a, *next = w->grad_b;
    nn_dense_backward(t->engine, &last, t->sets, w->phi_h[at->depth - 1], w->logits, grad,
                      t->g + at->phi[at->depth].weight, t->g + at->phi[at->depth].bias);
    for (size_t l = at->depth; l-- > 0;) {
        hidden_backward(t, at->phi[l], t->sets, l > 0 ? w->phi_h[l - 1] : w->v, w->phi_d[l], grad,
                        next);
        float *spare = grad;
        grad = next;
        next = spare;
    }
    nn_dense to_h = matrix_at(t, folded->weight), to_v = matrix_at(t, at->w_v);
    nn_dense_backward(t->engine, &to_v, t->sets, w->h_bar, grad, next, t->g + at->w_v, NULL);
    if (w->is_unfolded)
        memcpy(w->unfolded.grad_h_bar, next, t->sets * t->width * sizeof(float));
    t->kernels->score_forward(next, t->sets, t->width, t->p + folded->bias, 0, w->grad_total);
    t->kernels->mix_forward(next, t->sets, t->width, w->total, t->g + folded->bias);
    nn_dense_backward(t->engine, &to_h, t->sets, w->mean, next, grad, t->g + folded->weight, NULL);
    if (grad != w->grad_a)
        memcpy(w->grad_a, grad, t->sets * t->width * sizeof(float));
}

static double mean_of(const float *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

/*
 * The penalty on logits that depend on the class: weight / 2 times log(V /
 * S^2), where V is their variance over classes and S their slope in priority.
 * That is what decides between two items of nearly the same priority, whatever
 * the scale of the logits, and the logarithm keeps its gradient when little is
 * left.
 */
static double leak_forward_backward(const tile *t) {
    retrieval_workspace *w = t->w;
    size_t classes = t->at->classes, width = t->width, points = LEAK_POINTS * classes;
    const float *h = tile_features(t, PASS_LEAK);
    double penalty = 0, weight = t->model->config.leak, count = (double)classes;
    for (size_t s = 0; s < t->sets; s++) {
        float *e = w->leak + s * points, *grad = w->grad_leak + s * points;
        t->kernels->score_forward(h + s * points * width, points, width, w->direction + s * width,
                                  0, e);
        double mean = mean_of(e, classes), variance = 0;
        double slope = (mean - mean_of(e + classes, classes)) / (double)leak_step;
        for (size_t c = 0; c < classes; c++)
            variance += (e[c] - mean) * (e[c] - mean) / count;
        double against = slope * slope + 1e-6; /* an untrained head has none */
        double ratio = variance / against + leak_floor * leak_floor;
        penalty += 0.5 * weight * log(ratio);
        double of_ratio = 0.5 * weight / ratio * (double)t->scale;
        double of_slope = -of_ratio * 2 * variance * slope / (against * against);
        double of_mean = of_slope / ((double)leak_step * count);
        for (size_t c = 0; c < classes; c++) {
            grad[c] = (float)(of_ratio * 2 * (e[c] - mean) / (count * against) + of_mean);
            grad[classes + c] = (float)-of_mean;
        }
    }
    return penalty;
}

static void leak_backward(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    const item_pass *pass = &w->passes[PASS_LEAK];
    size_t points = pass->per_set, width = t->width;
    for (size_t s = first; s < first + sets; s++) /* the penalty's gradient of directions */
        t->kernels->mix_forward(tile_features(t, PASS_LEAK) + s * points * width, points, width,
                                w->grad_leak + s * points, w->grad_direction + s * width);
    const nn_pair by_score = {w->grad_leak, w->direction, NULL, NULL};
    pass_backward(t, pass, &by_score, first, sets);
}

/* From the gradients of mean and total to those of directions and shifts, and through psi_x. */
static bool head_backward(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    size_t n = t->n, width = t->width, key = tile_key_pass(t), one = n * width;
    if (w->is_unfolded)
        tile_unfolded_weight_gradients(t, first, sets);
    for (size_t s = first; !w->is_unfolded && s < first + sets; s++)
        t->kernels->score_forward(tile_features(t, PASS_VALUES) + s * one, n, width,
                                  w->grad_a + s * width, w->grad_total[s], w->grad_weight + s * n);
    whet_rows_backward rows = {.size = sizeof rows,
                               .rows = sets,
                               .n = n,
                               .in = w->score + first * n,
                               .grad_out = w->grad_weight + first * n,
                               .grad_in = w->grad_weight + first * n};
    bool is_finite = whet_softmax_backward(&rows, &t->model->policy, NULL) == WHET_OK;
    memset(w->grad_direction + first * width, 0, sets * width * sizeof(float));
    for (size_t s = first; s < first + sets; s++) {
        t->kernels->mix_forward(tile_features(t, key) + s * one, n, width, w->grad_weight + s * n,
                                w->grad_direction + s * width);
        float sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += w->grad_weight[s * n + i];
        w->grad_shift[s] = sum;
    }
    if (w->is_unfolded)
        tile_unfolded_score_gradients(t, first, sets);
    if (has_leak(t))
        leak_backward(t, first, sets);
    const nn_pair by_score = {w->grad_weight, w->direction, NULL, NULL};
    nn_pair by_weight = {w->weight, w->grad_a, NULL, NULL};
    if (key == PASS_KEYS) {
        pass_backward(t, &w->passes[PASS_KEYS], &by_score, first, sets);
    } else {
        by_weight.second = by_score.first;
        by_weight.y = by_score.x;
    }
    pass_backward(t, &w->passes[PASS_VALUES], &by_weight, first, sets);
    return is_finite;
}

/* Forward or backward through the head, group by group. */
static bool all_groups(const tile *t, bool (*function)(const tile *, size_t, size_t)) {
    size_t group = retrieval_group_size(t->at->depth, t->sets);
    bool is_finite = true;
    for (size_t first = 0; first < t->sets; first += group) {
        size_t left = t->sets - first;
        is_finite = function(t, first, left < group ? left : group) && is_finite;
    }
    return is_finite;
}

static void query_backward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layout *at = t->at;
    const retrieval_layer *folded = &at->item[at->depth - 1];
    const query_rows of = rows_of_queries(t);
    size_t width = t->width, rows = of.count;
    const float *grad_direction = t->has_nodes ? of.direction : w->grad_direction;
    const float *grad_shift = t->has_nodes ? of.shift : w->grad_shift;
    if (t->has_nodes)
        back_to_nodes(t);
    nn_product across = {.m = rows, .n = width, .k = width};
    nn_product outer = {.m = width, .n = width, .k = rows, .ta = true, .add = true};
    /* direction = k folded^T and shift = k . bias */
    float *grad = w->grad_a, *next = w->grad_b;
    nn_product_of(t->engine, outer, grad_direction, w->k, t->g + folded->weight);
    if (w->is_unfolded) {
        memcpy(grad, w->unfolded.grad_k, rows * width * sizeof(float));
    } else {
        nn_product_of(t->engine, across, grad_direction, t->p + folded->weight, grad);
        t->kernels->outer_add(grad_shift, t->p + folded->bias, rows, width, grad);
    }
    t->kernels->mix_forward(w->k, rows, width, grad_shift, t->g + folded->bias);
    if (t->model->config.learn_scale) {
        double sum = 0; /* every logit is proportional to the scale, and so is k */
        for (size_t i = 0; i < rows * width; i++)
            sum += (double)grad[i] * (double)w->k[i];
        t->g[at->scale] = (float)(sum / (double)t->p[at->scale]);
    }
    t->kernels->scale(grad, logit_scale(t), rows * width);
    /* k = u w_k^T */
    nn_product_of(t->engine, outer, grad, w->u, t->g + at->w_k);
    nn_product_of(t->engine, across, grad, t->p + at->w_k, next);
    nn_dense to_u = matrix_at(t, at->w_q), last = dense_at(t, at->query[at->depth - 1], width);
    nn_dense_backward(t->engine, &to_u, rows, w->h_q, next, grad, t->g + at->w_q, NULL);
    nn_dense_backward(t->engine, &last, rows, w->query_h[at->depth - 1], grad, next,
                      t->g + at->query[at->depth - 1].weight, t->g + at->query[at->depth - 1].bias);
    for (size_t l = at->depth - 1; l > 0; l--) {
        hidden_backward(t, at->query[l - 1], rows, w->query_h[l - 1], w->query_d[l], next, grad);
        float *spare = grad;
        grad = next;
        next = spare;
    }
    const uint16_t only = 0;
    for (size_t s = 0; s < rows; s++)
        t->kernels->item_backward(of.query + s, &only, 1, width, next + s * width,
                                  w->query_d[0] + s * width, t->g + at->query_slope,
                                  t->g + at->query_bias);
}

/* The table was made of class rows and a bias. */
static void table_backward(const tile *t) {
    size_t width = t->width, classes = t->at->classes;
    const float *grad = t->w->grad_table;
    memcpy(t->g + t->at->item_class, grad, classes * width * sizeof(float));
    t->kernels->bias_backward(grad, classes + 1, width, t->g + t->at->item_bias);
}

/* Deeper networks are not known to be smooth enough. */
static bool nodes_pay(const retrieval_model *model, size_t sets) {
    const retrieval_layout *at = &model->layout;
    return at->depth == 1 && sets >= 2 * RETRIEVAL_NODES &&
           retrieval_nodes_suffice(model->parameters + at->query_slope, at->width);
}

retrieval_outcome retrieval_tile(const retrieval_model *model, const retrieval_batch *batch,
                                 float scale, retrieval_workspace *workspace, float *gradient,
                                 float *logits) {
    const retrieval_model multiplied = retrieval_as_multiplied(model, workspace->multiplied);
    const tile t = {.model = &multiplied,
                    .at = &model->layout,
                    .engine = model->engine,
                    .kernels = model->engine->kernels,
                    .p = multiplied.parameters,
                    .g = gradient,
                    .w = workspace,
                    .batch = batch,
                    .sets = batch->sets,
                    .n = batch->n,
                    .width = model->layout.width,
                    .scale = scale,
                    .has_nodes = !workspace->is_unfolded && nodes_pay(model, batch->sets)};
    retrieval_outcome outcome = {.loss = 0};
    prepare_items(&t);
    query_forward(&t);
    if (workspace->is_unfolded)
        tile_unfolded_prepare(&t);
    outcome.is_finite = all_groups(&t, head_forward);
    answer_forward(&t);
    if (logits)
        memcpy(logits, workspace->logits, t.sets * t.at->classes * sizeof(float));
    outcome.correct = nn_cross_entropy(workspace->logits, batch->label, t.sets, t.at->classes,
                                       scale, workspace->losses, workspace->logits);
    for (size_t s = 0; s < t.sets; s++)
        outcome.loss += workspace->losses[s];
    if (model->config.leak > 0)
        outcome.loss += leak_forward_backward(&t);
    if (!gradient)
        return outcome;
    memset(gradient, 0, t.at->count * sizeof(float));
    memset(workspace->grad_table, 0, (t.at->classes + 1) * t.width * sizeof(float));
    answer_backward(&t);
    outcome.is_finite =
        all_groups(&t, head_backward) && outcome.is_finite && isfinite(outcome.loss);
    query_backward(&t);
    table_backward(&t);
    return outcome;
}
