/*
 * What the library should compute, written down once more in the plainest way:
 * in double, one number after the other, from the definitions in whet.h and
 * nothing else. No blocks, no streaming, no running maxima, nothing of src/.
 * The tests compare every instruction set, type, mask and policy with this.
 */
#ifndef WHET_TESTS_REFERENCE_H
#define WHET_TESTS_REFERENCE_H

#include "whet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- numbers ---- */

/* Half precision and bfloat16, by arithmetic instead of bits; NaN becomes some NaN. */
double reference_from_f16(uint16_t bits);
double reference_from_bf16(uint16_t bits);
/* Rounded to the nearest, ties to even. */
uint16_t reference_to_f16(float x);
uint16_t reference_to_bf16(float x);

/* Whether the narrow number at `at` is x rounded. Where WHET_TEST_F16_TIES_AWAY is set, for an
 * emulator that rounds ties to f16 away from zero, a tie may go either way. */
bool reference_is_rounded(const void *at, whet_type type, float x);

/* Bytes of an element of f32, f16 or bf16, and the one that lies somewhere. */
size_t reference_size(whet_type type);
double reference_load(const void *at, whet_type type);

/* The last type of keys and values that has the next number after the one before it. */
#define REFERENCE_LAST_TYPE WHET_IQ4_NL

/* Whether elements of a type are in blocks of 32. */
bool reference_is_quantised(whet_type type);

/* Bytes of a row of n elements in any type of keys and values but a caller's own, and one of its
 * elements: of quantised types, the scale of its block times the integer, plus the minimum. */
size_t reference_row_size(whet_type type, size_t n);
double reference_load_from_row(const void *row, whet_type type, size_t i);

/* ---- one row ---- */

/*
 * The result p of a policy on n logits (NULL: only the statistics), and all of
 * the row's statistics. A sink is one more logit that has no place in p and is
 * not counted; -INFINITY for none.
 */
void reference_row(const double *logits, size_t n, double sink, const whet_policy *policy,
                   double *p, whet_stats *stats);

/* The same at a beta that was given, in place of the policy's own. Where nothing is unmasked, it
 * is not looked at. */
void reference_row_at_beta(const double *logits, size_t n, double sink, double beta,
                           const whet_policy *policy, double *p, whet_stats *stats);

/* Whether the coefficients of a policy's map sum to one, so that its result has an entropy. */
bool reference_sums_to_one(const whet_policy *policy);

/* softmax(beta e), for comparisons at a beta that was reported. */
void reference_probabilities(const double *logits, size_t n, double sink, double beta, double *p);

/* The entropy of softmax(beta e). */
double reference_entropy(const double *logits, size_t n, double sink, double beta);

/*
 * A loss that depends on one row in every way there is: by its result and by its
 * statistics. Its derivatives are differences: no formula of src/ is repeated.
 */
typedef struct reference_loss {
    double *logits;
    size_t n;
    double sink; /* -INFINITY for none */
    bool has_beta;
    double beta; /* in place of the policy's own, with has_beta */
    whet_policy policy;
    const double *result_grad; /* dL / d p, NULL for zeros; masked entries are not looked at */
    double logsumexp_grad, entropy_grad, entropy_after_grad;
} reference_loss;

double reference_loss_of(const reference_loss *loss);

/* Its derivative along *number, which is a part of *loss or one of its logits; NaN where there is a
 * kink nearby. Steps of about 1e-4 suit numbers of about 1. */
double reference_derivative(const reference_loss *loss, double *number, double step);

/* Its derivative by beta, the logits held still, whether beta is given or the policy's. */
double reference_beta_derivative(const reference_loss *loss, double step);

/* ---- attention ---- */

/*
 * Everything a description asks for. out is [batch][head][query][value_dim],
 * stats [batch][head][query], whatever the strides of the description's own; so is mass, unless it
 * is NULL: what the coefficients of each row sum to.
 * Returns the first row that is not finite, UINT64_MAX for none.
 */
uint64_t reference_attention(const whet_attention *attention, double *out, whet_stats *stats,
                             double *mass);

/* The logit of one key in a row, counted as in [batch][head][query]. */
double reference_attention_logit(const whet_attention *attention, uint64_t row, size_t key);

/* The largest logit of each query head, -inf for none; NaN where a logit that is not masked is. */
void reference_max_logits(const whet_attention *attention, double *result);

/*
 * The gradients of a loss whose gradients with respect to the output and to statistics are given,
 * contiguous whatever the strides of the description: q is [batch][head][query][head_dim], k and v
 * [batch][kv_head][key][dim], slopes and sinks [head], bias [batch][head][key], betas
 * [batch][head][query], policies one for each given. k, v and bias get NaN from rows that are not
 * finite, and so do such a row of q and its beta; parameters leave them out.
 */
typedef struct reference_sums {
    double *q, *k, *v;
    double *alibi_slopes, *sinks;
    double *bias, *betas;
    whet_policy_gradient *policies;
} reference_sums;

/*
 * The sizes say how large the terms are that each sum is made of, since they may cancel; errors
 * are to be seen relative to them. A logit's own gradient beta p (g - D) counts as beta p (1 - p)
 * times the range of the row's g: no more than what is there to be seen of it, neither in a row
 * so sharp that D is next to g nor where all g have much in common (but no less than what f32
 * sees of dL/dout . (v_j - v_top), v_top being the value with the largest weight). Where beta times
 * a logit is beyond `sharp`, terms count for more in proportion.
 */
typedef struct reference_gradients {
    reference_sums of, sizes;
} reference_gradients;

/* Allocates all of it, for the caller to free by reference_gradients_free. */
reference_gradients reference_backward(const whet_gradients *given, double sharp);
void reference_gradients_free(reference_gradients *gradients);

/* The loss itself: what is given times the output and statistics. For differences. */
double reference_attention_loss(const whet_gradients *given);

#endif
