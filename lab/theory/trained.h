/*
 * The paper's statements on a trained max-retrieval head: both sides measured
 * on random sets, for each size of set.
 *
 * What the model folds for speed (psi_x's last layer) is computed item by item
 * here, since the statements are about a head's inputs.
 */
#ifndef WHET_LAB_THEORY_TRAINED_H
#define WHET_LAB_THEORY_TRAINED_H

#include "retrieval/head.h"
#include "theory/bounds.h"
#include "theory/precision.h"

/* Memory for sets of up to n items; NULL and an error when it runs out. The head must outlive it.
 */
typedef struct trained_probe trained_probe;
trained_probe *trained_probe_create(const nn_engine *engine, const retrieval_head *head, size_t n,
                                    lab_error *error);
void trained_probe_destroy(trained_probe *probe);

/* Lemma 2.1 among n items, under softmax. */
typedef struct trained_coefficients {
    double spread;                /* the largest over all sets */
    coefficient_bounds bounds;    /* the bounds it implies */
    double smallest, largest;     /* of all coefficients of all sets */
    double low_slack, high_slack; /* smallest ratio between a set's own bounds and its smallest
                                   *                                    and largest coefficient at
                                   * the nearest: at least 1 */
} trained_coefficients;

trained_coefficients trained_coefficients_of(trained_probe *probe, size_t n, size_t sets,
                                             uint64_t seed);

/* Proposition 3.1 among n items: means over sets, and the set that came closest. */
typedef struct trained_spread {
    double sigma_q, sigma_k; /* largest singular values of the query and key maps */
    double query_norm;       /* of psi_q(q) */
    double key_norm;         /* the largest of psi_x(x) in a set */
    double spread, bound;    /* of the logits */
    double tightest;         /* bound over spread, the smallest of all sets: at least 1 */
} trained_spread;

trained_spread trained_spread_of(trained_probe *probe, size_t n, size_t sets, uint64_t seed);

/* The corollary among n items: the head's output with the true class of the largest item and with
 * another one, both rounded. */
typedef struct trained_precision {
    double coefficient;             /* of the largest item, mean over sets */
    double sets[PRECISION_FORMATS]; /* share of sets in which any number of the output differs */
    double elements[PRECISION_FORMATS]; /* share of all output elements that differ */
} trained_precision;

trained_precision trained_precision_of(trained_probe *probe, size_t n, size_t sets, uint64_t seed);

#endif
