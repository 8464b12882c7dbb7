/*
 * The loops of the layers that are not matrix products, one table of functions
 * for each instruction set (kernels.inc is their template). Shapes: items are
 * rows of `width` floats of any width.
 */
#ifndef WHET_LAB_KERNELS_H
#define WHET_LAB_KERNELS_H

#include "nn/product.h"

#include <stddef.h>
#include <stdint.h>

/* The parameters of one Adam update. */
typedef struct nn_adam {
    float rate;          /* learning rate, with the correction of the first moment */
    float correction;    /* 1 / (1 - beta2^step) */
    float beta1, beta2;  /* 0.9, 0.999 */
    float epsilon;       /* 1e-8 */
    float gradient_loss; /* L2 in the loss: this times w is added to the gradient */
    float decay;         /* decoupled L2: w loses this times w */
} nn_adam;

/* The activation of a gated MLP. */
typedef enum nn_gate { NN_SILU, NN_GELU } nn_gate;

/* The sum of two outer products: row i is first_i x + second_i y. */
typedef struct nn_pair {
    const float *first, *x;
    const float *second, *y; /* may be NULL: only the first */
} nn_pair;

/* Products no larger than this in any dimension are small: a BLAS spends too much time on setup for
 * them. */
enum { NN_SMALL_MAX = 256 };

typedef struct nn_kernels {
    /* A small product. */
    void (*multiply)(nn_product shape, const float *a, const float *b, float *c);

    /* Products of any size with one matrix b, which was packed into panels before:
     * nn_packed_floats. `shape` has no ta. */
    size_t panel;
    void (*pack)(nn_product shape, const float *b, float *packed);
    void (*multiply_packed)(nn_product shape, const float *a, const float *packed, float *c);

    /*
     * The first layer of items: x = [priority, onehot(class)].
     *   z_i = priority_i slope + table[class_i];  h_i = gelu(z_i);  d_i = gelu'(z_i)
     * h, d [items][width], d may be NULL; slope [width]; table [classes][width], bias included.
     */
    void (*item_forward)(const float *priority, const uint16_t *class_of, size_t items,
                         size_t width, const float *slope, const float *table, float *h, float *d);

    /* Its gradients, added to: slope [width] and table [classes][width], from that of h. */
    void (*item_backward)(const float *priority, const uint16_t *class_of, size_t items,
                          size_t width, const float *grad_h, const float *d, float *grad_slope,
                          float *grad_table);

    /* h = gelu(z + bias), d = gelu'(z + bias), [rows][width]; h may be z; d may be NULL. */
    void (*gelu_forward)(const float *z, const float *bias, size_t rows, size_t width, float *h,
                         float *d);

    /* grad *= d, elementwise: backpropagates through gelu. */
    void (*gelu_backward)(float *grad, const float *d, size_t count);

    /* z += bias for every row, and the bias's gradient: grad_bias += sum over rows. */
    void (*bias_forward)(float *z, const float *bias, size_t rows, size_t width);
    void (*bias_backward)(const float *grad, size_t rows, size_t width, float *grad_bias);

    /* x *= factor */
    void (*scale)(float *x, float factor, size_t count);

    /* To the nearest bfloat16, as nn_round_to_bf16. */
    void (*round_to_bf16)(float *x, size_t count);

    /* y_r += coefficient_r x, for rows of y. */
    void (*outer_add)(const float *coefficient, const float *x, size_t rows, size_t width,
                      float *y);

    /* score_i = direction . h_i + shift, for the items of one set. The gradient of direction is
     * mix_forward with the gradients of scores as weights. */
    void (*score_forward)(const float *h, size_t items, size_t width, const float *direction,
                          float shift, float *score);

    /* mean += sum of weight_i h_i. The gradient of weights is score_forward with the gradient of
     * the mean as direction. */
    void (*mix_forward)(const float *h, size_t items, size_t width, const float *weight,
                        float *mean);

    /* Both gradients of one set with respect to its items, grad_h_i = first_i x + second_i y (set);
     * and the same fused with the first layer of items, without storing grad_h. */
    void (*pair_backward)(const nn_pair *pair, size_t items, size_t width, float *grad_h);
    void (*item_pair_backward)(const nn_pair *pair, const float *priority, const uint16_t *class_of,
                               size_t items, size_t width, const float *d, float *grad_slope,
                               float *grad_table);

    /* Adds `parts` gradients, each `stride` floats after the last, in order, and updates count
     * weights with their moments. */
    void (*adam)(const nn_adam *adam, const float *gradient, size_t parts, size_t stride,
                 size_t count, float *weight, float *first, float *second);

    /* The loops of a decoder, see nn/decoder.h. */

    /* scale_r = 1 / sqrt(mean of x_r^2 + epsilon);  y_r = scale_r x_r gain, elementwise. */
    void (*rmsnorm_forward)(const float *x, const float *gain, size_t rows, size_t width,
                            float epsilon, float *y, float *scale);
    /* Its gradients, added to: grad_x [rows][width] and grad_gain [width]. */
    void (*rmsnorm_backward)(const float *x, const float *gain, const float *scale,
                             const float *grad_y, size_t rows, size_t width, float *grad_x,
                             float *grad_gain);

    /* Rotates pairs: x_j = x_j cosine_j + x_(j^1) sine_j for j < dims, which is even; contiguous
     * heads of `head_dim` floats, all by the same angles. */
    void (*rotate)(float *x, size_t heads, size_t head_dim, size_t dims, const float *cosine,
                   const float *sine);

    /* z [rows][2 hidden] holds gate and up projections: h = curve(gate) up. */
    void (*gated_forward)(nn_gate gate, const float *z, size_t rows, size_t hidden, float *h);
    /* From the gradient in h: overwrites z with its gradient and restores h. */
    void (*gated_backward)(nn_gate gate, float *z, size_t rows, size_t hidden, float *h);

    /*
     * Cross-entropy of softmax(logits_r) with label_r, in place: logits become weight_r (softmax -
     * onehot). losses_r is not weighted; right_r is whether the label had the largest logit.
     */
    void (*cross_entropy)(float *logits, const uint32_t *labels, const float *weights, size_t rows,
                          size_t classes, float *losses, unsigned char *right);

    /* y += x */
    void (*add)(float *y, const float *x, size_t count);
} nn_kernels;

/* Floats that pack() writes for a matrix of k rows and n columns. */
static inline size_t nn_packed_floats(const nn_kernels *kernels, size_t k, size_t n) {
    return (n + kernels->panel - 1) / kernels->panel * kernels->panel * k;
}

/* Those for the instruction set that libwhet uses. */
const nn_kernels *nn_kernels_for_this_machine(void);

extern const nn_kernels nn_kernels_plain;

#endif
