/*
 * A model at work on whole sequences: forward, loss and gradients of one piece
 * of a batch at a time, on one thread. Pieces do not depend on each other, so
 * several threads take one each, with a workspace of their own.
 *
 * Only positions that count ("targets") go through the last MLP and the output
 * matrix; of what backward needs, what is cheap to make again is not kept.
 * Memory is linear in the number of tokens.
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
    nn_rope rope;
    whet_policy *policies; /* [layers][heads], of which policy_count are used in each layer */
    size_t policy_count;
} lm_network;

/* For a config that was checked and weights that outlive it. */
bool lm_network_create(const nn_engine *engine, const lm_config *config, const float *weights,
                       lm_network *network, lab_error *error);
void lm_network_destroy(lm_network *network); /* fine for a zeroed one */

/* After the weights have changed: takes learnt policies from them. False if they make none. */
bool lm_network_refresh(lm_network *network);

/* `rows` sequences, filled up to one `length`; a target is a position whose next token counts. */
typedef struct lm_piece {
    size_t rows, length;
    const lm_token *tokens; /* [rows][length] */
    size_t targets;
    const uint32_t *at;             /* [targets]: row * length + position, rising */
    const lm_token *labels;         /* what comes next there */
    const float *weights;           /* how much it counts */
    const unsigned char *is_answer; /* whether it is part of an answer */
    bool *exact; /* [rows], or NULL: set to whether all of a row's answer was the likeliest */
} lm_piece;

typedef struct lm_outcome {
    double loss, weight;           /* the weighted sum of losses, and the weights' sum */
    double answer_loss;            /* of answers alone, not weighted */
    uint64_t answer_tokens, right; /* tokens of answers, and those that were the likeliest */
    uint64_t sequences, exact;     /* sequences, and those whose answers were all right */
    whet_status status;            /* of attention: WHET_OK, or why the rest is worthless */
} lm_outcome;

typedef struct lm_workspace lm_workspace;

/* For pieces of up to so many tokens, filling included. NULL when memory runs out. */
lm_workspace *lm_workspace_create(const lm_network *network, size_t tokens_max);

/* One that keeps only the input of each layer. Backward computes the rest once more, most of a
 * second forward pass. Results are the same, bit for bit. */
lm_workspace *lm_workspace_create_lean(const lm_network *network, size_t tokens_max);
void lm_workspace_destroy(lm_workspace *workspace);

/* What it will allocate, but for attention's scratch, which adds a fifth to a model of one layer
 * and less to others; SIZE_MAX where that cannot be. */
size_t lm_workspace_estimate(const lm_config *config, size_t tokens_max);

/* What it has allocated. */
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
