/*
 * Rotary positions: pair i of the first `dims` elements of a head is rotated by
 *
 *     angle_i = position * base^(-2 i / dims)
 *
 * A scaling stretches positions to contexts longer than a model was trained on:
 *
 *     linear   angle_i / factor
 *     YaRN     a mixture m angle_i + (1 - m) angle_i / factor. m falls from 1 to 0 along the pairs,
 *              from the one that makes `fast` rotations within the original context to the one that
 *              makes `slow`. Queries and keys are multiplied by 1 + 0.1 ln(factor), which sharpens
 *              attention by the square of that.
 *
 * as in llama.cpp. NTK-aware scaling is a larger base and needs nothing here.
 */
#ifndef WHET_LAB_NN_ROPE_H
#define WHET_LAB_NN_ROPE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum nn_rope_kind { NN_ROPE_PLAIN, NN_ROPE_LINEAR, NN_ROPE_YARN } nn_rope_kind;

/* All zero: no scaling, and nothing but `kind` is looked at. */
typedef struct nn_rope_scaling {
    nn_rope_kind kind;
    double factor;     /* by which contexts may be longer */
    double original;   /* tokens of the context the model was trained on */
    double attention;  /* one more factor of queries and keys; 1 in nearly all models */
    double fast, slow; /* YaRN: rotations within `original` between which m falls */
} nn_rope_scaling;

/* With YaRN's usual 32 and 1 rotations and no further factor. */
nn_rope_scaling nn_rope_scaling_of(nn_rope_kind kind, double factor, double original);

/* The tables hold, for each position, a factor for every element and one for its partner;
 * `back` is for backward, which rotates the other way. */
typedef struct nn_rope {
    size_t positions, dims; /* dims 0: nothing is rotated */
    float *cosine, *sine, *back;
} nn_rope;

/* `scaling` may be NULL. False when memory runs out. */
bool nn_rope_create(size_t positions, size_t dims, double base, const nn_rope_scaling *scaling,
                    nn_rope *rope);
void nn_rope_destroy(nn_rope *rope); /* fine for a zeroed one */

#endif
