/* Interpolation between Chebyshev's points; see nodes.h. */
#include "retrieval/nodes.h"

#include <math.h>
#include <string.h>

static const float steepest = 6;

retrieval_nodes retrieval_nodes_make(void) {
    retrieval_nodes nodes;
    for (size_t j = 0; j < RETRIEVAL_NODES; j++) {
        double angle = 3.141592653589793 * (double)(2 * j + 1) / (2 * RETRIEVAL_NODES);
        nodes.at[j] = (float)(0.5 - 0.5 * cos(angle));
    }
    /* from the rounded positions, so that rounding them costs no accuracy */
    for (size_t j = 0; j < RETRIEVAL_NODES; j++) {
        double product = 1;
        for (size_t other = 0; other < RETRIEVAL_NODES; other++)
            if (other != j)
                product *= (double)nodes.at[j] - (double)nodes.at[other];
        nodes.weight[j] = 1 / product;
    }
    return nodes;
}

bool retrieval_nodes_suffice(const float *slope, size_t width) {
    bool suffice = true;
    for (size_t j = 0; j < width; j++)
        suffice = suffice && fabsf(slope[j]) <= steepest; /* false for NaN */
    return suffice;
}

static void shares_of(const retrieval_nodes *nodes, float query, float *share) {
    double terms[RETRIEVAL_NODES], sum = 0;
    for (size_t j = 0; j < RETRIEVAL_NODES; j++) {
        double distance = (double)query - (double)nodes->at[j];
        if (distance == 0) { /* at a node: that one alone */
            memset(share, 0, RETRIEVAL_NODES * sizeof *share);
            share[j] = 1;
            return;
        }
        terms[j] = nodes->weight[j] / distance;
        sum += terms[j];
    }
    for (size_t j = 0; j < RETRIEVAL_NODES; j++)
        share[j] = (float)(terms[j] / sum);
}

void retrieval_node_shares(const retrieval_nodes *nodes, const float *query, size_t count,
                           float *share) {
    for (size_t i = 0; i < count; i++)
        shares_of(nodes, query[i], share + i * RETRIEVAL_NODES);
}
