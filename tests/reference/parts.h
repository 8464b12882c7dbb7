/*
 * What the files of the reference share with each other: numbers.c, row.c,
 * maps.c and row_backward.c for one row, attention.c and backward.c for
 * attention. Tests see reference.h alone.
 */
#ifndef WHET_TESTS_REFERENCE_PARTS_H
#define WHET_TESTS_REFERENCE_PARTS_H

#include "reference/reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

/* Zeros; ends the program without memory. */
void *reference_allocate(size_t count, size_t size);

/* p may be NULL: nothing is done then. */
void reference_fill(double *p, size_t n, double value);

double reference_dot(const double *a, const double *b, size_t n);

/* ---- one row ---- */

/* The largest of the logits and the sink. */
double reference_largest(const double *logits, size_t n, double sink);

/* exp(beta (e - max)), 0 for a masked entry whatever beta is. */
double reference_weight(double logit, double max, double beta);

/* beta is kept to 0 ... 1e30. */
double reference_beta(const double *logits, size_t n, double sink, const whet_policy *policy,
                      whet_stats *stats);

/* ---- maps that are not a temperature ---- */

static inline double sigma(double x) { return 1 / (1 + exp(-x)); }

/* The coefficients p of n entries, some of them masked: `unmasked` are not. */
void reference_map(const whet_policy *policy, const double *logits, size_t n, uint64_t unmasked,
                   double *p);

/* max(0, (a - 1) e - tau)^(1 / (a - 1)) with e shifted by the maximum; tau by bisection. */
void reference_entmax(const double *logits, size_t n, double a, double *p);

/* A sink is one more entry of maps that look at all of them, and nothing to the others. */
bool reference_takes_sink(const whet_policy *policy);

/* ---- the backward pass of one row ---- */

/* How much of the terms of a product in f32 counts as its size at least: about 1e-7, where
 * gradients are to be right to 1e-5. */
#define PRODUCT_NOISE (1.0 / 64)

/* How large the parts are at least that a logit is summed from: product, distance, bias, mask. */
#define LOGIT_PARTS 4.0

/* d beta / d each parameter of its policy. */
whet_policy_gradient reference_parameter_derivatives(const double *logits, size_t n, double sink,
                                                     const whet_policy *policy,
                                                     const whet_stats *stats);

/* d beta / d e_j for every entry and, last, the sink, and their sizes: entropies move by
 * -beta^2 w (e - mean). */
void reference_beta_gradient(const double *logits, size_t n, double sink, const whet_policy *policy,
                             const whet_stats *stats, double *result, double *sizes);

/* Gradients of a row's beta, with the size of its terms, and of its map's parameter. */
typedef struct reference_row_grads {
    double beta, beta_size, map_value;
} reference_row_grads;

/*
 * From the gradients g of the coefficients of a policy with a map other than softmax to those of
 * the logits and, last, the sink, through beta as well: with u the gradient of beta e,
 *
 *     dL / d e_j = beta u_j + (sum of u e) d beta / d e_j
 *
 * The sink is in sum of u e where the map takes it, and moves beta in any case. The largest beta u
 * gives all sizes of that part, and no less than what rounding does to a g of `terms`. stats are
 * the row's. g has one entry more, for the sink. The gradient of the result's entropy joins those
 * of the coefficients: g - entropy_after_grad (ln p + 1).
 */
reference_row_grads reference_map_back(const double *row, size_t n, double sink,
                                       const whet_policy *policy, const whet_stats *stats,
                                       double terms, double entropy_after_grad, double *g,
                                       double *result, double *sizes);

/* ---- attention ---- */

/* The description with its defaults filled in. */
whet_attention reference_with_defaults(const whet_attention *given);

whet_policy reference_policy(const whet_attention *a, size_t head);

/* All positions of one head: [position][dim]. */
double *reference_load_head(const whet_tensor *tensor, const size_t extent[4], size_t batch,
                            size_t head);

/* e_j = softcap(scale q . k_j) - slope |i + offset - j| + bias_j + mask_ij, or -inf. */
double reference_logit(const whet_attention *a, size_t batch, size_t head, size_t query, size_t key,
                       const double *q, const double *k);

#endif
