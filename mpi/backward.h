/*
 * The backward pass of attention whose queries are spread over ranks like the keys (spread.h).
 *
 * In a first round keys and values travel, and every block gives the sums that its rows' gradients
 * are made of (attention/backward_part.h); they merge in the order of the tree. In a second round
 * the blocks compute gradients from the sums of whole rows: those of queries stay and merge like
 * the sums, those of keys, values and biases go back to their owners (returns.h). Logits, and the
 * gradients of weights, are computed in both rounds.
 */
#ifndef WHET_MPI_BACKWARD_H
#define WHET_MPI_BACKWARD_H

#include "attention/backward_part.h"
#include "returns.h"
#include "totals.h"

typedef struct backward_plan {
    spread s;
    whet_gradients g;     /* as described, with the attention of s */
    whet_mpi_share share; /* of keys */
    size_t parameters;    /* doubles: those of policies, of sinks, of slopes */
    backward_sums *rows;  /* what rows come to, [batch][head][local query] */
    float *betas;         /* gradients of betas, likewise */
    returns r;
    totals totals;
    /* one block: what it gets of its rows, [batch][head][query], */
    backward_sums *block_rows;
    whet_stats *block_stats;
    int64_t *block_positions;
    float *block_given_betas;
    /* and its gradients */
    float *block_q, *block_k, *block_v, *block_bias, *block_betas;
    float *block_sinks, *block_slopes;
    whet_policy_gradient *block_policies;
} backward_plan;

#endif
