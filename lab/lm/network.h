/*
 * Forward pass, loss and gradients of a model on one piece of a batch at a
 * time, on one thread. Pieces are independent, so several threads process one
 * each, with a workspace of their own.
 *
 * Only positions that count ("targets") go through the last MLP and the output
 * matrix; what is cheap to recompute in the backward pass is not kept. Memory
 * is linear in the number of tokens.
 */
#ifndef WHET_LAB_LM_NETWORK_H
#define WHET_LAB_LM_NETWORK_H

#include "lm/tokens.h"
#include "lm/weights.h"
#include "nn/decoder.h"

typedef struct lm_network {
    const nn_engine *engine;
    lm_config config;
    lm_layout layout;
    const float *weights;
    nn_rope rope, window_rope; /* the latter where windowed layers have one of their own */
    whet_policy *policies;     /* [layers][heads], policy_count of them used in each layer */
    size_t policy_count;
    float *slopes;        /* [heads] of ALiBi, or NULL */
    size_t window;        /* tokens that every layer sees at most; 0: as many as its own window */
    const uint16_t *mask; /* f16 [context][context], added to all logits of attention; or NULL */
} lm_network;

/* For a checked config and weights that outlive it. */
bool lm_network_create(const nn_engine *engine, const lm_config *config, const float *weights,
                       lm_network *network, lab_error *error);
void lm_network_destroy(lm_network *network); /* a zeroed one is fine */

/* After the weights have changed: updates learned policies. False if they are invalid. */
bool lm_network_refresh(lm_network *network);

/* `rows` sequences, padded to one `length`; a target is a position whose next token counts. */
typedef struct lm_piece {
    size_t rows, length;
    const lm_token *tokens; /* [rows][length] */
    size_t targets;
    const uint32_t *at;             /* [targets]: row * length + position, ascending */
    const lm_token *labels;         /* the next token there */
    const float *weights;           /* its weight in the loss */
    const unsigned char *is_answer; /* whether it is part of an answer */
    bool *exact;   /* [rows], or NULL: receives whether every token of a row's answer was the most
                      likely */
    float *losses; /* [targets], or NULL: receives each target's loss */
    unsigned char *right; /* [targets], or NULL: receives whether it was the most likely */
} lm_piece;

typedef struct lm_outcome {
    double loss, weight;           /* the weighted sum of losses, and the weights' sum */
    double answer_loss;            /* of answers alone, not weighted */
    uint64_t answer_tokens, right; /* tokens of answers, and those that were the most likely */
    uint64_t sequences, exact;     /* sequences, and those with entirely correct answers */
    whet_status status;            /* of attention: WHET_OK, or why the result is invalid */
} lm_outcome;

typedef struct lm_workspace lm_workspace;

/* For pieces of up to `tokens` tokens, padding included. NULL when memory runs out. */
lm_workspace *lm_workspace_create(const lm_network *network, size_t tokens_max);

/* One that keeps only the input of each layer. Backward computes the rest once more, most of a
 * second forward pass. Results are the same, bit for bit. */
lm_workspace *lm_workspace_create_lean(const lm_network *network, size_t tokens_max);

/* One for forward passes alone: layers share everything. */
lm_workspace *lm_workspace_create_forward(const lm_network *network, size_t tokens_max);
void lm_workspace_destroy(lm_workspace *workspace);

/* Bytes it will allocate, without attention's scratch, which adds a fifth to a model of one layer
 * and less to others; SIZE_MAX on overflow. */
size_t lm_workspace_estimate(const lm_config *config, size_t tokens_max);

/* Bytes it has allocated. */
size_t lm_workspace_bytes(const lm_workspace *workspace);

/* Forward and, unless gradient is NULL, backward: the gradient of the weighted sum of losses is
 * added to gradient [layout.count]. */
lm_outcome lm_network_run(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                          float *gradient);

/* Forward, and backward with frozen weights, whose gradients are neither computed nor stored: only
 * those of the policies' parameters. `policies` is [layers][heads]; the first policy_count of a
 * layer are set. */
lm_outcome lm_network_run_frozen(const lm_network *network, const lm_piece *piece,
                                 lm_workspace *workspace, whet_policy_gradient *policies);

#endif
