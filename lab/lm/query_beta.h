/*
 * Inverse temperatures that a layer computes from its tokens, as ASEntmax does: for query i (from
 * 0) of a head, with two projections b and g of the normalised input,
 *
 *     beta = 1 + softplus(b) ln(i + 2)^(2 tanh g)
 *
 * Heads with a slope among heads without (LM_MIX) have beta = 1.
 */
#ifndef WHET_LAB_LM_QUERY_BETA_H
#define WHET_LAB_LM_QUERY_BETA_H

#include "lm/config.h"

/* The projections as they are multiplied: raw[rows * length][2][heads]. */
typedef struct lm_query_betas {
    const lm_config *config;
    size_t rows, length;
    size_t first; /* position of the first query of every row */
    const float *raw;
} lm_query_betas;

/* betas[rows][heads][length] */
void lm_query_betas_forward(const lm_query_betas *of, float *betas);

/* From grad_betas[rows][heads][length] to grad_raw, of raw's shape. */
void lm_query_betas_backward(const lm_query_betas *of, const float *grad_betas, float *grad_raw);

#endif
