/* The backward pass of an example: see backward_run.h. */
#include "attention/backward_run.h"

#include "reference/reference.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static whet_tensor_out gradient_of(example *e, const example_tensor *of, example_tensor *gradient,
                                   whet_type type) {
    memcpy(gradient->extent, of->extent, sizeof gradient->extent);
    gradient->type = type;
    if (of->type > WHET_BF16) {
        return (whet_tensor_out){.data = NULL};
    }
    example_place(e, gradient, e->layout);
    whet_tensor_out result = {.data = gradient->base, .type = type};
    if (e->layout != CONTIGUOUS) {
        memcpy(result.stride, gradient->stride, sizeof result.stride);
    }
    return result;
}

/* ---- biases and statistics ---- */

static size_t rows_of(const whet_attention *a) {
    return (a->batch ? a->batch : 1) * a->heads * a->queries;
}

/* The strides of a contiguous bias with numbers of its own for some axes; returns how many. */
static size_t bias_strides(const whet_attention *a, unsigned axes, ptrdiff_t stride[3]) {
    size_t batch = a->batch ? a->batch : 1;
    size_t heads = axes & MASK_HEADS ? a->heads : 1;
    stride[0] = axes & MASK_BATCH ? (ptrdiff_t)(heads * a->keys * sizeof(float)) : 0;
    stride[1] = axes & MASK_HEADS ? (ptrdiff_t)(a->keys * sizeof(float)) : 0;
    stride[2] = 0;
    return (axes & MASK_BATCH ? batch : 1) * heads * a->keys;
}

void backward_run_bias_gradient(backward_run *w, example *e, unsigned axes) {
    whet_key_bias_out *bias = &w->gradients.bias;
    size_t count = bias_strides(&e->attention, axes, bias->stride);
    bias->data = example_memory(e, count * sizeof *bias->data);
}

static float *random_rows(example *e) {
    size_t rows = rows_of(&e->attention);
    float *result = example_memory(e, rows * sizeof *result);
    rng_fill_normal(&e->rng, result, rows, 0, 1);
    return result;
}

static bool all_sum_to_one(const whet_attention *a) {
    for (size_t i = 0; a->policies && i < (a->policy_count ? a->policy_count : 1); i++) {
        uint32_t map = a->policies[i].map;
        if (map == WHET_POLICY_SOFTMAX1 || map == WHET_POLICY_SIGMOID ||
            map == WHET_POLICY_STICK_BREAKING || map == WHET_POLICY_SOFTPICK) {
            return false;
        }
    }
    return true;
}

void backward_run_statistics(backward_run *w, example *e) {
    w->gradients.logsumexp = random_rows(e);
    w->gradients.entropy = random_rows(e);
    w->gradients.entropy_after = all_sum_to_one(&e->attention) ? random_rows(e) : NULL;
}

/* ---- new ---- */

backward_run backward_run_new(example *e, whet_type type) {
    backward_run w = {.first_bad_row = UINT64_MAX};
    whet_gradients *g = &w.gradients;
    whet_attention *a = &e->attention;
    size_t rows = e->q.extent[0] * e->q.extent[1] * e->q.extent[2];
    float *out = example_memory(e, rows * e->v.extent[3] * sizeof *out);
    a->out = (whet_tensor_out){.data = out, .type = WHET_F32};
    a->stats = example_memory(e, rows * sizeof *a->stats);
    whet_status status = whet_attention_forward(a, NULL, NULL);
    CHECK(status == WHET_OK || status == WHET_NOT_FINITE);
    w.out = (example_tensor){.extent = {e->q.extent[0], e->q.extent[1], e->q.extent[2]},
                             .type = e->q.type};
    w.out.extent[3] = e->v.extent[3];
    example_place(e, &w.out, e->layout);
    example_fill(&w.out, &e->rng, 1);
    *g = (whet_gradients){.size = sizeof *g, .attention = *a};
    memset(&g->attention.out, 0, sizeof g->attention.out); /* nobody looks there */
    g->out = example_describe(&w.out, e->layout);
    g->q = gradient_of(e, &e->q, &w.q, type);
    g->k = gradient_of(e, &e->k, &w.k, type);
    g->v = gradient_of(e, &e->v, &w.v, type);
    size_t policies = a->policy_count > 1 ? a->policy_count : 1;
    g->policies = example_memory(e, policies * sizeof *g->policies);
    g->sinks = a->sinks ? example_memory(e, a->heads * sizeof(float)) : NULL;
    g->alibi_slopes = a->alibi_slopes ? example_memory(e, a->heads * sizeof(float)) : NULL;
    g->betas = example_memory(e, rows * sizeof(float));
    if (a->bias.data) {
        backward_run_bias_gradient(
            &w, e, (a->bias.stride[0] ? MASK_BATCH : 0) | (a->bias.stride[1] ? MASK_HEADS : 0));
    }
    return w;
}

void backward_run_now(backward_run *w, const whet_executor *executor) {
    w->first_bad_row = UINT64_MAX;
    w->status = whet_attention_backward(&w->gradients, executor, &w->first_bad_row);
}

/* ---- bit for bit ---- */

static size_t count_of(const example_tensor *t) {
    return t->base ? t->extent[0] * t->extent[1] * t->extent[2] * t->extent[3] : 0;
}

/* Element i of the tensor, counted as if it were contiguous. */
static const char *element(const example_tensor *t, size_t i) {
    size_t row = i / t->extent[3];
    size_t head = row / t->extent[2];
    return example_row(t, head / t->extent[1], head % t->extent[1], row % t->extent[2]) +
           (ptrdiff_t)(i % t->extent[3]) * t->stride[3];
}

/* Numbers of the bias's gradient, which is contiguous. */
static size_t bias_count(const whet_gradients *g) {
    ptrdiff_t stride[3];
    unsigned axes = (g->bias.stride[0] ? MASK_BATCH : 0u) | (g->bias.stride[1] ? MASK_HEADS : 0u);
    return g->bias.data ? bias_strides(&g->attention, axes, stride) : 0;
}

unsigned char *backward_run_bytes(const backward_run *w, size_t *size) {
    const whet_gradients *g = &w->gradients;
    const example_tensor *tensors[] = {&w->q, &w->k, &w->v};
    size_t heads = g->attention.heads;
    size_t policies = g->attention.policy_count > 1 ? heads : 1;
    size_t biases = bias_count(g), betas = g->betas ? rows_of(&g->attention) : 0;
    *size = policies * sizeof *g->policies + (2 * heads + biases + betas) * sizeof(float);
    for (size_t i = 0; i < 3; i++) {
        *size += count_of(tensors[i]) * reference_size(tensors[i]->type);
    }
    unsigned char *bytes = calloc(*size, 1);
    unsigned char *to = bytes;
    REQUIRE(bytes != NULL);
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < count_of(tensors[i]); j++) {
            size_t n = reference_size(tensors[i]->type);
            memcpy(to, element(tensors[i], j), n);
            to += n;
        }
    }
    memcpy(to, g->policies, policies * sizeof *g->policies);
    to += policies * sizeof *g->policies;
    if (g->sinks) {
        memcpy(to, g->sinks, heads * sizeof(float));
    }
    to += heads * sizeof(float);
    if (g->alibi_slopes) {
        memcpy(to, g->alibi_slopes, heads * sizeof(float));
    }
    to += heads * sizeof(float);
    if (biases > 0) {
        memcpy(to, g->bias.data, biases * sizeof(float));
    }
    to += biases * sizeof(float);
    if (betas > 0) {
        memcpy(to, g->betas, betas * sizeof(float));
    }
    return bytes;
}

/* ---- comparison ---- */

static double worst;

void backward_run_print_worst(void) {
    printf("     worst: %.2g of the terms\n", worst);
    worst = 0;
}

/* What rounding to a type may add: relative and absolute. */
static double rounding(whet_type type, double right) {
    if (type == WHET_F32) {
        return 0;
    }
    return type == WHET_F16 ? fabs(right) * 0x1p-11 + 0x1p-24 : fabs(right) * 0x1p-8;
}

static double largest_of(const double *x, size_t n) {
    double result = 0;
    for (size_t i = 0; i < n; i++) {
        result = fmax(result, isfinite(x[i]) ? fabs(x[i]) : 0);
    }
    return result;
}

/* One number; returns whether it is right. */
static bool is_right(double actual, double right, double size, whet_type type) {
    if (isnan(right) || isnan(actual)) {
        return isnan(right) && isnan(actual);
    }
    double error = fmax(0, fabs(actual - right) - rounding(type, right));
    double relative = error > 0 ? error / fmax(size, 1e-30) : 0;
    worst = fmax(worst, relative);
    return relative <= GRADIENT_LIMIT;
}

static void compare_tensor(const char *what, const char *name, const example_tensor *t,
                           const double *right, const double *sizes) {
    size_t n = count_of(t), wrong = 0, first = 0;
    /* Logits far below the maximum are large themselves, and so is what rounding does to their
     * weights; at a trillionth of the rest that is no loss. */
    double least = 1e-12 * largest_of(sizes, n);
    for (size_t i = 0; i < n; i++) {
        double actual = reference_load(element(t, i), t->type);
        if (!is_right(actual, right[i], fmax(sizes[i], least), t->type)) {
            first = wrong++ ? first : i;
        }
    }
    CHECK_MSG(wrong == 0, "%s: %zu of %zu %s wrong, [%zu][%zu] is %.9g, not %.9g (size %.3g)", what,
              wrong, n, name, wrong ? first / t->extent[3] : 0, wrong ? first % t->extent[3] : 0,
              wrong ? reference_load(element(t, first), t->type) : 0, wrong ? right[first] : 0,
              wrong ? sizes[first] : 0);
}

static void compare_heads(const char *what, const char *name, const float *actual,
                          const double *right, const double *sizes, size_t heads) {
    for (size_t h = 0; actual && h < heads; h++) {
        CHECK_MSG(is_right((double)actual[h], right[h], sizes[h], WHET_F32),
                  "%s: %s of head %zu is %.9g, not %.9g", what, name, h, (double)actual[h],
                  right[h]);
    }
}

static void compare_policies(const char *what, const whet_gradients *g,
                             const reference_gradients *right) {
    enum { NUMBERS = sizeof(whet_policy_gradient) / sizeof(double) };
    size_t count = g->attention.policy_count > 1 ? g->attention.policy_count : 1;
    for (size_t i = 0; g->policies && i < count; i++) {
        double a[NUMBERS], b[NUMBERS], sizes[NUMBERS];
        memcpy(a, &g->policies[i], sizeof a);
        memcpy(b, &right->of.policies[i], sizeof b);
        memcpy(sizes, &right->sizes.policies[i], sizeof sizes);
        double noise = 1e-6 * largest_of(sizes, NUMBERS); /* of the reference's differences */
        for (size_t n = 0; n < NUMBERS; n++) {
            CHECK_MSG(is_right(a[n], b[n], fmax(sizes[n], noise), WHET_F32),
                      "%s: number %zu of policy %zu is %.9g, not %.9g", what, n, i, a[n], b[n]);
        }
    }
}

static void compare_betas(const char *what, const whet_gradients *g,
                          const reference_gradients *right) {
    for (size_t row = 0; g->betas && row < rows_of(&g->attention); row++) {
        CHECK_MSG(is_right((double)g->betas[row], right->of.betas[row], right->sizes.betas[row],
                           WHET_F32),
                  "%s: beta of row %zu is %.9g, not %.9g (size %.3g)", what, row,
                  (double)g->betas[row], right->of.betas[row], right->sizes.betas[row]);
    }
}

/* The reference has one for each batch, head and key. */
static void compare_bias(const char *what, const whet_gradients *g,
                         const reference_gradients *right) {
    const whet_attention *a = &g->attention;
    size_t count = bias_count(g), batch = a->batch ? a->batch : 1;
    double *sums = calloc(2 * count + 1, sizeof *sums);
    REQUIRE(sums != NULL);
    for (size_t i = 0; count > 0 && i < batch * a->heads * a->keys; i++) {
        size_t head = i / a->keys;
        size_t at = (head / a->heads * (size_t)g->bias.stride[0] +
                     head % a->heads * (size_t)g->bias.stride[1]) /
                        sizeof(float) +
                    i % a->keys;
        sums[at] += right->of.bias[i];
        sums[count + at] += right->sizes.bias[i];
    }
    for (size_t i = 0; i < count; i++) {
        CHECK_MSG(is_right((double)g->bias.data[i], sums[i], sums[count + i], WHET_F32),
                  "%s: bias %zu is %.9g, not %.9g (size %.3g)", what, i, (double)g->bias.data[i],
                  sums[i], sums[count + i]);
    }
    free(sums);
}

void backward_run_compare(const backward_run *w, const char *what) {
    const whet_gradients *g = &w->gradients;
    reference_gradients right = reference_backward(g, SHARP);
    const reference_sums *of = &right.of, *sizes = &right.sizes;
    compare_tensor(what, "dq", &w->q, of->q, sizes->q);
    compare_tensor(what, "dk", &w->k, of->k, sizes->k);
    compare_tensor(what, "dv", &w->v, of->v, sizes->v);
    compare_heads(what, "sink", g->sinks, of->sinks, sizes->sinks, g->attention.heads);
    compare_heads(what, "slope", g->alibi_slopes, of->alibi_slopes, sizes->alibi_slopes,
                  g->attention.heads);
    compare_policies(what, g, &right);
    compare_betas(what, g, &right);
    compare_bias(what, g, &right);
    reference_gradients_free(&right);
}

void backward_run_check(example *e, whet_type type, const char *what) {
    backward_run w = backward_run_new(e, type);
    backward_run_now(&w, NULL);
    CHECK_MSG(w.status == WHET_OK, "%s: status %d", what, (int)w.status);
    backward_run_compare(&w, what);
    example_free(e);
}
