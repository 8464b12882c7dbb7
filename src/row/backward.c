/*
 * The way back through one row under a temperature. With p = softmax(beta e),
 * the gradient g that arrives and D = sum p g, beta gets
 *
 *     G = sum p (g - D) e
 *
 * and a logit, on its own account and through beta (see beta_path in row.h),
 *
 *     beta p_j (g_j - D) - G factor w_j (e_j - m_w)
 *
 * One pass over the row sums what D and G are made of, another one stores. A
 * short row's exponentials are kept in between, a long row's taken again.
 *
 * g counts from what arrives at the largest logit: the sharper a row, the closer
 * D comes to that, and the more digits their difference would lose otherwise.
 */
#include "row/row.h"

#include <float.h>
#include <math.h>

/* Blocks of a row: its logits, the gradient that arrives, exponentials at beta and at beta0. */
typedef struct blocks {
    _Alignas(64) float logits[ROW_BLOCK];
    _Alignas(64) float gradient[ROW_BLOCK];
    _Alignas(64) float p[ROW_BLOCK];
    _Alignas(64) float w[ROW_BLOCK];
} blocks;

/* What is known of a row on its way back; sums are relative to the largest logit. */
typedef struct way_back {
    const row_view *row, *grad;
    float max, c, c0;
    float g_base;             /* what arrives at the largest logit */
    row_sums plain, weighted; /* at beta; with each exponential times g - g_base */
    row_sums moved;           /* at beta0 */
    double mean;              /* D - g_base */
    double by_beta;           /* G */
    beta_path path;
} way_back;

static float base_of(const way_back *way, blocks *b) {
    const row_view *row = way->row;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        const float *x = whet_row_load(row, start, count, b->logits);
        size_t found = row->kernels->find(x, count, way->max);
        if (found < count)
            return *whet_row_load(way->grad, start + found, 1, b->gradient);
    }
    return 0; /* all masked, or NaN among them */
}

static void sum_gradient(way_back *way, blocks *b) {
    const row_view *row = way->row;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        const float *x = whet_row_load(row, start, count, b->logits);
        const float *g = whet_row_load(way->grad, start, count, b->gradient);
        row->kernels->gradient_sums(x, g, count, way->max, way->c, way->g_base, b->p, &way->plain,
                                    &way->weighted);
    }
    way->mean = way->weighted.z / way->plain.z;
    way->by_beta = (way->weighted.s - way->mean * way->plain.s) / way->plain.z;
}

/* How beta moves, and the sums at beta0 that go with it. */
static void find_path(way_back *way, const whet_policy *policy, const whet_stats *stats,
                      blocks *b) {
    double variance = NAN;
    way->c0 = whet_beta_to_c(whet_beta_path_start(policy, stats));
    way->moved = (row_sums){stats->z, stats->s, 0};
    if (policy->kind == WHET_POLICY_TARGET && stats->beta != 1) {
        way->moved = whet_row_moments(way->row, way->max, way->c0, b->logits);
        double mean = way->moved.s / way->moved.z;
        variance = way->moved.q / way->moved.z - mean * mean;
    }
    whet_beta_path(policy, stats, variance, &way->path);
}

/* Within what a float holds, so that a product with zero is zero. */
static float to_float(double x) { return (float)fmax(-FLT_MAX, fmin(FLT_MAX, x)); }

static row_gradient gradient_of(const way_back *way, double beta) {
    row_gradient result = {.max = way->max,
                           .p_scale = to_float(beta / way->plain.z),
                           .g_base = way->g_base,
                           .g_mean = to_float(way->mean)};
    if (way->path.factor != 0) {
        result.w_scale = to_float(-way->by_beta * way->path.factor / way->moved.z);
        result.d_mean = to_float(way->moved.s / way->moved.z);
    }
    return result;
}

/* b->p still holds a short row's exponentials; a gradient narrower than f32 takes their place. */
static void store_gradient(const way_back *way, double beta, blocks *b) {
    const row_view *row = way->row;
    const kernels *k = row->kernels;
    bool moves = way->path.factor != 0;
    row_gradient result = gradient_of(way, beta);
    result.p = b->p;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        result.n = whet_row_block(row, start);
        result.x = whet_row_load(row, start, result.n, b->logits);
        result.g = whet_row_load(way->grad, start, result.n, b->gradient);
        if (row->n > ROW_BLOCK)
            k->exp_store(result.x, result.n, way->max, way->c, b->p);
        if (moves && way->c0 != way->c)
            k->exp_store(result.x, result.n, way->max, way->c0, b->w);
        result.w = !moves ? NULL : way->c0 != way->c ? b->w : b->p;
        result.y = row->out_type == WHET_F32 ? (float *)row->out + start : b->p;
        k->gradient_store(&result);
        if (row->out_type != WHET_F32)
            whet_row_store(row, start, result.n, b->p);
    }
}

/* G leaves the range of numbers only where beta is next to nothing. */
static void add_number(double by_beta, double number, double *sum) {
    if (number != 0 && isfinite(by_beta))
        *sum += by_beta * number;
}

static void add_numbers(const way_back *way, whet_policy_gradient *numbers) {
    const whet_policy_gradient *by_number = &way->path.numbers;
    for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++)
        add_number(way->by_beta, by_number->value[i], &numbers->value[i]);
    add_number(way->by_beta, by_number->strength, &numbers->strength);
    add_number(way->by_beta, by_number->hold, &numbers->hold);
}

/* A row that is empty, which is fine, or not finite, which is not. */
static bool finish(const row_view *row, double z, whet_stats *stats) {
    whet_row_finish_odd(row, z, stats);
    return !isnan(z);
}

static bool temperature_backward(const row_view *row, const row_view *grad, const row_job *job,
                                 whet_stats *stats, blocks *b, whet_policy_gradient *numbers) {
    double beta = whet_row_beta(row, job->policy, stats, b->logits);
    if (isnan(beta))
        return false;
    way_back way = {.row = row, .grad = grad, .c = whet_apply_beta(stats, beta)};
    way.max = job->needs_sums ? (float)stats->max : whet_row_max(row, b->logits);
    if (way.max == -INFINITY) /* all masked, or NaN among them, which the sums show */
        way.max = 0;
    way.g_base = base_of(&way, b);
    sum_gradient(&way, b);
    if (!(way.plain.z > 0))
        return finish(row, way.plain.z, stats);
    if (!isfinite(way.weighted.z))
        return finish(row, NAN, stats);
    if (numbers || !whet_policy_is_constant(job->policy))
        find_path(&way, job->policy, stats, b);
    if (way.path.factor != 0 && !isfinite(way.by_beta * way.path.factor))
        return finish(row, NAN, stats);
    store_gradient(&way, beta, b);
    if (numbers)
        add_numbers(&way, numbers);
    return true;
}

static bool row_backward(const row_view *row, const row_view *grad, const row_job *job,
                         float *weights, whet_policy_gradient *numbers) {
    blocks b;
    whet_stats stats;
    row_view held = whet_row_hold(row, b.logits);
    row_view held_grad = whet_row_hold(grad, b.gradient);
    if (!whet_row_describe(&held, job, &stats, b.logits))
        return !(stats.flags & WHET_ROW_NOT_FINITE);
    if (whet_policy_is_temperature(job->policy))
        return temperature_backward(&held, &held_grad, job, &stats, &b, numbers);
    return whet_map_row_backward(job->policy, &held, &held_grad, &stats, weights, numbers);
}

bool whet_row_backward(const row_view *row, const row_view *grad, const row_job *job,
                       whet_policy_gradient *numbers) {
    return row_backward(row, grad, job, NULL, numbers);
}

bool whet_f32_row_backward(const whet_policy *policy, const float *logits, const float *grad_out,
                           size_t n, float *weights, float *grad_in,
                           whet_policy_gradient *numbers) {
    const kernels *k = whet_kernels_get();
    row_job job = whet_row_plan(policy, false);
    row_view row = {.kernels = k, .n = n, .in = logits};
    row_view grad = {.kernels = k, .n = n, .in = grad_out};
    row.out = grad_in;
    return row_backward(&row, &grad, &job, weights, numbers);
}
