/*
 * Computes the query's side at a few nodes instead of for every set. A query is
 * one number in [0, 1], and its image under psi_q, W_q, W_k and psi_x's last
 * layer is smooth: gelu(q slope + bias) and then linear. So the polynomial
 * through its values at Chebyshev nodes is the same function to within
 * rounding: with 24 of them to 2e-8 for slopes up to 6 (its gradient to 7e-8),
 * to 1e-11 for those of trained heads. Matrix products are done for 24 queries,
 * and the direction of each set is a weighted sum of theirs.
 */
#ifndef WHET_LAB_RETRIEVAL_NODES_H
#define WHET_LAB_RETRIEVAL_NODES_H

#include <stdbool.h>
#include <stddef.h>

enum { RETRIEVAL_NODES = 24 };

typedef struct retrieval_nodes {
    float at[RETRIEVAL_NODES];      /* queries */
    double weight[RETRIEVAL_NODES]; /* barycentric: 1 over the product of distances to others */
} retrieval_nodes;

retrieval_nodes retrieval_nodes_make(void);

/* Whether no slope is too steep for them. */
bool retrieval_nodes_suffice(const float *slope, size_t width);

/* share[count][RETRIEVAL_NODES]: the weight of each node in the value at each query. */
void retrieval_node_shares(const retrieval_nodes *nodes, const float *query, size_t count,
                           float *share);

#endif
