/*
 * The backward pass of one row under a temperature and softmax. With p = softmax(beta e),
 * the incoming gradient g and D = sum p g, the gradient of beta is
 *
 *     G = sum p (g - D) e
 *
 * and that of a logit, directly and through beta (see beta_derivative in policy/beta.h),
 *
 *     beta p_j (g_j - D) - G factor w_j (e_j - m_w)
 *
 * One pass over the row computes the sums for D and G, another stores the gradient. A
 * short row's exponentials are kept in between, a long row's are computed again.
 *
 * g is taken relative to the gradient at the largest logit: the sharper a row, the closer
 * D is to that, and the more digits their difference would lose otherwise.
 */
#include "row/row_backward.h"
#include "base/sums.h"
#include "policy/beta.h"
#include "policy/registry.h"

#include <float.h>

/* Blocks of a row: its logits, the gradient that arrives, exponentials at beta and at beta0. */
typedef struct blocks {
    _Alignas(64) float logits[ROW_BLOCK];
    _Alignas(64) float gradient[ROW_BLOCK];
    _Alignas(64) float p[ROW_BLOCK];
    _Alignas(64) float w[ROW_BLOCK];
} blocks;

/* What is known of a row on its backward pass; sums are relative to the largest logit. */
typedef struct softmax_backward {
    const row_view *row, *grad;
    float max, exp2_scale, exp2_scale0;
    float g_base;             /* what arrives at the largest logit */
    row_sums plain, weighted; /* at beta; with each exponential times g - g_base */
    row_sums moved;           /* at beta0 */
    double mean;              /* D - g_base */
    double beta_grad;         /* G */
    beta_derivative derivative;
} softmax_backward;

static float base_of(const softmax_backward *at, blocks *b) {
    const row_view *row = at->row;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        const float *x = whet_row_load(row, start, count, b->logits);
        size_t found = row->kernels->find(x, count, at->max);
        if (found < count)
            return *whet_row_load(at->grad, start + found, 1, b->gradient);
    }
    return 0; /* all masked, or NaN among them */
}

static void sum_gradient(softmax_backward *at, blocks *b) {
    const row_view *row = at->row;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        const float *x = whet_row_load(row, start, count, b->logits);
        const float *g = whet_row_load(at->grad, start, count, b->gradient);
        row->kernels->gradient_sums(x, g, count, at->max, at->exp2_scale, at->g_base, b->p,
                                    &at->plain, &at->weighted);
    }
    gradient_sums sums = {at->plain.z, at->plain.s, at->weighted.z, at->weighted.s};
    at->mean = gradient_mean(sums);
    at->beta_grad = gradient_of_beta(sums);
}

/* How beta moves, and the sums at beta0 that go with it. */
static void find_derivative(softmax_backward *at, const whet_policy *policy,
                            const whet_stats *stats, blocks *b) {
    double variance = NAN;
    at->exp2_scale0 = whet_exp2_scale(whet_beta0(policy, stats));
    at->moved = (row_sums){stats->z, stats->s, 0};
    if ((whet_temperature_of(policy)->needs & NEEDS_SEARCH) && stats->beta != 1) {
        at->moved = whet_row_moments(at->row, at->max, at->exp2_scale0, b->logits);
        double mean = at->moved.s / at->moved.z;
        variance = at->moved.q / at->moved.z - mean * mean;
    }
    whet_differentiate_beta(policy, stats, variance, &at->derivative);
}

/* Within what a float holds, so that a product with zero is zero. */
static float to_float(double x) { return (float)fmax(-FLT_MAX, fmin(FLT_MAX, x)); }

static row_gradient gradient_of(const softmax_backward *at, double beta) {
    row_gradient result = {.max = at->max,
                           .p_scale = to_float(beta / at->plain.z),
                           .g_base = at->g_base,
                           .g_mean = to_float(at->mean)};
    if (at->derivative.factor != 0) {
        result.w_scale = to_float(-at->beta_grad * at->derivative.factor / at->moved.z);
        result.d_mean = to_float(at->moved.s / at->moved.z);
    }
    return result;
}

/* b->p still holds a short row's exponentials; a gradient narrower than f32 overwrites them. */
static void store_gradient(const softmax_backward *at, double beta, blocks *b) {
    const row_view *row = at->row;
    const kernels *k = row->kernels;
    bool moves = at->derivative.factor != 0;
    row_gradient result = gradient_of(at, beta);
    result.p = b->p;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        result.n = whet_row_block(row, start);
        result.x = whet_row_load(row, start, result.n, b->logits);
        result.g = whet_row_load(at->grad, start, result.n, b->gradient);
        if (row->n > ROW_BLOCK)
            k->exp_store(result.x, result.n, at->max, at->exp2_scale, b->p);
        if (moves && at->exp2_scale0 != at->exp2_scale)
            k->exp_store(result.x, result.n, at->max, at->exp2_scale0, b->w);
        result.w = !moves ? NULL : at->exp2_scale0 != at->exp2_scale ? b->w : b->p;
        result.y = row->out_type == WHET_F32 ? (float *)row->out + start : b->p;
        k->gradient_store(&result);
        if (row->out_type != WHET_F32)
            whet_row_store(row, start, result.n, b->p);
    }
}

/* A row that is empty, which is fine, or not finite, which is not. */
static bool finish(const row_view *row, double z, whet_stats *stats) {
    whet_row_finish_special(row, z, stats);
    return !isnan(z);
}

static bool temperature_backward(const row_view *row, const row_view *grad, const row_job *job,
                                 whet_stats *stats, blocks *b, whet_policy_gradient *parameters) {
    softmax_backward at = {.row = row, .grad = grad, .exp2_scale = whet_exp2_scale(stats->beta)};
    at.max = job->needs_sums ? (float)stats->max : whet_row_max(row, b->logits);
    if (at.max == -INFINITY) /* all masked, or NaN among them, which the sums show */
        at.max = 0;
    at.g_base = base_of(&at, b);
    sum_gradient(&at, b);
    if (!(at.plain.z > 0))
        return finish(row, at.plain.z, stats);
    if (!isfinite(at.weighted.z))
        return finish(row, NAN, stats);
    if (parameters || !whet_beta_is_constant(job->policy))
        find_derivative(&at, job->policy, stats, b);
    if (at.derivative.factor != 0 && !isfinite(at.beta_grad * at.derivative.factor))
        return finish(row, NAN, stats);
    store_gradient(&at, stats->beta, b);
    if (parameters)
        whet_add_parameters(&at.derivative.parameters, at.beta_grad, parameters);
    return true;
}

/* Whether only the result has a gradient, and the row has nothing besides its logits. */
static bool is_plain(const row_view *row, const row_gradients *gradients) {
    return !row->has_sink && !row->has_beta && !gradients->weights && !gradients->wants_beta &&
           gradients->logsumexp == 0 && gradients->entropy == 0 && gradients->entropy_after == 0 &&
           gradients->out;
}

/* Of an empty row: its logsumexp is its sink, if it has one. */
static bool empty_backward(const row_view *row, row_gradients *gradients) {
    gradients->sink = row->has_sink ? gradients->logsumexp : 0;
    if (!isfinite(gradients->sink))
        whet_row_fill(row, NAN);
    return isfinite(gradients->sink);
}

bool whet_row_backward(const row_view *row, const row_job *job, row_gradients *gradients) {
    blocks b;
    whet_stats stats;
    row_view held = whet_row_hold(row, b.logits), held_grad;
    row_job all = *job;
    bool is_fast = (job->map->traits & MAP_IS_SOFTMAX) && is_plain(row, gradients);
    all.needs_sums = all.needs_count = job->needs_sums || !is_fast;
    if (is_fast)
        all.needs_count = job->needs_count;
    gradients->beta = gradients->sink = 0;
    if (!whet_row_describe(&held, &all, &stats, b.logits))
        return !(stats.flags & WHET_ROW_NOT_FINITE) && empty_backward(row, gradients);
    if (isnan(whet_row_beta(&held, &all, &stats, b.logits)))
        return false;
    const row_view *arriving = gradients->out;
    if (arriving) {
        held_grad = whet_row_hold(arriving, b.gradient);
        gradients->out = &held_grad;
    }
    bool finite =
        is_fast ? temperature_backward(&held, &held_grad, &all, &stats, &b, gradients->parameters)
                : whet_map_row_backward(&held, &all, &stats, gradients);
    gradients->out = arriving;
    if (row->has_beta && !whet_beta_is_free(row->beta))
        gradients->beta = 0;
    return finite;
}
