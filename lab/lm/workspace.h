/* What the forward pass keeps for the backward pass, and scratch for both. Shapes with N = rows *
 * length tokens, of which R are targets. */
#ifndef WHET_LAB_LM_WORKSPACE_H
#define WHET_LAB_LM_WORKSPACE_H

#include "lm/network.h"
#include "lm/query_beta.h"

/* Targets whose logits are in memory at once: vocabularies may be large. */
enum { LM_LOGIT_ROWS = 256 };

typedef struct lm_kept {
    float *x;       /* [N][width], the layer's input */
    float *qkv;     /* [N][heads + 2 key_heads][head_dim], rotated */
    float *raw_qkv; /* the same before the norms of heads; the norms' scales are
                       [N][heads + key_heads]. Empty where a model has none */
    float *head_scale;
    float *mixed;      /* [N][heads][head_dim] out of attention */
    whet_stats *stats; /* [rows][heads][length] */
    float *middle;     /* [N][width], or [R][width] in the last layer */
    float *z;          /* [N or R][2 hidden] */
    float *attended;   /* [N][width] out of attention and, [N or R][width], of the MLP before */
    float *thought;    /* their norms; empty where a model has none */
    float *raw_betas;  /* [N][2][heads], and betas of queries, [rows][heads][length]; likewise */
    float *betas;
} lm_kept;

/* What is kept of every layer. */
typedef enum lm_activations {
    LM_KEEPS_ALL,
    LM_KEEPS_INPUTS, /* layers share all of lm_kept but x, and backward makes it again */
    LM_KEEPS_NOTHING /* layers share x, too, and there is no backward pass */
} lm_activations;

struct lm_workspace {
    size_t layers, bytes;
    bool is_counted; /* nothing is allocated: only bytes are of interest */
    lm_activations activations;
    lm_kept *kept;           /* [layers] */
    float *last;             /* [R][width] out of the last layer */
    float *normed;           /* [N][width] */
    float *scale;            /* [N] of rmsnorm */
    float *hidden;           /* [N][hidden] */
    float *logits;           /* [LM_LOGIT_ROWS][vocabulary] */
    float *capped;           /* the same, kept for the slope of the cap; empty without one */
    float *losses;           /* [LM_LOGIT_ROWS] */
    unsigned char *right;    /* [N] */
    float *grad;             /* [N][width] of the stream between layers */
    float *grad_targets;     /* [R][width] */
    float *grad_gain;        /* [lm_gain_size], where those of weights are not wanted */
    float *grad_normed;      /* [N][width] */
    float *grad_mixed;       /* [N][heads][head_dim] */
    float *grad_qkv, *parts; /* [N][heads + 2 key_heads][head_dim] */
    whet_policy_gradient *grad_policies; /* [heads] */
    float *grad_sinks;                   /* [heads] */
    float *grad_betas, *grad_raw_betas;  /* as in lm_kept */
    nn_scratch scratch;
};

/* Sizes used throughout a pass. */
typedef struct lm_sizes {
    size_t tokens, targets, width, queries, joint, hidden;
} lm_sizes;

lm_sizes lm_sizes_of(const lm_config *config, const lm_piece *piece);

/* The longest gain of a norm. */
static inline size_t lm_gain_size(const lm_config *config) {
    return config->width > config->head_dim ? config->width : config->head_dim;
}

/* By which angles a layer rotates. */
const nn_rope *lm_rope_of(const lm_network *network, size_t layer);

/* The norms of heads of a layer, of queries and, one head after them, of keys. */
nn_head_norm lm_head_norm_of(const lm_network *network, const lm_sizes *sizes, size_t layer,
                             bool is_key);

/* The betas of queries of a layer. */
lm_query_betas lm_query_betas_of(const lm_network *network, const lm_piece *piece,
                                 const lm_workspace *workspace, size_t layer);

/* The attention of a layer, described for both passes. */
nn_attention lm_attention_of(const lm_network *network, const lm_piece *piece,
                             const lm_workspace *workspace, size_t layer);

/* Tokens that go through the MLP of a layer. */
static inline size_t lm_mlp_rows(const lm_config *config, const lm_sizes *sizes, size_t layer) {
    return layer + 1 == config->layers ? sizes->targets : sizes->tokens;
}

/* The two passes. Gradients of logits are propagated to `last` while the losses are computed, so
 * that logits need not be kept. */
whet_status lm_forward(const lm_network *network, const lm_piece *piece, lm_workspace *workspace);
whet_status lm_backward(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                        float *gradient, whet_policy_gradient *policies);

/* What forward keeps of a layer but the last, once more from its x. */
whet_status lm_layer_again(const lm_network *network, const lm_piece *piece,
                           lm_workspace *workspace, size_t layer);

/* Losses of the targets; with a gradient also those of the output matrix and of `last`, which goes
 * to grad_targets. */
void lm_losses(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
               bool is_frozen, float *gradient, lm_outcome *outcome);

#endif
