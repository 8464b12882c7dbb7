/*
 * The layers of a decoder one by one, over awkward widths and for each
 * instruction set: forward against plain arithmetic in double, backward against
 * central differences of that arithmetic.
 */
#include "support/check.h"
#include "support/isa.h"

#include "base/random.h"
#include "nn/decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 1 << 15, ROWS = 3 };

static float x[CAPACITY], y[CAPACITY], z[CAPACITY], gradient[CAPACITY], other[CAPACITY];
static double exact[CAPACITY];

static const size_t widths[] = {1, 2, 7, 15, 16, 17, 31, 33, 127, 128, 1000};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static void fill(float *values, size_t count, uint64_t seed) {
    lab_random random = lab_random_start(seed);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)lab_random_normal(&random);
}

static const nn_kernels *kernels(void) { return nn_kernels_for_this_machine(); }

/* A sum over outputs, each times its weight: the loss whose gradient is looked at. */
typedef double (*loss_function)(const double *inputs, size_t width);

/* The slope of a loss along one input, to the sixth power of the step. */
static double slope(loss_function loss, const float *inputs, size_t count, size_t index,
                    size_t width) {
    static double at[CAPACITY];
    const double step = 1e-2, shares[] = {45.0 / 60, -9.0 / 60, 1.0 / 60};
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        at[i] = inputs[i];
    for (int k = 1; k <= 3; k++) {
        at[index] = inputs[index] + k * step;
        double above = loss(at, width);
        at[index] = inputs[index] - k * step;
        sum += shares[k - 1] * (above - loss(at, width));
        at[index] = inputs[index];
    }
    return sum / step;
}

static bool is_near(double actual, double expected, const char *what, size_t width, size_t index) {
    return CHECK_MSG(fabs(actual - expected) < 3e-5 * (1 + fabs(expected)),
                     "%s of width %zu at %zu: %g, not %g", what, width, index, actual, expected);
}

/* Inputs: x [ROWS][width], gain [width]; weights of outputs are in `other`. */
static double loss_of_rmsnorm(const double *inputs, size_t width) {
    const double *gain = inputs + ROWS * width;
    double loss = 0;
    for (size_t r = 0; r < ROWS; r++) {
        double squares = 0;
        for (size_t j = 0; j < width; j++)
            squares += inputs[r * width + j] * inputs[r * width + j];
        double scale = 1 / sqrt(squares / (double)width + 0.5);
        for (size_t j = 0; j < width; j++) {
            exact[r * width + j] = inputs[r * width + j] * scale * gain[j];
            loss += exact[r * width + j] * other[r * width + j];
        }
    }
    return loss;
}

TEST(rmsnorm_and_its_gradients_are_right) {
    for (size_t w = 0; w < WIDTHS; w++) {
        size_t width = widths[w], count = ROWS * width;
        float scale[ROWS];
        fill(x, count + width, 1);
        fill(other, count, 2);
        fill(gradient, count + width, 3); /* what is there is added to */
        memcpy(z, gradient, sizeof z);
        kernels()->rmsnorm_forward(x, x + count, ROWS, width, 0.5F, y, scale);
        kernels()->rmsnorm_backward(x, x + count, scale, other, ROWS, width, gradient,
                                    gradient + count);
        double inputs[4001];
        for (size_t i = 0; i < count + width; i++)
            inputs[i] = x[i];
        loss_of_rmsnorm(inputs, width);
        for (size_t i = 0; i < count; i++)
            if (!is_near(y[i], exact[i], "rmsnorm", width, i))
                return;
        for (size_t i = 0; i < count + width; i += 1 + width / 9)
            if (!is_near(gradient[i] - z[i], slope(loss_of_rmsnorm, x, count + width, i, width),
                         "its gradient", width, i))
                return;
    }
}

static nn_gate gate;

static double curve(double v) {
    if (gate == NN_SILU)
        return v / (1 + exp(-v));
    return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
}

/* Inputs: [ROWS][2 width], gates before what they let through. */
static double loss_of_gated(const double *inputs, size_t width) {
    double loss = 0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t j = 0; j < width; j++) {
            const double *row = inputs + r * 2 * width;
            exact[r * width + j] = curve(row[j]) * row[width + j];
            loss += exact[r * width + j] * other[r * width + j];
        }
    return loss;
}

static void check_gated(size_t width) {
    size_t count = ROWS * width;
    fill(x, 2 * count, 4);
    fill(other, count, 5);
    memcpy(z, x, sizeof z);
    memcpy(gradient, other, sizeof gradient);
    kernels()->gated_forward(gate, x, ROWS, width, y);
    kernels()->gated_backward(gate, z, ROWS, width, gradient);
    CHECK(same_bytes(y, gradient, count * sizeof(float))); /* h once more */
    double inputs[6001];
    for (size_t i = 0; i < 2 * count; i++)
        inputs[i] = x[i];
    loss_of_gated(inputs, width);
    for (size_t i = 0; i < count; i++)
        if (!is_near(y[i], exact[i], "a gate", width, i))
            return;
    for (size_t i = 0; i < 2 * count; i += 1 + width / 9)
        if (!is_near(z[i], slope(loss_of_gated, x, 2 * count, i, width), "its gradient", width, i))
            return;
}

TEST(gates_and_their_gradients_are_right) {
    for (size_t w = 0; w < WIDTHS; w++) {
        gate = NN_GELU;
        check_gated(widths[w]);
        gate = NN_SILU;
        check_gated(widths[w]);
    }
}

static const uint32_t *labels;

static double loss_of_cross_entropy(const double *inputs, size_t width) {
    double loss = 0;
    for (size_t r = 0; r < ROWS; r++) {
        const double *row = inputs + r * width;
        double max = row[0], sum = 0;
        for (size_t j = 1; j < width; j++)
            max = fmax(max, row[j]);
        for (size_t j = 0; j < width; j++)
            sum += exp(row[j] - max);
        /* cppcheck-suppress invalidFunctionArg; the largest alone adds 1 */
        exact[r] = max + log(sum) - row[labels[r]];
        loss += (double)other[r] * exact[r];
    }
    return loss;
}

TEST(cross_entropy_and_its_gradient_are_right) {
    for (size_t w = 0; w < WIDTHS; w++) {
        size_t width = widths[w], count = ROWS * width;
        uint32_t chosen[ROWS] = {0, (uint32_t)(width - 1), (uint32_t)(width / 2)};
        unsigned char right[ROWS];
        float losses[ROWS];
        labels = chosen;
        fill(x, count, 6);
        fill(other, ROWS, 7);
        x[width - 1 + width] = 9; /* the second row's label is on top */
        memcpy(gradient, x, sizeof gradient);
        kernels()->cross_entropy(gradient, chosen, other, ROWS, width, losses, right);
        double inputs[3001];
        for (size_t i = 0; i < count; i++)
            inputs[i] = x[i];
        loss_of_cross_entropy(inputs, width);
        CHECK_INT(right[1], 1);
        for (size_t r = 0; r < ROWS; r++)
            is_near(losses[r], exact[r], "cross-entropy", width, r);
        for (size_t i = 0; i < count; i += 1 + width / 9)
            if (!is_near(gradient[i], slope(loss_of_cross_entropy, x, count, i, width),
                         "its gradient", width, i))
                return;
    }
}

TEST(positions_rotate_pairs_and_backward_rotates_them_back) {
    enum { LENGTH = 5, HEADS = 3, STRIDE = 200 };
    const nn_engine engine = {.kernels = kernels()};
    for (size_t head_dim = 2; head_dim <= 34; head_dim += 4)
        for (size_t dims = 2; dims <= head_dim; dims += 2) {
            nn_rope rope;
            REQUIRE(nn_rope_create(LENGTH, dims, 100, NULL, &rope));
            fill(x, 2 * LENGTH * STRIDE, 8);
            memcpy(y, x, sizeof y);
            nn_rotate(&engine, &rope, rope.sine, 2, LENGTH, HEADS, head_dim, STRIDE, y);
            for (size_t token = 0; token < 2 * LENGTH; token++)
                for (size_t e = 0; e < STRIDE; e++) {
                    size_t i = token * STRIDE + e, j = e % head_dim;
                    double angle =
                        (double)(token % LENGTH) * pow(100, -(double)(j - j % 2) / (double)dims);
                    double rotated = j % 2 == 0 ? x[i] * cos(angle) - x[i + 1] * sin(angle)
                                                : x[i] * cos(angle) + x[i - 1] * sin(angle);
                    bool is_rotated = e < HEADS * head_dim && j < dims;
                    CHECK_NEAR(y[i], is_rotated ? rotated : (double)x[i], is_rotated ? 2e-6 : 0);
                }
            nn_rotate(&engine, &rope, rope.back, 2, LENGTH, HEADS, head_dim, STRIDE, y);
            for (size_t i = 0; i < 2 * LENGTH * STRIDE; i++)
                CHECK_NEAR(y[i], x[i], 2e-6);
            nn_rope_destroy(&rope);
        }
}

TEST(an_embedding_and_its_gradient_are_lookups) {
    const nn_engine engine = {.kernels = kernels()};
    const uint32_t ids[] = {2, 0, 2, 1};
    for (size_t w = 0; w < WIDTHS; w++) {
        size_t width = widths[w];
        fill(x, 3 * width, 9);
        fill(other, 4 * width, 10);
        memset(gradient, 0, sizeof gradient);
        nn_embedding_forward(x, ids, 4, width, y);
        nn_embedding_backward(&engine, ids, 4, width, other, gradient);
        for (size_t i = 0; i < 4; i++)
            CHECK(same_bytes(y + i * width, x + ids[i] * width, width * sizeof(float)));
        for (size_t j = 0; j < width; j++) {
            CHECK_NEAR(gradient[2 * width + j], other[j] + other[2 * width + j], 0);
            CHECK_NEAR(gradient[width + j], other[3 * width + j], 0);
        }
    }
}
