/*
 * Shared by the parts of a training tile: its memory (workspace.c), the
 * computation (tile.c), and heads in which less is folded (unfolded.c).
 */
#ifndef WHET_LAB_RETRIEVAL_TILE_H
#define WHET_LAB_RETRIEVAL_TILE_H

#include "retrieval/model.h"
#include "retrieval/nodes.h"

enum { PASS_VALUES, PASS_KEYS, PASS_LEAK, PASSES };
enum { GROUP = 8 };       /* sets processed together */
enum { LEAK_POINTS = 2 }; /* priorities at which the penalty is evaluated */

/* Items through psi_x up to its last, linear layer. */
typedef struct item_pass {
    size_t per_set; /* items */
    const float *priority;
    const uint16_t *class_of;
    float *h[RETRIEVAL_DEPTH_MAX]; /* [items][width] after each hidden layer */
    float *d[RETRIEVAL_DEPTH_MAX]; /* and the slope of gelu there */
    float *grad, *spare;           /* gradients of h, in deeper models */
} item_pass;

/* Only for heads in which items go through all of psi_x. */
typedef struct unfolded_rows {
    float *h[2];   /* [sets][n][width]: psi_x of items by PASS_VALUES and, for keys of their own, by
                      PASS_KEYS */
    float *packed; /* psi_x's last layer, rounded for products */
    float *grad_h_bar, *grad_k; /* [sets][width] */
} unfolded_rows;

struct retrieval_workspace {
    float *floats;
    uint16_t *integers;
    float *multiplied; /* rounded parameters, for models that round */
    bool is_unfolded;
    unfolded_rows unfolded;
    item_pass passes[PASSES];
    uint16_t *no_class;        /* [sets][n], all `classes` */
    uint16_t *any_class;       /* [sets][LEAK_POINTS][classes]: 0 1 2 ... repeated */
    float *leak_priority;      /* [sets][LEAK_POINTS][classes] */
    float *table, *grad_table; /* [classes + 1][width] */
    retrieval_nodes nodes;
    float *share, *node_direction, *node_shift; /* [sets][nodes], [nodes][width], [nodes] */
    /* [sets][width], of which the query's side may use only one a node: */
    float *query_h[RETRIEVAL_DEPTH_MAX], *query_d[RETRIEVAL_DEPTH_MAX], *h_q, *u, *k;
    float *direction;                    /* [sets][width] */
    float *shift, *total;                /* [sets] */
    float *score, *weight, *grad_weight; /* [sets][n] */
    float *leak, *grad_leak;             /* [sets][LEAK_POINTS][classes] */
    float *mean, *h_bar, *v;             /* [sets][width] */
    float *phi_h[RETRIEVAL_DEPTH_MAX], *phi_d[RETRIEVAL_DEPTH_MAX];
    float *logits, *losses;                  /* [sets][classes], [sets] */
    float *grad_a, *grad_b, *grad_direction; /* [sets][width] */
    float *grad_shift, *grad_total;          /* [sets] */
};

/* Sets whose items are processed together: where psi_x has matrix products, one over all items is
 * faster than many small ones. */
static inline size_t retrieval_group_size(size_t depth, size_t sets) {
    return depth > 1 || sets < GROUP ? sets : GROUP;
}

/* A tile in progress. */
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
    float scale;    /* of the losses in the gradient */
    bool has_nodes; /* where the query's side is computed */
} tile;

/* The output of psi_x for the items of a pass, before its last layer. */
static inline const float *tile_features(const tile *t, size_t pass) {
    return t->w->passes[pass].h[t->at->depth - 1];
}

/* The pass that keys are made from. */
static inline size_t tile_key_pass(const tile *t) {
    return t->model->config.key_sees_class ? PASS_VALUES : PASS_KEYS;
}

/*
 * Heads in which items go through all of psi_x: first what is done once, then,
 * for sets `first` to first + sets: from features to scores; from weights to
 * h_bar; from grad_h_bar to the gradients of weights; and from those of scores
 * to grad_k.
 */
void tile_unfolded_prepare(const tile *t);
void tile_unfolded_scores(const tile *t, size_t first, size_t sets);
void tile_unfolded_means(const tile *t, size_t first, size_t sets);
void tile_unfolded_weight_gradients(const tile *t, size_t first, size_t sets);
void tile_unfolded_score_gradients(const tile *t, size_t first, size_t sets);

#endif
