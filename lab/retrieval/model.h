/*
 * The model: psi_x on items, psi_q on the query, one head, phi on its output.
 *
 *     h_i = psi_x(x_i)   u = W_q psi_q(q)   e_i = scale u . (W_k h_i) / sqrt(width)
 *     a = policy(e)      y = phi(sum a_i W_v h_i)
 *
 * psi_x ends in a linear layer, h_i = W_l t_i + b_l, which need not be applied to items: e_i =
 * (W_l^T W_k^T u) . t_i + const, and the head's output is W_v (W_l sum a_i t_i + b_l sum a_i). So
 * items cost a dot product and a weighted sum, and matrix products with W_q, W_k, W_l, W_v are
 * needed once a set.
 *
 * With the precision bf16-products the operands of matrix products are rounded to bfloat16, as a
 * TPU does by default: weights (not biases), priorities, t, h, the head's output, hidden layers.
 * Sums and everything else stay in f32, and so do products with a vector (query times slope, u .
 * W_k h_i, the sum of a_i W_v h_i), which XLA turns into multiplications and sums. Then W_l cannot
 * be folded: h is rounded, item by item. Gradients ignore the rounding and are not rounded
 * themselves; so the backward pass is folded as before.
 *
 * Work is divided into tiles of sets, each with a gradient of its own, which are added in order:
 * the result is the same bit for bit for any number of threads.
 */
#ifndef WHET_LAB_RETRIEVAL_MODEL_H
#define WHET_LAB_RETRIEVAL_MODEL_H

#include "nn/layers.h"
#include "retrieval/config.h"

/* A dense layer among the parameters: offsets into one array of floats. */
typedef struct retrieval_layer {
    size_t weight; /* [in][out] */
    size_t bias;   /* [out] */
} retrieval_layer;

/* Where each parameter lies. Matrices begin at multiples of 16 floats; gaps stay zero. */
typedef struct retrieval_layout {
    size_t depth, width, classes;
    size_t item_slope;  /* [width]: the slope of psi_x's first layer in the priority */
    size_t item_class;  /* [classes][width] */
    size_t item_bias;   /* [width] */
    size_t query_slope; /* [width] */
    size_t query_bias;  /* [width] */
    /* hidden layers 1 ... depth - 1 and the last, linear one */
    retrieval_layer item[RETRIEVAL_DEPTH_MAX], query[RETRIEVAL_DEPTH_MAX];
    size_t w_q, w_k, w_v; /* [width][width] */
    retrieval_layer
        phi[RETRIEVAL_DEPTH_MAX + 1]; /* hidden 0 ... depth - 1, then [width][classes] */
    size_t scale;                     /* one number */
    size_t count;                     /* floats in all */
} retrieval_layout;

retrieval_layout retrieval_layout_of(const retrieval_config *config);

/* Weights truncated normal with deviation sqrt(1 / fan_in), biases 0. */
void retrieval_initialise(const retrieval_config *config, uint64_t seed, float *parameters);

/* Sets in a tile. Where W_l is not folded, a step is long enough for two threads. */
size_t retrieval_tile_sets(const retrieval_config *config);

/* Sets of one size, as the model sees them. */
typedef struct retrieval_batch {
    size_t sets, n;
    const float *priority;    /* [sets][n] */
    const uint16_t *class_of; /* [sets][n] */
    const float *query;       /* [sets] */
    const uint16_t *label;    /* [sets] */
} retrieval_batch;

/* Memory for one tile of up to `sets` sets of up to `n` items. */
typedef struct retrieval_workspace retrieval_workspace;
retrieval_workspace *retrieval_workspace_create(const retrieval_config *config, size_t sets,
                                                size_t n);
void retrieval_workspace_destroy(retrieval_workspace *workspace);

/* Where W_l is not folded, whatever the precision; not for models with a penalty on leaks. */
retrieval_workspace *retrieval_workspace_create_unfolded(const retrieval_config *config,
                                                         size_t sets, size_t n);

typedef struct retrieval_model {
    const nn_engine *engine;
    retrieval_config config;
    retrieval_layout layout;
    whet_policy policy;
    const float *parameters;
    bool rounds; /* what it multiplies: retrieval_as_multiplied */
} retrieval_model;

/* A model of precision bf16-products with rounded weights, stored in the caller's array
 * [layout.count]; models of other precisions are returned unchanged. */
retrieval_model retrieval_as_multiplied(const retrieval_model *model, float *place);

/* Rounds operands of products, if the model does. */
static inline void retrieval_round(const retrieval_model *model, float *x, size_t count) {
    if (model->rounds)
        model->engine->kernels->round_to_bf16(x, count);
}

/* The result of a tile. */
typedef struct retrieval_outcome {
    double loss; /* summed over its sets, penalty included */
    size_t correct;
    bool is_finite;
} retrieval_outcome;

/*
 * Forward and backward of one tile: the gradient of (sum of losses) * scale is
 * written to gradient [layout.count] (NULL: forward only), the class logits to
 * logits [sets][classes] (may be NULL).
 */
retrieval_outcome retrieval_tile(const retrieval_model *model, const retrieval_batch *batch,
                                 float scale, retrieval_workspace *workspace, float *gradient,
                                 float *logits);

/* psi_q of `sets` queries, [sets][width]: a part of scratch, which is [2][sets][width]. */
float *retrieval_query_features(const retrieval_model *model, const float *query, size_t sets,
                                float *scratch);

/* k of `sets` queries, likewise, such that e_i = k . h_i. */
float *retrieval_query_keys(const retrieval_model *model, const float *query, size_t sets,
                            float *scratch);

/*
 * The pieces, for evaluation, which streams over items. Of `sets` queries:
 * direction[sets][width] and shift[sets] such that e_i = direction . t_i + shift.
 * Scratch is [2][sets][width].
 */
void retrieval_directions(const retrieval_model *model, const float *query, size_t sets,
                          float *scratch, float *direction, float *shift);

/* t of items, [items][width]; as keys where `as_key` (which matters where keys do not see the
 * class). table is [classes + 1][width] from retrieval_class_table. Scratch [items][width], for
 * deeper models only. */
void retrieval_class_table(const retrieval_model *model, float *table);
void retrieval_item_features(const retrieval_model *model, const float *table,
                             const float *priority, const uint16_t *class_of, size_t items,
                             bool as_key, float *scratch, float *t);

/* From t of items to h, both [items][width]. */
void retrieval_item_states(const retrieval_model *model, const float *t, size_t items, float *h);

/* Class logits [rows][classes] from sums of weighted h, h_bar [rows][width]. v and the other array
 * are scratch of that size; the latter may be h_bar. */
void retrieval_answer_from_states(const retrieval_model *model, const float *h_bar, size_t rows,
                                  float *v, float *scratch, float *logits);

/* Class logits [rows][classes] from sums of weighted t, mean [rows][width], and of weights, total
 * [rows]. Scratch is [2][rows][width]. */
void retrieval_answer(const retrieval_model *model, const float *mean, const float *total,
                      size_t rows, float *scratch, float *logits);

#endif
