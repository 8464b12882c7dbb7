/*
 * Heads in which every item goes through psi_x's last layer, as it must where
 * products round their operands: h is rounded before W_k and W_v. The rest is
 * folded, and so is the backward pass, which needs the sums of h and t of each
 * set, weighted by coefficients and by the gradients of scores.
 */
#include "retrieval/tile.h"

#include <string.h>

void tile_unfolded_prepare(const tile *t) {
    t->kernels->pack((nn_product){.m = t->sets, .n = t->width, .k = t->width},
                     t->p + t->at->item[t->at->depth - 1].weight, t->w->unfolded.packed);
}

/* h of the items of a pass. */
static void items_forward(const tile *t, size_t pass, size_t first, size_t sets) {
    size_t items = sets * t->n, at = first * t->n * t->width;
    float *h = t->w->unfolded.h[pass] + at;
    t->kernels->multiply_packed((nn_product){.m = items, .n = t->width, .k = t->width},
                                tile_features(t, pass) + at, t->w->unfolded.packed, h);
    t->kernels->bias_forward(h, t->p + t->at->item[t->at->depth - 1].bias, items, t->width);
    retrieval_round(t->model, h, items * t->width);
}

/* numbers_i = vector . h_i, for the items of each set and its vector. */
static void dot_items(const tile *t, size_t pass, const float *vectors, size_t first, size_t sets,
                      float *numbers) {
    size_t n = t->n, width = t->width;
    for (size_t s = first; s < first + sets; s++)
        t->kernels->score_forward(t->w->unfolded.h[pass] + s * n * width, n, width,
                                  vectors + s * width, 0, numbers + s * n);
}

/* sums_s = sum over items of number_i h_i, [sets][width] */
static void sum_items(const tile *t, size_t pass, const float *numbers, size_t first, size_t sets,
                      float *sums) {
    size_t n = t->n, width = t->width;
    memset(sums + first * width, 0, sets * width * sizeof(float));
    for (size_t s = first; s < first + sets; s++)
        t->kernels->mix_forward(t->w->unfolded.h[pass] + s * n * width, n, width, numbers + s * n,
                                sums + s * width);
}

void tile_unfolded_scores(const tile *t, size_t first, size_t sets) {
    for (size_t pass = PASS_VALUES; pass <= tile_key_pass(t); pass++)
        items_forward(t, pass, first, sets);
    dot_items(t, tile_key_pass(t), t->w->k, first, sets, t->w->score);
}

void tile_unfolded_means(const tile *t, size_t first, size_t sets) {
    sum_items(t, PASS_VALUES, t->w->weight, first, sets, t->w->h_bar);
}

void tile_unfolded_weight_gradients(const tile *t, size_t first, size_t sets) {
    dot_items(t, PASS_VALUES, t->w->unfolded.grad_h_bar, first, sets, t->w->grad_weight);
}

void tile_unfolded_score_gradients(const tile *t, size_t first, size_t sets) {
    sum_items(t, tile_key_pass(t), t->w->grad_weight, first, sets, t->w->unfolded.grad_k);
}
