/*
 * Theorem 2.2: every head of a Transformer over a finite vocabulary disperses.
 *
 * A random Transformer (attention and MLP blocks with residuals, no positions)
 * reads n tokens of a small vocabulary, one of which occurs exactly once.
 * Without positions, tokens of one kind stay equal in every layer; so n tokens
 * are computed exactly as a few kinds with their counts, and n can be
 * arbitrarily large.
 */
#ifndef WHET_LAB_THEORY_DISPERSION_H
#define WHET_LAB_THEORY_DISPERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISPERSION_LAYERS_MAX = 8, DISPERSION_HEADS_MAX = 16, DISPERSION_KINDS_MAX = 64 };

typedef struct random_transformer random_transformer;

typedef struct transformer_shape {
    size_t layers, heads, head_dim; /* width is heads times head_dim */
    size_t kinds;                   /* of tokens: the vocabulary */
    double gain;                    /* of the query and key maps: larger is sharper */
    uint64_t seed;
} transformer_shape;

/* One head among n tokens, over all its queries. */
typedef struct head_dispersion {
    double largest;    /* the largest coefficient that any query gives to any one token */
    double spread;     /* the largest difference between two logits of a query */
    double entropy;    /* mean over tokens as queries */
    double low_slack;  /* smallest coefficient over its bound from Lemma 2.1, at least 1 */
    double high_slack; /* bound over largest coefficient, at least 1 */
} head_dispersion;

/* NULL for a shape beyond the limits, or when memory runs out. */
random_transformer *theory_transformer_create(const transformer_shape *shape);
void theory_transformer_destroy(random_transformer *transformer);

/*
 * All heads for n tokens: result[layer * heads + head]. counts (may be NULL)
 * receives the number of tokens of each kind; the first kind is the one that
 * occurs once. False for n below 2, or when memory runs out.
 */
bool theory_transformer_run(const random_transformer *transformer, uint64_t n,
                            head_dispersion *result, uint64_t *counts);

/* The final states of the kinds, [kinds][width], of the last call's n; for tests. */
bool theory_transformer_states(const random_transformer *transformer, uint64_t n, double *result);

/* The weights, for tests that compute the same differently. */
typedef struct layer_weights {
    const float *query, *key, *value, *out; /* [width][width]: y_i = sum_j w[i][j] x_j */
    const float *up, *down;                 /* [2 width][width], [width][2 width] */
} layer_weights;
layer_weights theory_transformer_layer(const random_transformer *transformer, size_t layer);
const float *
theory_transformer_embedding(const random_transformer *transformer); /* [kinds][width] */

#endif
