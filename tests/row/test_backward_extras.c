/*
 * whet_softmax_backward of composed policies, with sinks, given betas and
 * gradients of statistics, against differences of the reference's loss: for
 * logits, sinks, beta and every parameter that whet_policy_parameters lists.
 */
#include "reference/reference.h"
#include "row/compare.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_MAX = 9000 };
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define GRADIENT_LIMIT 5e-6 /* of the row's largest part: whet_softmax_backward in whet.h */

static float logits[N_MAX], arriving[N_MAX], gradient[N_MAX];
static double exact[N_MAX], exact_arriving[N_MAX], p[N_MAX];

static size_t compared, kinks;
static double worst_gradient, worst_number;

/* What a row is given besides logits and a policy. */
typedef struct extras {
    bool has_out;
    float sink, beta; /* -INFINITY and NaN for none */
    float logsumexp_grad, entropy_grad, entropy_after_grad;
} extras;

static const extras none = {.has_out = true, .sink = -INFINITY, .beta = NAN};

/* ---- sizes ---- */

/* The largest part of a gradient, of those that add up to it: through the result, through its
 * entropy, through the row's own statistics; each may cancel what the others add. */
static double largest_part(const reference_loss *loss) {
    whet_stats stats;
    reference_loss_of(loss);
    if (loss->has_beta) {
        reference_row_at_beta(loss->logits, loss->n, loss->sink, loss->beta, &loss->policy, p,
                              &stats);
    } else {
        reference_row(loss->logits, loss->n, loss->sink, &loss->policy, p, &stats);
    }
    double mean = 0, largest = 0;
    for (size_t i = 0; i < loss->n; i++) {
        mean += loss->result_grad && p[i] > 0 ? p[i] * loss->result_grad[i] : 0;
    }
    for (size_t i = 0; i < loss->n; i++) {
        if (loss->logits[i] == -(double)INFINITY) {
            continue;
        }
        double g = loss->result_grad && p[i] > 0 ? fabs(loss->result_grad[i] - mean) : 0;
        double after = p[i] > 0 ? fabs(loss->entropy_after_grad) * (fabs(log(p[i])) + 1) : 0;
        double d = loss->logits[i] - stats.max, w = exp(d) / stats.z;
        double own =
            fabs(loss->logsumexp_grad) + fabs(loss->entropy_grad) * fabs(d - stats.s / stats.z);
        largest = fmax(largest, stats.beta * p[i] * (g + after) + w * own);
    }
    return largest;
}

/* What a beta that is off by as much as an entropy may be makes of the gradient: a map may be steep
 * in it where an entry is about to leave. */
static double moved_by_beta(const reference_loss *loss) {
    whet_stats stats;
    reference_loss held = *loss;
    reference_row(loss->logits, loss->n, loss->sink, &loss->policy, NULL, &stats);
    held.has_beta = true;
    double largest = 0;
    for (size_t i = 0; !loss->has_beta && i < loss->n; i++) {
        if (loss->logits[i] == -(double)INFINITY) {
            continue;
        }
        held.beta = stats.beta;
        double at = reference_derivative(&held, &held.logits[i], 1e-4);
        held.beta = stats.beta * (1 + ENTROPY_LIMIT);
        double beside = reference_derivative(&held, &held.logits[i], 1e-4);
        largest = isnan(beside - at) ? largest : fmax(largest, fabs(beside - at));
    }
    return largest;
}

/* ---- comparisons ---- */

static void compare_logits(const char *what, reference_loss *loss) {
    size_t step = loss->n > 40 ? loss->n / 7 : 1;
    double largest = largest_part(loss), error = 0;
    size_t where = 0;
    for (size_t i = 0; i < loss->n; i += step) {
        if (loss->logits[i] == -(double)INFINITY) {
            CHECK_MSG(gradient[i] == 0 && !signbit(gradient[i]), "%s: masked entry %zu", what, i);
            continue;
        }
        double expected = reference_derivative(loss, &loss->logits[i], 1e-4);
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
    double limit = GRADIENT_LIMIT * largest + 1e-9;
    if (error > limit) {
        limit += moved_by_beta(loss);
    }
    worst_gradient = fmax(worst_gradient, (error - 1e-9) / fmax(1e-9, largest));
    CHECK_MSG(error <= limit, "%s: entry %zu is %.9g, off by %.3g, largest %.3g", what, where,
              (double)gradient[where], error, largest);
}

/* A number whose terms are no larger than `size`. */
static void compare_number(const char *what, const char *number, double actual, double expected,
                           double size) {
    compared++;
    if (isnan(expected)) {
        kinks++;
        return;
    }
    double error = fabs(actual - expected);
    worst_number = fmax(worst_number, (error - 1e-9) / fmax(1e-3, fmax(size, fabs(expected))));
    CHECK_MSG(error <= 1e-5 * fabs(expected) + 3e-6 * size + 1e-9, "%s: d / d %s is %.9g, not %.9g",
              what, number, actual, expected);
}

/* How large the terms are that numbers are summed from. */
static double size_of(const reference_loss *loss) {
    double largest = fabs(loss->entropy_after_grad) * 10;
    for (size_t i = 0; loss->result_grad && i < loss->n; i++) {
        bool counts = loss->logits[i] != -(double)INFINITY;
        largest = counts ? fmax(largest, fabs(loss->result_grad[i])) : largest;
    }
    return largest;
}

/* Whether the reference can move a parameter to both sides: within its limits, and where the
 * gradient is promised. */
static bool is_movable(const whet_policy *policy, const whet_parameter *parameter, double at) {
    if (parameter->gradient_offset == SIZE_MAX || !isfinite(at)) {
        return false;
    }
    bool is_strength = parameter->offset == offsetof(whet_policy, strength);
    return !is_strength || policy->temperature != WHET_POLICY_TARGET || policy->strength > 0;
}

static void compare_parameters(const char *what, reference_loss *loss,
                               const whet_policy_gradient *gradients) {
    whet_parameter parameters[16];
    whet_policy_gradient rest = *gradients;
    double zero = 0;
    size_t count = whet_policy_parameters(&loss->policy, parameters, COUNT(parameters));
    REQUIRE(count <= COUNT(parameters));
    for (size_t i = 0; i < count; i++) {
        const whet_parameter *one = &parameters[i];
        double *at = (double *)(void *)((char *)&loss->policy + one->offset);
        double actual;
        if (one->gradient_offset == SIZE_MAX) {
            continue;
        }
        memcpy(&actual, (char *)&rest + one->gradient_offset, sizeof actual);
        memcpy((char *)&rest + one->gradient_offset, &zero, sizeof zero);
        if (is_movable(&loss->policy, one, *at)) {
            double slope = loss->has_beta && one->offset < offsetof(whet_policy, map_value)
                               ? 0
                               : reference_derivative(loss, at, 1e-4);
            compare_number(what, one->name, actual, slope, size_of(loss));
        } else if (!isfinite(*at)) {
            CHECK_MSG(actual == 0, "%s: d / d %s is %g", what, one->name, actual);
        }
    }
    const whet_policy_gradient zeros = {.strength = 0}; /* nothing is left but what was listed */
    CHECK_MSG(same_bytes(&rest, &zeros, sizeof zeros), "%s: parameters beside the list", what);
}

static reference_loss loss_of(const whet_policy *policy, size_t n, const extras *x) {
    for (size_t i = 0; i < n; i++) {
        exact[i] = (double)logits[i];
        exact_arriving[i] = (double)arriving[i];
        gradient[i] = 4711;
    }
    return (reference_loss){.logits = exact,
                            .n = n,
                            .sink = (double)x->sink,
                            .has_beta = !isnan(x->beta),
                            .beta = (double)x->beta,
                            .policy = *policy,
                            .result_grad = x->has_out ? exact_arriving : NULL,
                            .logsumexp_grad = (double)x->logsumexp_grad,
                            .entropy_grad = (double)x->entropy_grad,
                            .entropy_after_grad = (double)x->entropy_after_grad};
}

/* Runs one row and compares everything that comes out. */
static void check_row(const char *name, const whet_policy *policy, size_t n, const extras *x) {
    char what[300];
    snprintf(what, sizeof what, "%s, n = %zu, sink %g, beta %g, out %d, by %g %g %g", name, n,
             (double)x->sink, (double)x->beta, x->has_out, (double)x->logsumexp_grad,
             (double)x->entropy_grad, (double)x->entropy_after_grad);
    reference_loss loss = loss_of(policy, n, x);
    whet_policy_gradient parameters;
    float grad_sink = 4711, grad_beta = 4711;
    bool has_sink = x->sink != -INFINITY;
    whet_rows_backward rows = {.size = sizeof rows, .rows = 1, .n = n, .in = logits};
    rows.grad_out = x->has_out ? arriving : NULL;
    rows.grad_in = gradient;
    rows.policy_grad = &parameters;
    rows.sink = has_sink ? &x->sink : NULL;
    rows.grad_sink = has_sink ? &grad_sink : NULL;
    rows.beta = loss.has_beta ? &x->beta : NULL;
    rows.grad_beta = &grad_beta;
    rows.grad_logsumexp = x->logsumexp_grad != 0 ? &x->logsumexp_grad : NULL;
    rows.grad_entropy = x->entropy_grad != 0 ? &x->entropy_grad : NULL;
    rows.grad_entropy_after = x->entropy_after_grad != 0 ? &x->entropy_after_grad : NULL;
    if (!rows.grad_out && !rows.grad_logsumexp && !rows.grad_entropy && !rows.grad_entropy_after) {
        rows.grad_entropy = &x->entropy_grad; /* zero, but given */
    }
    CHECK_MSG(whet_softmax_backward(&rows, policy, NULL) == WHET_OK, "%s", what);
    compare_logits(what, &loss);
    compare_parameters(what, &loss, &parameters);
    double size = fmax(size_of(&loss), largest_part(&loss));
    if (has_sink) {
        compare_number(what, "sink", (double)grad_sink,
                       reference_derivative(&loss, &loss.sink, 1e-4), size);
    }
    compare_number(what, "beta", (double)grad_beta, reference_beta_derivative(&loss, 1e-4),
                   size * 3);
}

static void make_row(struct rng *rng, size_t n, double deviation, double masked) {
    rng_fill_normal(rng, logits, n, 0.3, deviation);
    rng_fill_normal(rng, arriving, n, 0.2, 1);
    for (size_t i = 1; i < n; i++) {
        if (rng_uniform(rng, 0, 1) < masked) {
            logits[i] = -INFINITY;
            arriving[i] = NAN; /* nobody looks */
        }
    }
}

static void print_worst_gradient(void) {
    printf("     worst: gradient %.2g of the row's largest, numbers %.2g; %zu of %zu at kinks\n",
           worst_gradient, worst_number, kinks, compared);
    CHECK(compared > 100 && kinks * 20 < compared);
    worst_gradient = worst_number = 0;
    kinks = compared = 0;
}

/* ---- compositions ---- */

typedef struct kind_of_row {
    const size_t *sizes;
    size_t count;
    double deviation, masked;
    struct rng rng;
    bool varies; /* sinks and gradients of statistics come and go */
} kind_of_row;

/* Some of everything. */
static extras draw(struct rng *rng, const whet_policy *policy) {
    uint64_t bits = rng_bits(rng);
    extras x = none;
    x.has_out = bits % 8 != 0;
    x.sink = bits / 8 % 3 ? (float)rng_uniform(rng, -2, 3) : -INFINITY;
    x.logsumexp_grad = bits / 64 % 2 ? (float)rng_uniform(rng, -1, 1) : 0;
    x.entropy_grad = bits / 128 % 2 ? (float)rng_uniform(rng, -1, 1) : 0;
    bool after = bits / 256 % 2 && reference_sums_to_one(policy);
    x.entropy_after_grad = after ? (float)rng_uniform(rng, -1, 1) : 0;
    if (policy->temperature == WHET_POLICY_SOFTMAX && bits / 512 % 2) {
        x.beta = (float)rng_uniform(rng, 0.3, 3);
    }
    return x;
}

static void check_sizes(const char *name, const whet_policy *policy, void *context) {
    kind_of_row *kind = context;
    for (size_t i = 0; i < kind->count; i++) {
        make_row(&kind->rng, kind->sizes[i], kind->deviation, kind->masked);
        extras x = kind->varies ? draw(&kind->rng, policy) : none;
        check_row(name, policy, kind->sizes[i], &x);
    }
}

static const size_t sizes[] = {1, 2, 5, 16, 17, 33, 56, 57, 64};
static const size_t long_sizes[] = {257, 1000};
static const size_t longest_sizes[] = {4097, N_MAX};

TEST(gradients_of_compositions_are_the_differences_of_the_loss) {
    kind_of_row kind = {sizes, COUNT(sizes), 1, 0, rng_seeded(1), false};
    each_composition(check_sizes, &kind);
    kind.deviation = 0.3;
    each_composition(check_sizes, &kind);
    kind.deviation = 2.5;
    kind.masked = 0.3;
    each_composition(check_sizes, &kind);
    kind_of_row longer = {long_sizes, COUNT(long_sizes), 1.5, 0.1, rng_seeded(2), false};
    each_composition(check_sizes, &longer);
    print_worst_gradient();
}

TEST(gradients_with_sinks_and_statistics_are_the_differences_of_the_loss) {
    kind_of_row kind = {sizes, COUNT(sizes), 1, 0, rng_seeded(3), true};
    for (int i = 0; i < 4; i++) {
        each_composition(check_sizes, &kind);
        kind.masked = 0.1 * i;
        kind.deviation = 0.4 + i;
    }
    print_worst_gradient();
    kind_of_row longer = {long_sizes, COUNT(long_sizes), 1.5, 0.1, rng_seeded(4), true};
    each_composition(check_sizes, &longer);
    print_worst_gradient();
}

/* Temperatures and maps alone, and a few of both in rows of several blocks. */
static const char *const names[] = {
    "softmax",
    "fixed:1.7",
    "adaptive",
    "adaptive:strength=0.5",
    "target:0.7",
    "target:0.7:cap=1.3:strength=0.5",
    "ssmax:0.43:0.2:strength=0.8",
    "length:5",
    "exp:0.8",
    "poly:0.3/-0.2/1.1:hold=1.5:strength=0.7",
    "topk:3",
    "hardmax",
    "sparsemax",
    "entmax15",
    "entmax:1.25",
    "softmax1",
    "sigmoid",
    "sigmoid:0.5",
    "stick-breaking",
};
static const char *const long_names[] = {"adaptive", "target:2+topk:100", "ssmax:0.1:0.5+entmax15",
                                         "adaptive+softmax1", "exp:7+stick-breaking"};

TEST(gradients_of_single_policies_with_sinks_and_statistics) {
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        kind_of_row kind = {sizes, COUNT(sizes), 1, 0.1, rng_seeded(5 + k), true};
        for (int i = 0; i < 6; i++) {
            check_sizes(names[k], &policy, &kind);
        }
    }
    print_worst_gradient();
    for (size_t k = 0; k < COUNT(long_names); k++) {
        whet_policy policy = policy_named(long_names[k]);
        kind_of_row kind = {longest_sizes, COUNT(longest_sizes), 1.5,
                            0.1,           rng_seeded(50 + k),   true};
        check_sizes(long_names[k], &policy, &kind);
        check_sizes(long_names[k], &policy, &kind);
    }
    print_worst_gradient();
}

/* ---- each input on its own ---- */

TEST(each_input_alone) {
    struct rng rng = rng_seeded(6);
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        for (int which = 0; which < 5; which++) {
            extras x = none;
            x.has_out = which >= 3;
            x.logsumexp_grad = which == 0 ? 0.7f : 0;
            x.entropy_grad = which == 1 ? -0.6f : 0;
            x.entropy_after_grad = which == 2 && reference_sums_to_one(&policy) ? 0.5f : 0;
            x.sink = which == 3 ? 0.8f : -INFINITY;
            x.beta = which == 4 && policy.temperature == WHET_POLICY_SOFTMAX ? 1.6f : NAN;
            make_row(&rng, 20, 1, 0);
            check_row(names[k], &policy, 20, &x);
            x.sink = 2; /* and with a sink */
            check_row(names[k], &policy, 20, &x);
        }
    }
    print_worst_gradient();
}

/* Fields that add nothing change no more than rounding: the general way is as right as the fast
 * one. */
TEST(zeros_change_nothing_but_rounding) {
    struct rng rng = rng_seeded(7);
    const size_t lengths[] = {1, 7, 57, 300, 5000};
    for (size_t k = 0; k < COUNT(names) * COUNT(lengths); k++) {
        whet_policy policy = policy_named(names[k % COUNT(names)]);
        size_t n = lengths[k / COUNT(names)];
        const float zero = 0, no_sink = -INFINITY;
        float grad_sink = 4711, grad_beta;
        double largest = 0;
        static float general[N_MAX];
        make_row(&rng, n, 1.5, 0.1);
        whet_rows_backward rows = {.size = sizeof rows, .rows = 1, .n = n, .in = logits};
        rows.grad_out = arriving;
        rows.grad_in = gradient;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        rows.grad_in = general;
        rows.grad_entropy = rows.grad_logsumexp = &zero;
        rows.sink = &no_sink;
        rows.grad_sink = &grad_sink;
        rows.grad_beta = &grad_beta;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        for (size_t i = 0; i < n; i++) {
            largest = fmax(largest, fabs((double)gradient[i]));
        }
        for (size_t i = 0; i < n; i++) {
            CHECK_MSG(fabs((double)general[i] - (double)gradient[i]) <= 1e-5 * largest + 1e-9,
                      "%s, n = %zu: %g and %g", names[k % COUNT(names)], n, (double)general[i],
                      (double)gradient[i]);
        }
        CHECK(grad_sink == 0);
    }
}

/* ---- many rows ---- */

enum { ROWS = 5, N = 30 };

typedef struct many {
    float sinks[3 * ROWS], betas[ROWS], logsumexp_grad[ROWS], entropy_grad[ROWS], after_grad[ROWS];
    float grad_sinks[3 * ROWS], grad_betas[ROWS];
} many;

static whet_rows_backward all_rows(many *m, bool with_beta, bool after) {
    whet_rows_backward rows = {.size = sizeof rows, .rows = ROWS, .n = N, .in = logits};
    rows.grad_out = arriving;
    rows.grad_in = gradient;
    rows.sink = m->sinks;
    rows.sink_stride = 3;
    rows.grad_sink = m->grad_sinks;
    rows.beta = with_beta ? m->betas : NULL;
    rows.grad_beta = m->grad_betas;
    rows.grad_logsumexp = m->logsumexp_grad;
    rows.grad_entropy = m->entropy_grad;
    rows.grad_entropy_after = after ? m->after_grad : NULL;
    return rows;
}

static whet_rows_backward row_of(const whet_rows_backward *rows, size_t r) {
    whet_rows_backward one = *rows;
    one.rows = 1;
    one.in = (const float *)rows->in + r * N;
    one.grad_out = (const float *)rows->grad_out + r * N;
    one.sink = rows->sink + r * rows->sink_stride;
    one.beta = rows->beta ? rows->beta + r : NULL;
    one.grad_logsumexp = rows->grad_logsumexp + r;
    one.grad_entropy = rows->grad_entropy + r;
    one.grad_entropy_after = rows->grad_entropy_after ? rows->grad_entropy_after + r : NULL;
    return one;
}

static void fill_many(many *m, struct rng *rng) {
    memset(m, 0x77, sizeof *m);
    make_row(rng, (size_t)ROWS * N, 1, 0);
    for (size_t r = 0; r < ROWS; r++) {
        m->sinks[3 * r] = (float)rng_uniform(rng, -2, 2);
        m->betas[r] = (float)rng_uniform(rng, 0.5, 2);
        m->logsumexp_grad[r] = (float)rng_uniform(rng, -1, 1);
        m->entropy_grad[r] = (float)rng_uniform(rng, -1, 1);
        m->after_grad[r] = (float)rng_uniform(rng, -1, 1);
    }
}

TEST(every_row_has_its_own_and_one_sink_gets_the_sum) {
    struct rng rng = rng_seeded(8);
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        bool with_beta = policy.temperature == WHET_POLICY_SOFTMAX && k % 2;
        many m;
        fill_many(&m, &rng);
        whet_rows_backward rows = all_rows(&m, with_beta, reference_sums_to_one(&policy));
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        double sum = 0, size = 0;
        for (size_t shared = 0; shared < 2; shared++) {
            rows.sink_stride = shared ? 0 : 3;
            for (size_t r = 0; r < ROWS; r++) {
                whet_rows_backward one = row_of(&rows, r);
                float alone[N], sink, beta;
                one.grad_in = alone;
                one.grad_sink = &sink;
                one.grad_beta = &beta;
                CHECK_INT(whet_softmax_backward(&one, &policy, NULL), WHET_OK);
                sum += shared ? (double)sink : 0;
                size += fabs((double)sink);
                CHECK(shared || same_bytes(alone, gradient + r * N, sizeof alone));
                CHECK(shared || (sink == m.grad_sinks[3 * r] && beta == m.grad_betas[r]));
            }
        }
        float all = 4711;
        rows.grad_sink = &all;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(fabs((double)all - sum) <= 1e-6 * size + 1e-12, "%s: %g for %g", names[k],
                  (double)all, sum);
        float gap;
        memset(&gap, 0x77, sizeof gap);
        CHECK(same_bytes(&m.grad_sinks[1], &gap, sizeof gap));
    }
}

/* ---- rows that are not finite ---- */

/* Row 2 is spoilt in one way or another, and nothing else is. */
static void check_spoilt(const char *what, const whet_rows_backward *rows,
                         const whet_policy *policy, many *m) {
    size_t first_bad = 99;
    whet_policy_gradient parameters, without;
    whet_rows_backward all = *rows;
    all.policy_grad = &parameters;
    CHECK_MSG(whet_softmax_backward(&all, policy, &first_bad) == WHET_NOT_FINITE, "%s", what);
    CHECK_INT(first_bad, 2);
    for (size_t r = 0; r < ROWS; r++) {
        size_t bad = 0;
        for (size_t i = 0; i < N; i++) {
            bad += isnan(gradient[r * N + i]) ? 1 : 0;
        }
        CHECK_MSG(bad == (r == 2 ? N : 0), "%s: %zu in row %zu", what, bad, r);
        CHECK_MSG((bool)isnan(m->grad_sinks[3 * r]) == (r == 2), "%s: sink %zu", what, r);
        CHECK_MSG((bool)isnan(m->grad_betas[r]) == (r == 2), "%s: beta %zu", what, r);
    }
    /* what is summed leaves it out */
    double strength = 0, map_value = 0;
    for (size_t r = 0; r < ROWS; r++) {
        whet_rows_backward one = row_of(rows, r);
        one.grad_in = gradient + r * N;
        one.policy_grad = &without;
        one.grad_sink = one.grad_beta = NULL;
        whet_softmax_backward(&one, policy, NULL);
        strength += r == 2 ? 0 : without.strength;
        map_value += r == 2 ? 0 : without.map_value[0];
    }
    CHECK_NEAR(parameters.strength, strength, 1e-9 * (1 + fabs(strength)));
    CHECK_NEAR(parameters.map_value[0], map_value, 1e-9 * (1 + fabs(map_value)));
}

TEST(what_is_not_finite_spoils_its_own_row) {
    struct rng rng = rng_seeded(9);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        bool with_beta = policy.temperature == WHET_POLICY_SOFTMAX;
        for (size_t b = 0; b < COUNT(bad); b++) {
            for (int where = 0; where < 7; where++) {
                char what[120];
                many m;
                fill_many(&m, &rng);
                float *const places[] = {
                    &logits[2 * N + 1], &arriving[2 * N + 1], &m.sinks[3 * 2], &m.logsumexp_grad[2],
                    &m.entropy_grad[2], &m.after_grad[2],     &m.betas[2]};
                bool counts = (where != 5 || reference_sums_to_one(&policy)) &&
                              (where != 6 || with_beta) && (b != 2 || (where != 0 && where != 2)) &&
                              (b == 0 || where != 6);
                if (!counts) {
                    continue;
                }
                *places[where] = bad[b];
                snprintf(what, sizeof what, "%s, %g in place %d", names[k], (double)bad[b], where);
                whet_rows_backward rows = all_rows(&m, with_beta, reference_sums_to_one(&policy));
                check_spoilt(what, &rows, &policy, &m);
            }
        }
    }
}

/* A row of no entries and one of masked entries alone: the same gradients, the same bad rows. */
TEST(rows_of_nothing_are_rows_in_which_all_is_masked) {
    enum { EMPTY_ROWS = 5 };
    const float sinks[EMPTY_ROWS] = {2, -INFINITY, NAN, 1, 0};
    const float grad_logsumexp[EMPTY_ROWS] = {0.5f, 3, 1, NAN, -2};
    const float masked[EMPTY_ROWS] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (size_t stride = 0; stride < 2; stride++) {
        float grad_sink[2][EMPTY_ROWS] = {{0}}, grad_beta[2][EMPTY_ROWS] = {{0}},
              grad_in[EMPTY_ROWS] = {0};
        size_t first_bad[2] = {99, 99};
        whet_status status[2];
        for (size_t n = 0; n < 2; n++) {
            whet_rows_backward rows = {.size = sizeof rows, .rows = EMPTY_ROWS, .n = n};
            rows.in = n ? masked : NULL;
            rows.grad_in = n ? grad_in : NULL;
            rows.sink = sinks;
            rows.sink_stride = stride;
            rows.grad_logsumexp = grad_logsumexp;
            rows.grad_sink = grad_sink[n];
            rows.grad_beta = grad_beta[n];
            status[n] = whet_softmax_backward(&rows, NULL, &first_bad[n]);
        }
        CHECK_INT(status[0], status[1]);
        CHECK_INT(first_bad[0], first_bad[1]);
        CHECK(same_bytes(grad_sink[0], grad_sink[1], sizeof grad_sink[0]));
        CHECK(same_bytes(grad_beta[0], grad_beta[1], sizeof grad_beta[0]));
        CHECK(grad_sink[0][0] != 0);
    }
    whet_rows_backward any_number = {.size = sizeof any_number, .rows = PTRDIFF_MAX, .sink = sinks};
    CHECK_INT(whet_softmax_backward(&any_number, NULL, NULL), WHET_OK);
    any_number.sink = &sinks[2];
    CHECK_INT(whet_softmax_backward(&any_number, NULL, NULL), WHET_NOT_FINITE);
}

TEST(empty_rows_get_zeros) {
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        const float sink = 1.5f, by = 2, beta = NAN;
        float grad_sink = 4711, grad_beta = 4711;
        for (size_t i = 0; i < N; i++) {
            logits[i] = -INFINITY;
            arriving[i] = NAN;
            gradient[i] = 4711;
        }
        whet_rows_backward rows = {.size = sizeof rows, .rows = 1, .n = N, .in = logits};
        rows.grad_out = arriving;
        rows.grad_in = gradient;
        rows.grad_entropy = &by;
        rows.sink = &sink;
        rows.grad_sink = &grad_sink;
        rows.grad_beta = &grad_beta;
        rows.beta = policy.temperature == WHET_POLICY_SOFTMAX ? &beta : NULL;
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        for (size_t i = 0; i < N; i++) {
            CHECK(gradient[i] == 0);
        }
        CHECK_MSG(grad_sink == 0 && grad_beta == 0, "%s: %g, %g", names[k], (double)grad_sink,
                  (double)grad_beta);
        rows.grad_logsumexp = &by; /* which is the sink */
        CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(grad_sink == 2, "%s: %g", names[k], (double)grad_sink);
    }
}

/* ---- types ---- */

TEST(narrow_rows_get_the_rounded_gradients_of_wide_ones) {
    struct rng rng = rng_seeded(10);
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        for (int type = 0; type < 9; type++) {
            size_t n = k % 4 == 0 && type == 4 ? 4300 : 5 + 13 * (size_t)type;
            array in = array_new((whet_type)(type % 3), 1, n, 0, false);
            array grad = array_new((whet_type)(type / 3), 1, n, 0, false);
            array result = array_new((whet_type)((type + 1) % 3), 1, n, 0, false);
            float sink = 0.5f, by = 0.25f, sinks[2], betas[2];
            fill_logits(&in, &rng);
            fill_logits(&grad, &rng);
            for (size_t i = 0; i < n; i++) {
                logits[i] = (float)array_get(&in, 0, i);
                arriving[i] = (float)array_get(&grad, 0, i);
            }
            whet_rows_backward rows = {.size = sizeof rows, .rows = 1, .n = n};
            rows.sink = &sink;
            rows.grad_logsumexp = rows.grad_entropy = &by;
            rows.in = logits;
            rows.grad_out = arriving;
            rows.grad_in = gradient;
            rows.grad_sink = &sinks[0];
            rows.grad_beta = &betas[0];
            CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
            rows.in = in.first;
            rows.in_type = in.type;
            rows.grad_out = grad.first;
            rows.grad_out_type = grad.type;
            rows.grad_in = result.first;
            rows.grad_in_type = result.type;
            rows.grad_sink = &sinks[1];
            rows.grad_beta = &betas[1];
            CHECK_INT(whet_softmax_backward(&rows, &policy, NULL), WHET_OK);
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++) {
                wrong += result.type == WHET_F32 ? (float)array_get(&result, 0, i) != gradient[i]
                                                 : !reference_is_rounded(array_at(&result, 0, i),
                                                                         result.type, gradient[i]);
            }
            CHECK_MSG(wrong == 0 && sinks[0] == sinks[1] && betas[0] == betas[1],
                      "%s, type %d: %zu of %zu wrong", names[k], type, wrong, n);
            guarded_free(in.memory);
            guarded_free(grad.memory);
            guarded_free(result.memory);
        }
    }
}
