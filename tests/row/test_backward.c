/*
 * whet_softmax_backward against differences of the reference: the loss
 * sum g p(e) is evaluated in double a little to both sides of every logit and of
 * every number of the policy. Then what differences cannot tell: types, strides,
 * masks, in place, rows that are empty or not finite.
 */
#include "reference/reference.h"
#include "row/compare.h"
#include "row/row_backward.h"
#include "support/check.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_MAX = 10000 };

#define GRADIENT_LIMIT 5e-6 /* of the row's largest part: whet_softmax_backward in whet.h */

static float logits[N_MAX], arriving[N_MAX], gradient[N_MAX];
static double exact_logits[N_MAX], p[N_MAX];

/* Its own derivative goes along. */
static double custom_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    (void)context;
    *dbeta_dentropy = 0.6 * stats->entropy;
    return 1 + 0.3 * stats->entropy * stats->entropy;
}

/* Every kind of policy, and what decides in its place on both sides. */
static const char *const names[] = {
    "softmax",
    "fixed:1.7",
    "fixed:0.3",
    "fixed:3:strength=0.5",
    "adaptive",
    "adaptive:strength=0.4",
    "adaptive:strength=1.6",
    "adaptive:strength=0",
    "adaptive:hold",
    "poly:0.3/-0.2/1.1:floor=0",
    "poly:0.3/-0.2/1.1:threshold=2.5",
    "poly:0.3/-0.2/1.1:floor=1.9",
    "poly:0.3/-0.2/1.1:hold=1.5",
    "poly:0.3/-0.2/1.1:hold=1.5:strength=0.7",
    "poly:-1/2:floor=-9", /* below zero for an entropy of more than 2: kept at 0 */
    "poly:2.5:floor=0",
    "exp:0.8",
    "exp:1.9:strength=0.6",
    "exp:20",
    "target:0.7",
    "target:1.9",
    "target:0.7:cap=1.3",
    "target:50",
    "target:0.7:strength=0.5",
    "target:0.7:strength=1.5",
    "target:0.7:cap=1.3:strength=0.5",
    "target:0.7:strength=0",
    "ssmax:0.43",
    "ssmax:0.43:0.2:strength=0.8",
    "ssmax:-2:0.5",
    "length:5",
    "length:1000000",
    "linear:7.5",
    "linear:1000000:strength=2",
    "hinge:0.3:0.2:5",
    "hinge:-0.4:0.6:1000000",
    "hinge:-0.2:-0.3:2.5:strength=0.7",
    "topk:1",
    "topk:3",
    "topk:100000",
    "hardmax",
    "sparsemax",
    "entmax15",
    "entmax:1.01",
    "entmax:1.25",
    "entmax:1.9",
    "softmax1",
    "sigmoid",
    "sigmoid:0.5",
    "stick-breaking",
};
enum { NAMES = sizeof names / sizeof names[0] };

/* ---- differences ---- */

typedef struct problem {
    whet_policy policy;
    size_t n;
} problem;

static double loss_of(const problem *at) {
    whet_stats stats;
    double loss = 0;
    reference_row(exact_logits, at->n, -(double)INFINITY, &at->policy, p, &stats);
    for (size_t i = 0; i < at->n; i++) {
        loss += exact_logits[i] == -(double)INFINITY ? 0 : p[i] * (double)arriving[i];
    }
    return loss;
}

/* The slope of the loss along *number, by four points on either side of it; NaN at a kink. */
static double difference(const problem *at, double *number, double step) {
    double slope[2];
    double before = *number;
    for (int i = 0; i < 2; i++) {
        double value[4];
        const double places[4] = {-2, -1, 1, 2};
        for (int k = 0; k < 4; k++) {
            *number = before + places[k] * step;
            value[k] = loss_of(at);
        }
        slope[i] = (value[0] - 8 * value[1] + 8 * value[2] - value[3]) / (12 * step);
        step *= 0.5;
    }
    *number = before;
    return fabs(slope[0] - slope[1]) <= 1e-7 + 1e-6 * fabs(slope[1]) ? slope[1] : (double)NAN;
}

static double largest_arriving(size_t n) {
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)arriving[i]));
    }
    return largest;
}

/* The largest part that is not beta's: the other is as large where both nearly cancel. */
static double largest_direct(const problem *at) {
    whet_stats stats;
    reference_row(exact_logits, at->n, -(double)INFINITY, &at->policy, p, &stats);
    double mean = 0;
    for (size_t i = 0; i < at->n; i++) {
        mean += p[i] > 0 ? p[i] * (double)arriving[i] : 0;
    }
    double largest = 0;
    for (size_t i = 0; i < at->n && !isnan(stats.beta); i++) {
        double part = p[i] > 0 ? stats.beta * p[i] * fabs((double)arriving[i] - mean) : 0;
        largest = fmax(largest, part);
    }
    return largest;
}

static double worst_gradient, worst_number;
static size_t kinks, compared;

/* Of all entries, or of some that lie spread over a longer row. */
static void compare_gradient(const char *what, problem *at) {
    size_t step = at->n > 40 ? at->n / 9 : 1;
    double largest = largest_direct(at);
    double error = 0;
    size_t where = 0;
    for (size_t i = 0; i < at->n; i += step) {
        if (exact_logits[i] == -(double)INFINITY) {
            CHECK_MSG(gradient[i] == 0 && !signbit(gradient[i]), "%s: masked entry %zu", what, i);
            continue;
        }
        double expected = difference(at, &exact_logits[i], 1e-4);
        compared++;
        if (isnan(expected)) {
            kinks++;
            continue;
        }
        largest = fmax(largest, fabs(expected));
        double off = fabs((double)gradient[i] - expected);
        where = off > error ? i : where;
        error = isnan(off) ? (double)INFINITY : fmax(error, off);
    }
    /* relative to the largest; differences themselves are good to 1e-10 or so */
    double limit = GRADIENT_LIMIT * largest + 1e-10;
    worst_gradient = fmax(worst_gradient, (error - 1e-10) / largest);
    CHECK_MSG(error <= limit, "%s, n = %zu: entry %zu is off by %.3g, largest %.3g", what, at->n,
              where, error, largest);
}

static void compare_parameter(const char *what, problem *at, double *number, double actual) {
    double expected = difference(at, number, 1e-4);
    if (isnan(expected)) {
        kinks++;
        return;
    }
    double limit = 1e-5 * fabs(expected) + 3e-6 * largest_arriving(at->n) + 1e-9;
    double error = fabs(actual - expected);
    worst_number = fmax(worst_number, error / fmax(1, fabs(expected)));
    CHECK_MSG(error <= limit, "%s, n = %zu: number is %.9g, not %.9g", what, at->n, actual,
              expected);
}

static bool map_has_gradient(uint32_t map) {
    return map != WHET_POLICY_TOPK && map != WHET_POLICY_HARDMAX;
}

static void compare_parameters(const char *what, problem *at,
                               const whet_policy_gradient *parameter_grads) {
    for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        compare_parameter(what, at, &at->policy.value[i], parameter_grads->value[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        if (map_has_gradient(at->policy.map) && !isnan(at->policy.map_value[i])) {
            compare_parameter(what, at, &at->policy.map_value[i], parameter_grads->map_value[i]);
        } else {
            CHECK(parameter_grads->map_value[i] == 0);
        }
    }
    /* no limit above one and none below zero; target's full beta cannot be told at strength 0 */
    if (whet_policy_is_temperature(&at->policy) &&
        (at->policy.temperature != WHET_POLICY_TARGET || at->policy.strength > 0)) {
        compare_parameter(what, at, &at->policy.strength, parameter_grads->strength);
    }
    if (isfinite(at->policy.hold)) {
        compare_parameter(what, at, &at->policy.hold, parameter_grads->hold);
    } else {
        CHECK(parameter_grads->hold == 0);
    }
}

/* One row of f32 as attention takes it, with its coefficients where they are wanted. */
/* NOLINTBEGIN(readability-non-const-parameter): weights are written */
static bool one_f32_row(const whet_policy *policy, const float *in, const float *grad_out, size_t n,
                        float *weights, float *grad_in, whet_policy_gradient *parameters) {
    row_job job = whet_row_plan(policy, false);
    row_view row = {.kernels = whet_kernels_get(), .n = n, .in = in};
    row_view grad = {.kernels = row.kernels, .n = n, .in = grad_out};
    row_gradients gradients = {.out = &grad, .weights = weights, .parameters = parameters};
    row.out = grad_in;
    return whet_row_backward(&row, &job, &gradients);
}
/* NOLINTEND(readability-non-const-parameter) */

static whet_rows_backward request(size_t n) {
    return (whet_rows_backward){.size = sizeof(whet_rows_backward),
                                .rows = 1,
                                .n = n,
                                .in = logits,
                                .grad_out = arriving,
                                .grad_in = gradient};
}

static void compare_policy(const char *what, const whet_policy *policy, size_t n) {
    problem at = {.policy = *policy, .n = n};
    whet_policy_gradient parameter_grads;
    whet_rows_backward rows = request(n);
    rows.policy_grad = &parameter_grads;
    for (size_t i = 0; i < n; i++) {
        exact_logits[i] = (double)logits[i];
        gradient[i] = 4711;
    }
    CHECK_INT(whet_softmax_backward(&rows, policy, NULL), WHET_OK);
    compare_gradient(what, &at);
    compare_parameters(what, &at, &parameter_grads);
}

static void make_row(struct rng *rng, size_t n, double deviation) {
    rng_fill_normal(rng, logits, n, 0.3, deviation);
    rng_fill_normal(rng, arriving, n, 0.2, 1);
}

static void print_worst_gradient(void) {
    printf("     worst: gradient %.2g of the row's largest, numbers %.2g; %zu of %zu at kinks\n",
           worst_gradient, worst_number, kinks, compared);
    CHECK(compared > 100 && kinks * 20 < compared);
    worst_gradient = worst_number = 0;
    kinks = compared = 0;
}

static void compare_all(const size_t *sizes, size_t count, double deviation, double masked) {
    struct rng rng = rng_seeded(count + (uint64_t)(100 * deviation));
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        for (size_t i = 0; i < count; i++) {
            make_row(&rng, sizes[i], deviation);
            for (size_t j = 1; j < sizes[i]; j++) {
                if (rng_uniform(&rng, 0, 1) < masked) {
                    logits[j] = -INFINITY;
                    arriving[j] = NAN; /* nobody looks */
                }
            }
            compare_policy(names[k], &policy, sizes[i]);
        }
    }
    print_worst_gradient();
}

static const size_t sizes[] = {1, 2, 3, 7, 15, 16, 17, 31, 33};
static const size_t long_sizes[] = {127, 4097};

TEST(gradients_of_short_rows_are_the_differences_of_the_loss) {
    compare_all(sizes, sizeof sizes / sizeof sizes[0], 1, 0);
    compare_all(sizes, sizeof sizes / sizeof sizes[0], 0.3, 0);
    compare_all(sizes, sizeof sizes / sizeof sizes[0], 3, 0);
}

TEST(gradients_of_long_rows_are_the_differences_of_the_loss) {
    compare_all(long_sizes, sizeof long_sizes / sizeof long_sizes[0], 1.5, 0);
}

TEST(gradients_of_masked_rows_are_the_differences_of_the_loss) {
    compare_all(sizes, sizeof sizes / sizeof sizes[0], 1, 0.3);
    compare_all(long_sizes, 1, 2, 0.5);
}

TEST(a_custom_policys_own_derivative_is_used) {
    struct rng rng = rng_seeded(3);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        whet_policy policy = whet_policy_custom(custom_beta, NULL);
        make_row(&rng, sizes[i], 1);
        compare_policy("custom", &policy, sizes[i]);
        policy.strength = 0.7;
        compare_policy("custom", &policy, sizes[i]);
    }
}

/* ---- what holds of every gradient ---- */

static bool is_blind_to_shifts(uint32_t map) {
    return map != WHET_POLICY_SOFTMAX1 && map != WHET_POLICY_SIGMOID &&
           map != WHET_POLICY_STICK_BREAKING;
}

TEST(gradients_sum_to_zero_where_shifting_all_logits_changes_nothing) {
    struct rng rng = rng_seeded(4);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        if (!is_blind_to_shifts(policy.map)) {
            continue;
        }
        make_row(&rng, N_MAX, 2);
        whet_rows_backward rows = request(N_MAX);
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        double sum = 0;
        double size = 0;
        for (size_t i = 0; i < N_MAX; i++) {
            sum += (double)gradient[i];
            size += fabs((double)gradient[i]);
        }
        CHECK_MSG(fabs(sum) <= 1e-5 * size, "%s: %.3g of %.3g", names[k], sum, size);
    }
}

TEST(a_gradient_that_is_the_same_everywhere_changes_nothing) {
    struct rng rng = rng_seeded(5);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        if (!is_blind_to_shifts(policy.map)) {
            continue;
        }
        make_row(&rng, 100, 1);
        for (size_t i = 0; i < 100; i++) {
            arriving[i] = 1000;
        }
        whet_rows_backward rows = request(100);
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        for (size_t i = 0; i < 100; i++) {
            CHECK_MSG(fabsf(gradient[i]) <= 1e-3f, "%s: %g", names[k], (double)gradient[i]);
        }
    }
}

TEST(policy_gradients_add_up_over_rows) {
    enum { ROWS = 5, N = 20 };
    struct rng rng = rng_seeded(6);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        make_row(&rng, (size_t)ROWS * N, 1);
        whet_policy_gradient all, one, sum = {.strength = 0};
        memset(&all, 0x77, sizeof all);
        whet_rows_backward rows = request(N);
        for (size_t r = 0; r < ROWS; r++) {
            rows.in = logits + r * N;
            rows.grad_out = arriving + r * N;
            rows.policy_grad = &one;
            CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
            sum.strength += one.strength;
            sum.hold += one.hold;
            for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
                sum.value[i] += one.value[i];
            }
        }
        rows = request(N);
        rows.rows = ROWS;
        rows.policy_grad = &all;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_NEAR(all.strength, sum.strength, 1e-12);
        CHECK_NEAR(all.hold, sum.hold, 1e-12);
        for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
            CHECK_NEAR(all.value[i], sum.value[i], 1e-9 * (1 + fabs(sum.value[i])));
        }
        for (size_t i = 0; i < sizeof all.reserved / sizeof all.reserved[0]; i++) {
            CHECK(all.reserved[i] == 0);
        }
    }
}

/* The definition, with the whole stick in memory. */
static void break_stick_back(const float *e, const float *g, size_t n, double *result) {
    double left = 1;
    for (size_t i = n; i-- > 0;) {
        result[i] = left;
        left *= 1 / (1 + exp((double)e[i]));
    }
    double before = 0;
    for (size_t i = 0; i < n; i++) {
        double taken = 1 / (1 + exp(-(double)e[i]));
        result[i] *= taken * (1 - taken) * ((double)g[i] - before);
        before = before * (1 - taken) + taken * (double)g[i];
    }
}

TEST(stick_breaking_has_gradients_through_millions_of_entries) {
    size_t n = (size_t)5 << 19; /* more blocks than notes */
    float *e = malloc(n * sizeof *e), *g = malloc(n * sizeof *g);
    double *expected = malloc(n * sizeof *expected);
    REQUIRE(e && g && expected);
    struct rng rng = rng_seeded(7);
    for (size_t i = 0; i < n; i++) {
        e[i] = (float)rng_uniform(&rng, -16, -12); /* so that the stick reaches far */
        g[i] = (float)rng_uniform(&rng, -1, 1);
    }
    break_stick_back(e, g, n, expected);
    whet_policy policy = whet_policy_stick_breaking();
    whet_rows_backward rows = request(n);
    rows.in = e;
    rows.grad_out = rows.grad_in = g;
    CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        wrong += !(fabs((double)g[i] - expected[i]) <= 1e-6 * fabs(expected[i]) + 1e-12);
    }
    CHECK_INT(wrong, 0);
    free(e);
    free(g);
    free(expected);
}

/* ---- types, strides, masks, places ---- */

static void to_type(whet_type type, const float *from, void *to, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (type == WHET_F32) {
            ((float *)to)[i] = from[i];
        } else {
            ((uint16_t *)to)[i] =
                type == WHET_F16 ? reference_to_f16(from[i]) : reference_to_bf16(from[i]);
        }
    }
}

static void round_to_type(whet_type type, float *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = 0;
        to_type(type, &values[i], type == WHET_F32 ? (void *)&values[i] : (void *)&bits, 1);
        if (type != WHET_F32) {
            values[i] = (float)reference_load(&bits, type);
        }
    }
}

TEST(narrow_types_give_the_f32_gradient_rounded) {
    static float wide[N_MAX], narrow_in[N_MAX], narrow_grad[N_MAX], narrow_result[N_MAX];
    const size_t lengths[] = {1, 17, 1000, 4097};
    struct rng rng = rng_seeded(8);
    for (size_t k = 0; k < NAMES; k += 3) {
        whet_policy policy = policy_named(names[k]);
        for (unsigned t = 0; t < 27; t++) {
            whet_type in = (whet_type)(t % 3), out = (whet_type)(t / 3 % 3),
                      result = (whet_type)(t / 9);
            size_t n = lengths[t % 4];
            make_row(&rng, n, 2);
            round_to_type(in, logits, n);
            round_to_type(out, arriving, n);
            whet_rows_backward rows = request(n);
            rows.grad_in = wide;
            CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
            to_type(in, logits, narrow_in, n);
            to_type(out, arriving, narrow_grad, n);
            rows.in = narrow_in;
            rows.in_type = in;
            rows.grad_out = narrow_grad;
            rows.grad_out_type = out;
            rows.grad_in = narrow_result;
            rows.grad_in_type = result;
            CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
            to_type(result, wide, gradient, n);
            CHECK_MSG(same_bytes(narrow_result, gradient, n * reference_size(result)),
                      "%s, n = %zu: types %d %d %d", names[k], n, (int)in, (int)out, (int)result);
        }
    }
}

TEST(masks_are_added_before_anything_else) {
    static float mask[N_MAX], masked[N_MAX], expected[N_MAX];
    static uint16_t half_mask[N_MAX];
    const size_t lengths[] = {1, 33, 1000, 4099};
    struct rng rng = rng_seeded(9);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        size_t n = lengths[k % 4];
        make_row(&rng, n, 1);
        for (size_t i = 0; i < n; i++) {
            mask[i] = i % 3 == 1 ? -INFINITY : (float)(i % 5) * 0.25f;
            masked[i] = logits[i] + mask[i];
            if (i % 3 == 1) {
                logits[i] = NAN;
                arriving[i] = INFINITY;
            }
        }
        to_type(WHET_F16, mask, half_mask, n);
        whet_rows_backward rows = request(n);
        rows.in = masked;
        rows.grad_in = expected;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        rows = request(n);
        rows.mask = mask;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(same_bytes(gradient, expected, n * sizeof(float)), "%s", names[k]);
        rows.mask = half_mask;
        rows.mask_type = WHET_F16;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(same_bytes(gradient, expected, n * sizeof(float)), "%s", names[k]);
    }
}

/* [rows][n] at some stride, backwards if that is negative. */
static void scatter(const float *from, size_t rows, size_t n, float *first, ptrdiff_t stride) {
    for (size_t r = 0; r < rows; r++) {
        memcpy(first + (ptrdiff_t)r * stride, from + r * n, n * sizeof *from);
    }
}

TEST(strides_of_any_sign_are_followed_and_gaps_left_alone) {
    enum { ROWS = 7, N = 37, CAPACITY = 1000 };
    static float in[CAPACITY], out[CAPACITY], result[CAPACITY], expected[CAPACITY];
    whet_policy policy = whet_policy_adaptive();
    struct rng rng = rng_seeded(10);
    make_row(&rng, (size_t)ROWS * N, 1);
    whet_rows_backward rows = request(N);
    rows.rows = ROWS;
    CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
    const ptrdiff_t strides[][3] = {{N, N + 1, N + 2}, {N + 60, -N - 3, -N}, {-N - 9, N, N + 90}};
    for (size_t k = 0; k < 3; k++) {
        float *first[3];
        float *arrays[3] = {in, out, result};
        for (size_t a = 0; a < 3; a++) {
            memset(arrays[a], 0x77, sizeof in);
            first[a] = arrays[a] + (strides[k][a] < 0 ? -strides[k][a] * (ROWS - 1) : 0);
        }
        memset(expected, 0x77, sizeof expected);
        scatter(logits, ROWS, N, first[0], strides[k][0]);
        scatter(arriving, ROWS, N, first[1], strides[k][1]);
        scatter(gradient, ROWS, N, expected + (first[2] - result), strides[k][2]);
        rows = request(N);
        rows.rows = ROWS;
        rows.in = first[0];
        rows.grad_out = first[1];
        rows.grad_in = first[2];
        rows.in_stride = strides[k][0];
        rows.grad_out_stride = strides[k][1];
        rows.grad_in_stride = strides[k][2];
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK(same_bytes(result, expected, sizeof result));
    }
}

TEST(gradients_may_take_the_place_of_what_they_are_made_from) {
    static float in[N_MAX], out[N_MAX];
    static uint16_t narrow[N_MAX], narrow_out[N_MAX], narrow_expected[N_MAX];
    const size_t lengths[] = {5, 1000, 9001};
    struct rng rng = rng_seeded(11);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        size_t n = lengths[k % 3];
        make_row(&rng, n, 2);
        whet_rows_backward rows = request(n);
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        memcpy(in, logits, sizeof in);
        memcpy(out, arriving, sizeof out);
        rows.grad_out = rows.grad_in = out;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(same_bytes(out, gradient, n * sizeof(float)), "%s over grad_out", names[k]);
        rows = request(n);
        rows.in = rows.grad_in = in;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(same_bytes(in, gradient, n * sizeof(float)), "%s over in", names[k]);

        rows = request(n);
        to_type(WHET_BF16, logits, narrow, n);
        to_type(WHET_BF16, arriving, narrow_out, n);
        rows.in = narrow;
        rows.in_type = rows.grad_out_type = rows.grad_in_type = WHET_BF16;
        rows.grad_out = narrow_out;
        rows.grad_in = narrow_expected;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        rows.grad_in = k % 2 ? narrow_out : narrow;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(same_bytes(rows.grad_in, narrow_expected, n * 2), "%s, bf16", names[k]);
    }
}

TEST(one_f32_row_is_taken_by_itself) {
    static float expected[N_MAX];
    struct rng rng = rng_seeded(12);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        make_row(&rng, 300, 1);
        logits[7] = -INFINITY;
        whet_policy_gradient parameter_grads, sum = {.value = {1}};
        whet_rows_backward rows = request(300);
        rows.grad_in = expected;
        rows.policy_grad = &parameter_grads;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK(one_f32_row(&policy, logits, arriving, 300, NULL, gradient, &sum));
        CHECK_MSG(same_bytes(gradient, expected, 300 * sizeof(float)), "%s", names[k]);
        CHECK(sum.value[0] == 1 + parameter_grads.value[0] &&
              sum.strength == parameter_grads.strength);
        CHECK(one_f32_row(&policy, logits, arriving, 300, NULL, arriving, NULL));
        CHECK(same_bytes(arriving, expected, 300 * sizeof(float)));
        if (!whet_policy_is_temperature(&policy)) {
            whet_rows forth = {.size = sizeof forth, .rows = 1, .n = 300, .in = logits};
            forth.out = expected;
            CHECK_INT(whet_softmax(&forth, &policy, NULL), WHET_OK);
            CHECK(one_f32_row(&policy, logits, arriving, 300, logits, gradient, NULL));
            CHECK_MSG(same_bytes(logits, expected, 300 * sizeof(float)), "%s: weights", names[k]);
        }
        logits[3] = INFINITY;
        CHECK(!one_f32_row(&policy, logits, arriving, 300, NULL, gradient, &sum));
        CHECK(isnan(gradient[0]) && sum.strength == parameter_grads.strength);
    }
}

/* ---- rows out of the ordinary ---- */

static bool all_nan(const float *values, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += isnan(values[i]) ? 1 : 0;
    }
    return count == n;
}

static void spoil_row(const char *what, const whet_policy *policy, float *value, float with) {
    enum { ROWS = 3, N = 25 };
    static float expected[ROWS * N];
    whet_policy_gradient parameter_grads, others = {.strength = 0};
    size_t first_bad = 4711;
    whet_rows_backward rows = request(N);
    rows.rows = ROWS;
    rows.grad_in = expected;
    CHECK_INT(whet_softmax_backward(&rows, policy, &first_bad), WHET_OK);
    CHECK_INT(first_bad, 4711);
    float before = *value;
    *value = with;
    rows.grad_in = gradient;
    rows.policy_grad = &parameter_grads;
    CHECK_INT(whet_softmax_backward(&rows, policy, &first_bad), WHET_NOT_FINITE);
    *value = before;
    CHECK_INT(first_bad, 1);
    CHECK_MSG(all_nan(gradient + N, N), "%s: the row is not NaN", what);
    CHECK_MSG(same_bytes(gradient, expected, N * sizeof(float)), "%s: row 0", what);
    CHECK_MSG(
        same_bytes(gradient + (ptrdiff_t)2 * N, expected + (ptrdiff_t)2 * N, N * sizeof(float)),
        "%s: row 2", what);
    for (size_t r = 0; r < ROWS; r += 2) {
        CHECK(one_f32_row(policy, logits + r * N, arriving + r * N, N, NULL, expected, &others));
    }
    CHECK(same_bytes(&others, &parameter_grads, sizeof parameter_grads));
}

TEST(what_is_not_finite_spoils_its_own_row_only) {
    const float wrong[] = {NAN, INFINITY};
    struct rng rng = rng_seeded(13);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        for (size_t i = 0; i < 2; i++) {
            make_row(&rng, 75, 1);
            spoil_row(names[k], &policy, &logits[25 + 11], wrong[i]);
            spoil_row(names[k], &policy, &arriving[25 + 24], wrong[i]);
            spoil_row(names[k], &policy, &arriving[25], -wrong[i]);
        }
    }
}

static double beta_of_nan(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    (void)stats;
    (void)context;
    *dbeta_dentropy = 1;
    return (double)NAN;
}

TEST(a_beta_that_is_no_number_spoils_rows) {
    struct rng rng = rng_seeded(14);
    make_row(&rng, 30, 1);
    whet_policy policy = whet_policy_custom(beta_of_nan, NULL);
    whet_rows_backward rows = request(30);
    CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_NOT_FINITE);
    CHECK(all_nan(gradient, 30));
}

TEST(masked_entries_and_empty_rows_have_gradient_zero) {
    const size_t lengths[] = {1, 17, 4097};
    struct rng rng = rng_seeded(15);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        size_t n = lengths[k % 3];
        make_row(&rng, n, 1);
        for (size_t i = 0; i < n; i++) {
            logits[i] = -INFINITY;
            gradient[i] = 4711;
            arriving[i] = i % 2 ? NAN : 1.0f;
        }
        whet_policy_gradient parameter_grads;
        memset(&parameter_grads, 0x77, sizeof parameter_grads);
        const whet_policy_gradient none = {.strength = 0};
        whet_rows_backward rows = request(n);
        rows.policy_grad = &parameter_grads;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        for (size_t i = 0; i < n; i++) {
            CHECK(gradient[i] == 0 && !signbit(gradient[i]));
        }
        CHECK(same_bytes(&parameter_grads, &none, sizeof parameter_grads));
        logits[n - 1] = NAN;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_NOT_FINITE);
        CHECK(all_nan(gradient, n));
    }
}

TEST(logits_of_any_size_give_gradients_without_nan) {
    const float scales[] = {1e-38f, 1e-10f, 100, 1e4f, 1e10f, 3e38f};
    struct rng rng = rng_seeded(16);
    for (size_t k = 0; k < NAMES; k++) {
        whet_policy policy = policy_named(names[k]);
        for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
            for (size_t i = 0; i < 50; i++) {
                logits[i] = scales[s] * (float)rng_uniform(&rng, -1, 1);
                arriving[i] = (float)rng_uniform(&rng, -1, 1);
            }
            logits[20] = scales[s];
            logits[30] = -scales[s];
            whet_rows_backward rows = request(50);
            CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
            for (size_t i = 0; i < 50; i++) {
                CHECK_MSG(!isnan(gradient[i]), "%s at %g", names[k], (double)scales[s]);
            }
        }
    }
}
