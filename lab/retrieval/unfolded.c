/*
 * Heads in which every item goes through psi_x's last layer, W_k and W_v, as it
 * must where products round what they multiply. The ways back fold all the same:
 * they need the sums of h and of t that the weights and the gradients of scores
 * make of each set, not the gradients of each item's key and value.
 */
#include "retrieval/tile.h"

#include <string.h>

enum { TO_H, TO_KEY, TO_VALUE };

void tile_unfolded_prepare(const tile *t) {
    const size_t weights[] = {[TO_H] = t->at->item[t->at->depth - 1].weight,
                              [TO_KEY] = t->at->w_k,
                              [TO_VALUE] = t->at->w_v};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        t->kernels->pack((nn_product){.m = t->sets, .n = t->width, .k = t->width},
                         t->p + weights[i], t->w->unfolded.packed[i]);
}

/* y = x weight + bias, rounded; bias may be NULL. */
static void rows_forward(const tile *t, size_t weight, const float *bias, size_t items,
                         const float *x, float *y) {
    t->kernels->multiply_packed((nn_product){.m = items, .n = t->width, .k = t->width}, x,
                                t->w->unfolded.packed[weight], y);
    if (bias)
        t->kernels->bias_forward(y, bias, items, t->width);
    retrieval_round(t->model, y, items * t->width);
}

void tile_unfolded_scores(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    const float *bias = t->p + t->at->item[t->at->depth - 1].bias;
    size_t n = t->n, width = t->width, key = tile_key_pass(t);
    size_t at = first * n * width, items = sets * n;
    for (size_t pass = PASS_VALUES; pass <= key; pass++)
        rows_forward(t, TO_H, bias, items, tile_features(t, pass) + at, w->unfolded.h[pass] + at);
    rows_forward(t, TO_KEY, NULL, items, w->unfolded.h[key] + at, w->unfolded.key + at);
    rows_forward(t, TO_VALUE, NULL, items, w->unfolded.h[PASS_VALUES] + at, w->unfolded.value + at);
    for (size_t s = first; s < first + sets; s++)
        t->kernels->score_forward(w->unfolded.key + s * n * width, n, width, w->u + s * width, 0,
                                  w->score + s * n);
    t->kernels->scale(w->score + first * n, retrieval_logit_scale(t->model), items);
}

/* sums_s = sum over items of coefficient_i row_i, [sets][width] */
static void sum_items(const tile *t, const float *rows, const float *coefficients, size_t first,
                      size_t sets, float *sums) {
    size_t n = t->n, width = t->width;
    memset(sums + first * width, 0, sets * width * sizeof(float));
    for (size_t s = first; s < first + sets; s++)
        t->kernels->mix_forward(rows + s * n * width, n, width, coefficients + s * n,
                                sums + s * width);
}

void tile_unfolded_outputs(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    sum_items(t, w->unfolded.value, w->weight, first, sets, w->v);
    retrieval_round(t->model, w->v + first * t->width, sets * t->width);
    sum_items(t, w->unfolded.h[PASS_VALUES], w->weight, first, sets, w->h_bar);
}

void tile_unfolded_weight_gradients(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    size_t n = t->n, width = t->width;
    for (size_t s = first; s < first + sets; s++)
        t->kernels->score_forward(w->unfolded.value + s * n * width, n, width,
                                  w->unfolded.grad_v + s * width, 0, w->grad_weight + s * n);
}

void tile_unfolded_score_gradients(const tile *t, size_t first, size_t sets) {
    retrieval_workspace *w = t->w;
    sum_items(t, w->unfolded.h[tile_key_pass(t)], w->grad_weight, first, sets, w->unfolded.grad_h);
    sum_items(t, w->unfolded.key, w->grad_weight, first, sets, w->unfolded.grad_u);
    t->kernels->scale(w->unfolded.grad_u + first * t->width, retrieval_logit_scale(t->model),
                      sets * t->width);
}
