/*
 * Forward and backward of one training tile. Items go through psi_x in passes:
 * one for values and keys, a second one for keys where these do not see the
 * class, and one that shows the top item in every class where logits are
 * penalised for telling classes apart.
 */
#include "retrieval/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASS_VALUES, PASS_KEYS, PASS_LEAK, PASSES };

/* Items through psi_x up to its last, linear layer. */
typedef struct item_pass {
    size_t items;
    const float *priority;
    const uint16_t *class_of;
    float *h[RETRIEVAL_DEPTH_MAX]; /* [items][width] after each hidden layer */
    float *d[RETRIEVAL_DEPTH_MAX]; /* and the slope of gelu there */
    float *grad;                   /* of the last h */
    float *spare;                  /* for deeper models, the same size */
} item_pass;

struct retrieval_workspace {
    float *floats;
    uint16_t *integers;
    item_pass passes[PASSES];
    uint16_t *no_class;        /* [sets][n], all `classes` */
    uint16_t *any_class;       /* [sets][classes]: 0 1 2 ... again and again */
    float *top_priority;       /* [sets][classes] */
    float *table, *grad_table; /* [classes + 1][width] */
    float *query_h[RETRIEVAL_DEPTH_MAX], *query_d[RETRIEVAL_DEPTH_MAX];
    float *h_q, *u, *k, *direction;      /* [sets][width] */
    float *shift, *total;                /* [sets] */
    float *score, *weight, *grad_weight; /* [sets][n] */
    float *leak, *grad_leak;             /* [sets][classes] */
    float *mean, *h_bar, *v;             /* [sets][width] */
    float *phi_h[RETRIEVAL_DEPTH_MAX], *phi_d[RETRIEVAL_DEPTH_MAX];
    float *logits, *losses;                  /* [sets][classes], [sets] */
    float *grad_a, *grad_b, *grad_direction; /* [sets][width] */
    float *grad_shift, *grad_total;          /* [sets] */
};

/* Hands out aligned pieces of one allocation: first to learn its size, then for good. */
typedef struct arena {
    float *base;
    size_t used;
} arena;

static float *take(arena *from, size_t floats) {
    float *piece = from->base ? from->base + from->used : NULL;
    from->used += (floats + 15) / 16 * 16;
    return piece;
}

static void divide_pass(arena *from, item_pass *pass, size_t depth, size_t floats) {
    for (size_t l = 0; l < depth; l++) {
        pass->h[l] = take(from, floats);
        pass->d[l] = take(from, floats);
    }
    pass->grad = take(from, floats);
    pass->spare = take(from, depth > 1 ? floats : 0);
}

static void divide(arena *from, retrieval_workspace *w, const retrieval_config *config, size_t sets,
                   size_t n) {
    size_t width = config->width, row = sets * width, depth = config->depth;
    size_t by_class = sets * config->classes;
    divide_pass(from, &w->passes[PASS_VALUES], depth, n * row);
    divide_pass(from, &w->passes[PASS_KEYS], depth, config->key_sees_class ? 0 : n * row);
    divide_pass(from, &w->passes[PASS_LEAK], depth, config->leak > 0 ? by_class * width : 0);
    w->top_priority = take(from, by_class);
    w->table = take(from, (config->classes + 1) * width);
    w->grad_table = take(from, (config->classes + 1) * width);
    for (size_t l = 0; l < depth; l++) {
        w->query_h[l] = take(from, row);
        w->query_d[l] = take(from, row);
        w->phi_h[l] = take(from, row);
        w->phi_d[l] = take(from, row);
    }
    float **const rows[] = {&w->h_q,   &w->u, &w->k,      &w->direction, &w->mean,
                            &w->h_bar, &w->v, &w->grad_a, &w->grad_b,    &w->grad_direction};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        *rows[i] = take(from, row);
    float **const numbers[] = {&w->shift, &w->total, &w->losses, &w->grad_shift, &w->grad_total};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] = take(from, sets);
    w->score = take(from, sets * n);
    w->weight = take(from, sets * n);
    w->grad_weight = take(from, sets * n);
    w->leak = take(from, by_class);
    w->grad_leak = take(from, by_class);
    w->logits = take(from, by_class);
}

retrieval_workspace *retrieval_workspace_create(const retrieval_config *config, size_t sets,
                                                size_t n) {
    retrieval_workspace *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    arena measured = {.base = NULL};
    divide(&measured, w, config, sets, n);
    w->floats = aligned_alloc(64, measured.used * sizeof(float));
    w->integers = malloc((sets * n + sets * config->classes) * sizeof *w->integers);
    if (!w->floats || !w->integers) {
        retrieval_workspace_destroy(w);
        return NULL;
    }
    memset(w->floats, 0, measured.used * sizeof(float));
    arena real = {.base = w->floats};
    divide(&real, w, config, sets, n);
    w->no_class = w->integers;
    w->any_class = w->integers + sets * n;
    for (size_t i = 0; i < sets * n; i++)
        w->no_class[i] = (uint16_t)config->classes;
    for (size_t i = 0; i < sets * config->classes; i++)
        w->any_class[i] = (uint16_t)(i % config->classes);
    return w;
}

void retrieval_workspace_destroy(retrieval_workspace *workspace) {
    if (!workspace)
        return;
    free(workspace->floats);
    free(workspace->integers);
    free(workspace);
}

/* A tile under way. */
typedef struct tile {
    const retrieval_model *model;
    const retrieval_layout *at;
    const nn_engine *engine;
    const nn_kernels *kernels;
    const float *p; /* parameters */
    float *g;       /* their gradients */
    retrieval_workspace *w;
    const retrieval_batch *batch;
    size_t sets, n, width;
    float scale; /* of the losses in the gradient */
} tile;

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
}

/* grad is that of h and is overwritten; grad_x may be NULL. */
static void hidden_backward(const tile *t, retrieval_layer layer, size_t rows, const float *x,
                            const float *d, float *grad, float *grad_x) {
    nn_dense product = dense_at(t, layer, t->width);
    t->kernels->gelu_backward(grad, d, rows * t->width);
    nn_dense_backward(t->engine, &product, rows, x, grad, grad_x, t->g + layer.weight,
                      t->g + layer.bias);
}

static void pass_forward(const tile *t, item_pass *pass) {
    t->kernels->item_forward(pass->priority, pass->class_of, pass->items, t->width,
                             t->p + t->at->item_slope, t->w->table, pass->h[0], pass->d[0]);
    for (size_t l = 1; l < t->at->depth; l++)
        hidden_forward(t, t->at->item[l - 1], pass->items, pass->h[l - 1], pass->h[l], pass->d[l]);
}

static void pass_backward(const tile *t, item_pass *pass) {
    float *grad = pass->grad, *next = pass->spare;
    for (size_t l = t->at->depth - 1; l > 0; l--) {
        hidden_backward(t, t->at->item[l - 1], pass->items, pass->h[l - 1], pass->d[l], grad, next);
        float *spare = grad;
        grad = next;
        next = spare;
    }
    t->kernels->item_backward(pass->priority, pass->class_of, pass->items, t->width, grad,
                              pass->d[0], t->g + t->at->item_slope, t->w->grad_table);
}

static float *features(const tile *t, size_t pass) {
    return t->w->passes[pass].h[t->at->depth - 1];
}

static size_t key_pass(const tile *t) {
    return t->model->config.key_sees_class ? PASS_VALUES : PASS_KEYS;
}

static void items_forward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_batch *batch = t->batch;
    size_t classes = t->at->classes;
    retrieval_class_table(t->model, w->table);
    item_pass *values = &w->passes[PASS_VALUES], *keys = &w->passes[PASS_KEYS];
    values->items = t->sets * t->n;
    values->priority = batch->priority;
    values->class_of = batch->class_of;
    pass_forward(t, values);
    if (!t->model->config.key_sees_class) {
        keys->items = values->items;
        keys->priority = batch->priority;
        keys->class_of = w->no_class;
        pass_forward(t, keys);
    }
    if (t->model->config.leak > 0) {
        item_pass *leak = &w->passes[PASS_LEAK];
        leak->items = t->sets * classes;
        leak->priority = w->top_priority;
        leak->class_of = w->any_class;
        for (size_t s = 0; s < t->sets; s++) {
            float top = 0;
            for (size_t i = 0; i < t->n; i++)
                top = fmaxf(top, batch->priority[s * t->n + i]);
            for (size_t c = 0; c < classes; c++)
                w->top_priority[s * classes + c] = top;
        }
        pass_forward(t, leak);
    }
}

static void query_forward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layout *at = t->at;
    /* no_class as classes of a table that has no classes: its one row is the bias */
    const uint16_t only = 0;
    for (size_t s = 0; s < t->sets; s++)
        t->kernels->item_forward(t->batch->query + s, &only, 1, t->width, t->p + at->query_slope,
                                 t->p + at->query_bias, w->query_h[0] + s * t->width,
                                 w->query_d[0] + s * t->width);
    for (size_t l = 1; l < at->depth; l++)
        hidden_forward(t, at->query[l - 1], t->sets, w->query_h[l - 1], w->query_h[l],
                       w->query_d[l]);
    nn_dense last = dense_at(t, at->query[at->depth - 1], t->width);
    nn_dense to_u = matrix_at(t, at->w_q);
    nn_dense_forward(t->engine, &last, t->sets, w->query_h[at->depth - 1], w->h_q);
    nn_dense_forward(t->engine, &to_u, t->sets, w->h_q, w->u);
    nn_product back = {.m = t->sets, .n = t->width, .k = t->width, .tb = true};
    nn_multiply(&t->engine->blas, back, w->u, t->p + at->w_k, w->k);
    float scale = t->p[at->scale] / sqrtf((float)t->width);
    for (size_t i = 0; i < t->sets * t->width; i++)
        w->k[i] *= scale;
    const retrieval_layer *folded = &at->item[at->depth - 1];
    nn_multiply(&t->engine->blas, back, w->k, t->p + folded->weight, w->direction);
    t->kernels->score_forward(w->k, t->sets, t->width, t->p + folded->bias, 0, w->shift);
}

/* False where a logit is not finite. */
static bool head_forward(const tile *t) {
    retrieval_workspace *w = t->w;
    size_t n = t->n, width = t->width;
    const float *keys = features(t, key_pass(t));
    for (size_t s = 0; s < t->sets; s++)
        t->kernels->score_forward(keys + s * n * width, n, width, w->direction + s * width,
                                  w->shift[s], w->score + s * n);
    whet_rows rows = {
        .size = sizeof rows, .rows = t->sets, .n = n, .in = w->score, .out = w->weight};
    bool is_finite = whet_softmax(&rows, &t->model->policy, NULL) == WHET_OK;
    const float *values = features(t, PASS_VALUES);
    memset(w->mean, 0, t->sets * width * sizeof(float));
    for (size_t s = 0; s < t->sets; s++) {
        t->kernels->mix_forward(values + s * n * width, n, width, w->weight + s * n,
                                w->mean + s * width);
        float total = 0;
        for (size_t i = 0; i < n; i++)
            total += w->weight[s * n + i];
        w->total[s] = total;
    }
    return is_finite;
}

static void answer_forward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layout *at = t->at;
    const retrieval_layer *folded = &at->item[at->depth - 1];
    nn_dense to_h = matrix_at(t, folded->weight), to_v = matrix_at(t, at->w_v);
    nn_dense_forward(t->engine, &to_h, t->sets, w->mean, w->h_bar);
    for (size_t s = 0; s < t->sets; s++)
        for (size_t j = 0; j < t->width; j++)
            w->h_bar[s * t->width + j] += w->total[s] * t->p[folded->bias + j];
    nn_dense_forward(t->engine, &to_v, t->sets, w->h_bar, w->v);
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
    t->kernels->score_forward(next, t->sets, t->width, t->p + folded->bias, 0, w->grad_total);
    for (size_t s = 0; s < t->sets; s++)
        for (size_t j = 0; j < t->width; j++)
            t->g[folded->bias + j] += w->total[s] * next[s * t->width + j];
    nn_dense_backward(t->engine, &to_h, t->sets, w->mean, next, grad, t->g + folded->weight, NULL);
    if (grad != w->grad_a)
        memcpy(w->grad_a, grad, t->sets * t->width * sizeof(float));
}

/* The penalty on logits that tell classes apart: weight times their variance over the classes. */
static double leak_forward_backward(const tile *t) {
    retrieval_workspace *w = t->w;
    size_t classes = t->at->classes, width = t->width;
    const float *h = features(t, PASS_LEAK);
    double penalty = 0, weight = t->model->config.leak;
    for (size_t s = 0; s < t->sets; s++) {
        float *e = w->leak + s * classes, *grad = w->grad_leak + s * classes;
        t->kernels->score_forward(h + s * classes * width, classes, width, w->direction + s * width,
                                  0, e);
        double mean = 0;
        for (size_t c = 0; c < classes; c++)
            mean += e[c];
        mean /= (double)classes;
        for (size_t c = 0; c < classes; c++) {
            double off = e[c] - mean;
            penalty += weight * off * off / (double)classes;
            grad[c] = (float)(2 * weight * off / (double)classes) * t->scale;
        }
    }
    return penalty;
}

static void leak_backward(const tile *t) {
    retrieval_workspace *w = t->w;
    item_pass *pass = &w->passes[PASS_LEAK];
    size_t classes = t->at->classes, width = t->width;
    memset(pass->grad, 0, pass->items * width * sizeof(float));
    for (size_t s = 0; s < t->sets; s++) {
        float *along = w->grad_b; /* what the penalty says of this set's direction */
        t->kernels->score_backward(features(t, PASS_LEAK) + s * classes * width, classes, width,
                                   w->direction + s * width, w->grad_leak + s * classes, along,
                                   pass->grad + s * classes * width);
        for (size_t j = 0; j < width; j++)
            w->grad_direction[s * width + j] += along[j];
    }
    pass_backward(t, pass);
}

/* From the gradients of mean and total to those of directions and shifts, and through psi_x. */
static bool head_backward(const tile *t) {
    retrieval_workspace *w = t->w;
    size_t n = t->n, width = t->width, key = key_pass(t);
    float *value_grad = w->passes[PASS_VALUES].grad, *key_grad = w->passes[key].grad;
    for (size_t s = 0; s < t->sets; s++) {
        t->kernels->mix_backward(features(t, PASS_VALUES) + s * n * width, n, width,
                                 w->weight + s * n, w->grad_a + s * width, w->grad_weight + s * n,
                                 value_grad + s * n * width);
        for (size_t i = 0; i < n; i++)
            w->grad_weight[s * n + i] += w->grad_total[s];
    }
    whet_rows_backward rows = {.size = sizeof rows,
                               .rows = t->sets,
                               .n = n,
                               .in = w->score,
                               .grad_out = w->grad_weight,
                               .grad_in = w->grad_weight};
    bool is_finite = whet_softmax_backward(&rows, &t->model->policy, NULL) == WHET_OK;
    if (key == PASS_KEYS)
        memset(key_grad, 0, t->sets * n * width * sizeof(float));
    for (size_t s = 0; s < t->sets; s++) {
        t->kernels->score_backward(features(t, key) + s * n * width, n, width,
                                   w->direction + s * width, w->grad_weight + s * n,
                                   w->grad_direction + s * width, key_grad + s * n * width);
        float sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += w->grad_weight[s * n + i];
        w->grad_shift[s] = sum;
    }
    if (t->model->config.leak > 0)
        leak_backward(t);
    pass_backward(t, &w->passes[PASS_VALUES]);
    if (key == PASS_KEYS)
        pass_backward(t, &w->passes[PASS_KEYS]);
    return is_finite;
}

static void query_backward(const tile *t) {
    retrieval_workspace *w = t->w;
    const retrieval_layout *at = t->at;
    const nn_blas *blas = &t->engine->blas;
    const retrieval_layer *folded = &at->item[at->depth - 1];
    size_t width = t->width, sets = t->sets;
    nn_product across = {.m = sets, .n = width, .k = width};
    nn_product outer = {.m = width, .n = width, .k = sets, .ta = true, .add = true};
    /* direction = k folded^T and shift = k . bias */
    float *grad = w->grad_a, *next = w->grad_b;
    nn_multiply(blas, outer, w->grad_direction, w->k, t->g + folded->weight);
    nn_multiply(blas, across, w->grad_direction, t->p + folded->weight, grad);
    double of_scale = 0;
    for (size_t s = 0; s < sets; s++)
        for (size_t j = 0; j < width; j++) {
            size_t i = s * width + j;
            grad[i] += w->grad_shift[s] * t->p[folded->bias + j];
            t->g[folded->bias + j] += w->grad_shift[s] * w->k[i];
            of_scale += (double)grad[i] * (double)w->k[i];
        }
    if (t->model->config.learn_scale)
        t->g[at->scale] = (float)(of_scale / (double)t->p[at->scale]);
    float scale = t->p[at->scale] / sqrtf((float)width);
    for (size_t i = 0; i < sets * width; i++)
        grad[i] *= scale;
    /* k = u w_k^T */
    nn_multiply(blas, outer, grad, w->u, t->g + at->w_k);
    nn_multiply(blas, across, grad, t->p + at->w_k, next);
    nn_dense to_u = matrix_at(t, at->w_q), last = dense_at(t, at->query[at->depth - 1], width);
    nn_dense_backward(t->engine, &to_u, sets, w->h_q, next, grad, t->g + at->w_q, NULL);
    nn_dense_backward(t->engine, &last, sets, w->query_h[at->depth - 1], grad, next,
                      t->g + at->query[at->depth - 1].weight, t->g + at->query[at->depth - 1].bias);
    for (size_t l = at->depth - 1; l > 0; l--) {
        hidden_backward(t, at->query[l - 1], sets, w->query_h[l - 1], w->query_d[l], next, grad);
        float *spare = grad;
        grad = next;
        next = spare;
    }
    const uint16_t only = 0;
    for (size_t s = 0; s < sets; s++)
        t->kernels->item_backward(t->batch->query + s, &only, 1, width, next + s * width,
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

retrieval_outcome retrieval_tile(const retrieval_model *model, const retrieval_batch *batch,
                                 float scale, retrieval_workspace *workspace, float *gradient,
                                 float *logits) {
    const tile t = {.model = model,
                    .at = &model->layout,
                    .engine = model->engine,
                    .kernels = model->engine->kernels,
                    .p = model->parameters,
                    .g = gradient,
                    .w = workspace,
                    .batch = batch,
                    .sets = batch->sets,
                    .n = batch->n,
                    .width = model->layout.width,
                    .scale = scale};
    retrieval_outcome outcome = {.loss = 0};
    items_forward(&t);
    query_forward(&t);
    outcome.is_finite = head_forward(&t);
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
    outcome.is_finite = head_backward(&t) && outcome.is_finite && isfinite(outcome.loss);
    query_backward(&t);
    table_backward(&t);
    return outcome;
}
