/*
 * The loops of the layers against plain arithmetic in double, over awkward
 * widths, for each instruction set.
 */
#include "support/check.h"
#include "support/isa.h"

#include "base/random.h"
#include "nn/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 1 << 17 };

static float a[CAPACITY], b[CAPACITY], c[CAPACITY], d[CAPACITY];

static void fill(float *values, size_t count, uint64_t seed) {
    lab_random random = lab_random_start(seed);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)lab_random_normal(&random);
}

static double exact_gelu(double z) {
    return 0.5 * z * (1 + tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
}

static double exact_slope(double z) {
    double t = tanh(0.7978845608028654 * (z + 0.044715 * z * z * z));
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * z * z);
}

TEST(gelu_and_its_slope_are_right_everywhere) {
    const nn_kernels *kernels = nn_kernels_for_this_machine();
    size_t count = 0;
    for (; count <= 8000; count++)
        a[count] = -40 + 0.01F * (float)count;
    a[count++] = 1e30f;
    a[count++] = -1e4f;
    memset(b, 0, sizeof b);
    kernels->gelu_forward(a, b, 1, count, c, d);
    for (size_t i = 0; i < count; i++) {
        double value = exact_gelu(a[i]), slope = exact_slope(a[i]);
        CHECK_MSG(fabs(c[i] - value) <= 1e-6 * fabs(value) + 3e-7, "gelu(%g) = %g, not %g",
                  (double)a[i], (double)c[i], value);
        if (fabs((double)a[i]) < 1e3)
            CHECK_MSG(fabs(d[i] - slope) <= 2e-6, "gelu'(%g) = %g, not %g", (double)a[i],
                      (double)d[i], slope);
    }
}

TEST(rounding_to_bfloat16_is_the_same_in_vectors_and_stops_where_it_should) {
    static const size_t counts[] = {1, 2, 15, 16, 17, 31, 33, 127, 1000, 4097};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        size_t count = counts[k];
        fill(a, count + 1, 40 + k);
        a[0] = 1.00390625F; /* halfway between two, of which the even one is 1 */
        memcpy(b, a, (count + 1) * sizeof *a);
        nn_kernels_for_this_machine()->round_to_bf16(a, count);
        CHECK(a[0] == 1);
        for (size_t i = 0; i < count; i++)
            CHECK_MSG(a[i] == nn_round_to_bf16(b[i]), "%g became %g", (double)b[i], (double)a[i]);
        CHECK(a[count] == b[count]);
    }
}

static void check_product(nn_product shape) {
    fill(a, shape.m * shape.k, 1);
    fill(b, shape.k * shape.n, 2);
    fill(c, shape.m * shape.n + 1, 3);
    memcpy(d, c, sizeof d);
    nn_kernels_for_this_machine()->multiply(shape, a, b, c);
    for (size_t i = 0; i < shape.m; i++)
        for (size_t j = 0; j < shape.n; j++) {
            double sum = shape.add ? d[i * shape.n + j] : 0;
            for (size_t p = 0; p < shape.k; p++)
                sum += (double)a[shape.ta ? p * shape.m + i : i * shape.k + p] *
                       (double)b[shape.tb ? j * shape.k + p : p * shape.n + j];
            if (!CHECK_MSG(fabs(c[i * shape.n + j] - sum) < 2e-4, "%zu x %zu x %zu, at %zu, %zu",
                           shape.m, shape.n, shape.k, i, j))
                return;
        }
    CHECK(c[shape.m * shape.n] == d[shape.m * shape.n]); /* and nothing beyond */
}

TEST(small_products_of_any_shape_are_right) {
    const size_t sizes[] = {1, 2, 7, 15, 16, 17, 33, 64, 127, 128, 256};
    const size_t count = sizeof sizes / sizeof sizes[0];
    for (unsigned kind = 0; kind < 8; kind++)
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < count; j++)
                check_product((nn_product){.m = sizes[i],
                                           .n = sizes[j],
                                           .k = sizes[(i * 3 + j + kind) % count],
                                           .ta = kind & 1,
                                           .tb = kind & 2,
                                           .add = kind & 4});
}

TEST(scores_and_mixtures_of_any_width_are_right) {
    const nn_kernels *kernels = nn_kernels_for_this_machine();
    const size_t widths[] = {1, 2, 15, 16, 17, 31, 33, 127, 128, 1000};
    enum { ITEMS = 7 };
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        size_t width = widths[w];
        float weight[ITEMS], score[ITEMS];
        fill(a, ITEMS * width, w);
        fill(b, width, w + 100);
        fill(weight, ITEMS, w + 200);
        kernels->score_forward(a, ITEMS, width, b, 0.5f, score);
        memset(c, 0, sizeof c);
        kernels->mix_forward(a, ITEMS, width, weight, c);
        for (size_t i = 0; i < ITEMS; i++) {
            double sum = 0.5;
            for (size_t j = 0; j < width; j++)
                sum += (double)a[i * width + j] * (double)b[j];
            CHECK_NEAR(score[i], sum, 2e-4);
        }
        for (size_t j = 0; j < width; j++) {
            double sum = 0;
            for (size_t i = 0; i < ITEMS; i++)
                sum += (double)weight[i] * (double)a[i * width + j];
            CHECK_NEAR(c[j], sum, 1e-5);
        }
        CHECK(c[width] == 0);
    }
}

TEST(adam_moves_as_its_formula_says) {
    const nn_adam adam = {.rate = 0.01f,
                          .correction = 1000,
                          .beta1 = 0.9f,
                          .beta2 = 0.999f,
                          .epsilon = 1e-8f,
                          .gradient_loss = 0.002f,
                          .decay = 1e-3f};
    enum { COUNT = 37, PARTS = 3 };
    float weight[COUNT], first[COUNT] = {0}, second[COUNT] = {0}, before[COUNT];
    fill(a, COUNT * PARTS, 5);
    fill(weight, COUNT, 6);
    memcpy(before, weight, sizeof before);
    nn_kernels_for_this_machine()->adam(&adam, a, PARTS, COUNT, COUNT, weight, first, second);
    for (size_t i = 0; i < COUNT; i++) {
        double w = before[i], g = 0.002 * w;
        for (size_t part = 0; part < PARTS; part++)
            g += a[part * COUNT + i];
        double m = 0.1 * g, v = 0.001 * g * g;
        CHECK_NEAR(first[i], m, 1e-6);
        CHECK_NEAR(second[i], v, 1e-6);
        CHECK_NEAR(weight[i], w - 0.01 * m / (sqrt(v * 1000) + 1e-8) - 1e-3 * w, 1e-6);
    }
}

TEST(cross_entropy_is_that_of_softmax) {
    const float logits[] = {1, 2, 3, -1000, 0, 1000};
    const uint16_t labels[] = {0, 2};
    float losses[2], grad[6];
    CHECK_INT(nn_cross_entropy(logits, labels, 2, 3, 0.5f, losses, grad), 1);
    CHECK_NEAR(losses[0], 2 + log(1 + exp(-1) + exp(-2)), 1e-6);
    CHECK_NEAR(losses[1], 0, 1e-6);
    double sum = 1 + exp(-1) + exp(-2);
    CHECK_NEAR(grad[0], 0.5 * (exp(-2) / sum - 1), 1e-6);
    CHECK_NEAR(grad[2], 0.5 / sum, 1e-6);
    CHECK_NEAR(grad[5], 0, 1e-6);
}

TEST(initial_weights_have_the_deviation_asked_for_and_no_tails) {
    lab_random random = lab_random_start(9);
    nn_truncated_normal(&random, a, CAPACITY, 0.25);
    double sum = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < CAPACITY; i++) {
        sum += a[i];
        squares += (double)a[i] * (double)a[i];
        largest = fmax(largest, fabs((double)a[i]));
    }
    CHECK_NEAR(sum / CAPACITY, 0, 3e-3);
    CHECK_NEAR(sqrt(squares / CAPACITY), 0.25, 2e-3);
    CHECK(largest <= 2 * 0.25 / 0.8796 + 1e-6 && largest > 0.55);
}

TEST(rounding_to_bf16_goes_to_the_nearest_even) {
    CHECK(nn_round_to_bf16(1) == 1);
    CHECK(nn_round_to_bf16(0x1.01p0f) == 1);         /* half-way, down to even */
    CHECK(nn_round_to_bf16(0x1.03p0f) == 0x1.04p0f); /* half-way, up to even */
    CHECK(nn_round_to_bf16(0x1.0100ap0f) == 0x1.02p0f);
    CHECK(nn_round_to_bf16(0.999f) == 1);
}
