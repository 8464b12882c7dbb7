/* Tables of rotary positions; see rope.h. */
#include "nn/rope.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static const double two_pi = 6.283185307179586477;

nn_rope_scaling nn_rope_scaling_of(nn_rope_kind kind, double factor, double original) {
    return (nn_rope_scaling){.kind = kind,
                             .factor = factor,
                             .original = original,
                             .attention = 1,
                             .fast = 32,
                             .slow = 1};
}

/* The index of the pair that makes `rotations` rotations within the original context. */
static double pair_of(const nn_rope_scaling *scaling, size_t dims, double base, double rotations) {
    return (double)dims * log(scaling->original / (rotations * two_pi)) / (2 * log(base));
}

/* The share of the unscaled angle in that of pair i. */
static double unscaled_share(const nn_rope_scaling *scaling, size_t dims, double base, size_t i) {
    if (scaling->kind != NN_ROPE_YARN)
        return 0;
    double first = fmax(0, floor(pair_of(scaling, dims, base, scaling->fast)));
    double last = fmin((double)dims - 1, ceil(pair_of(scaling, dims, base, scaling->slow)));
    double along = ((double)i - first) / fmax(0.001, last - first);
    return 1 - fmin(1, fmax(0, along));
}

/* What pair i's angle is multiplied by, and what every query and key is. */
static double angle_factor(const nn_rope_scaling *scaling, size_t dims, double base, size_t i) {
    if (scaling->kind == NN_ROPE_PLAIN)
        return 1;
    double share = unscaled_share(scaling, dims, base, i);
    return share + (1 - share) / scaling->factor;
}

static double length_factor(const nn_rope_scaling *scaling) {
    if (scaling->kind == NN_ROPE_PLAIN)
        return 1;
    return scaling->attention *
           (scaling->kind == NN_ROPE_YARN ? 1 + 0.1 * log(scaling->factor) : 1);
}

/* One pair of every position. */
static void fill_pair(nn_rope *rope, size_t j, double frequency, double length) {
    for (size_t position = 0; position < rope->positions; position++) {
        size_t at = position * rope->dims + j;
        double angle = (double)position * frequency;
        rope->cosine[at] = rope->cosine[at + 1] = (float)(length * cos(angle));
        rope->back[at] = rope->sine[at + 1] = (float)(length * sin(angle));
        rope->back[at + 1] = rope->sine[at] = (float)(-length * sin(angle));
    }
}

bool nn_rope_create(size_t positions, size_t dims, double base, const nn_rope_scaling *scaling,
                    nn_rope *rope) {
    static const nn_rope_scaling none = {.kind = NN_ROPE_PLAIN};
    *rope = (nn_rope){.positions = positions, .dims = dims};
    if (dims == 0)
        return true;
    if (positions > SIZE_MAX / sizeof(float) / dims)
        return false;
    size_t bytes = positions * dims * sizeof(float);
    rope->cosine = malloc(bytes);
    rope->sine = malloc(bytes);
    rope->back = malloc(bytes);
    if (!rope->cosine || !rope->sine || !rope->back) {
        nn_rope_destroy(rope);
        return false;
    }
    const nn_rope_scaling *by = scaling ? scaling : &none;
    for (size_t j = 0; j < dims; j += 2)
        fill_pair(rope, j,
                  pow(base, -(double)j / (double)dims) * angle_factor(by, dims, base, j / 2),
                  length_factor(by));
    return true;
}

void nn_rope_destroy(nn_rope *rope) {
    free(rope->cosine);
    free(rope->sine);
    free(rope->back);
    *rope = (nn_rope){.dims = 0};
}
