/*
 * The paper's statements on a trained head of max retrieval: both sides
 * measured on random sets, for each size of set.
 *
 * What the model folds for speed (psi_x's last layer) is computed item by item
 * here, since the statements speak of a head's inputs.
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
    double spread;              /* the largest that any of the sets' logits had */
    coefficient_bounds bounds;  /* what it allows */
    double smallest, largest;   /* of all coefficients of all sets */
    double low_room, high_room; /* how far, as a factor, a set's own bounds were from its smallest
                                   and largest coefficient at the nearest: at least 1 */
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

/* The corollary among n items: the head's output with the class of the largest item as it is and
 * with another one, both rounded. */
typedef struct trained_precision {
    double coefficient;             /* of the largest item, mean over sets */
    double sets[PRECISION_FORMATS]; /* share of sets in which any number of the output differs */
    double elements[PRECISION_FORMATS]; /* share of all the outputs' numbers that differ */
} trained_precision;

trained_precision trained_precision_of(trained_probe *probe, size_t n, size_t sets, uint64_t seed);

#endif
