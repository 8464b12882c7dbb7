/*
 * The kernels of maps over panels, each against plain loops in double. Tiles lie
 * in guarded memory and have exactly the size that kernels.h tells.
 */
#include "isa/kernels.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"

#include <math.h>
#include <string.h>

static const size_t key_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100, 127, 191, 192};
#define KEY_COUNTS (sizeof key_counts / sizeof key_counts[0])

typedef void (*weights_kernel)(const float *tile, size_t keys, const float *chosen,
                               map_lanes *lanes, float *weights);

/* Logits, a fifth of them masked, and lanes with numbers of their own, two thirds of them chosen.
 */
typedef struct panel {
    size_t keys, lanes;
    float *x;
    float *weights;
    float *chosen;
    map_lanes with;
} panel;

static panel panel_new(struct rng *rng, size_t keys) {
    panel p = {.keys = keys, .lanes = whet_kernels_get()->lanes};
    size_t size = keys * p.lanes;
    p.x = guarded_new(size * sizeof(float));
    p.weights = guarded_new(size * sizeof(float));
    p.chosen = guarded_new(p.lanes * sizeof(float));
    rng_fill_normal(rng, p.x, size, 0, 2);
    for (size_t i = 0; i < size; i++) {
        p.weights[i] = -7;
        if (rng_bits(rng) % 5 == 0) {
            p.x[i] = -INFINITY;
        }
    }
    for (size_t lane = 0; lane < p.lanes; lane++) {
        p.chosen[lane] = lane % 3 ? 1.0f : 0.0f;
        p.with.beta[lane] = lane % 4 ? (float)rng_uniform(rng, 0.3, 2) : 1;
        p.with.bias[lane] = (float)rng_normal(rng, 0, 3);
        p.with.factor[lane] = 1 + (float)rng_normal(rng, 0, 1e-7);
        p.with.left[lane] = (float)rng_uniform(rng, 0.5, 1);
        p.with.owed[lane] = 1e-8f;
        p.with.square[lane] = lane % 2 ? 1.0f : 0.0f;
        p.with.scale[lane] = lane % 2 ? 0.5f : 1;
        p.with.threshold[lane] = (float)rng_uniform(rng, -1, -0.1);
        p.with.lowest[lane] = (float)rng_normal(rng, 0, 1);
        p.with.largest[lane] = 1e-3f;
        p.with.max[lane] = 0;
        for (size_t j = 0; j < keys; j++) {
            p.with.max[lane] = fmaxf(p.with.max[lane], p.x[j * p.lanes + lane]);
        }
    }
    return p;
}

static void panel_free(panel *p) {
    guarded_free(p->x);
    guarded_free(p->weights);
    guarded_free(p->chosen);
}

/* For any a, in the place of a = 2 and 1.5. */
static void use_powers(panel *p, struct rng *rng) {
    for (size_t lane = 0; lane < p->lanes; lane++) {
        double a = lane % 4 == 1 ? 1.001 : rng_uniform(rng, 1.05, 1.95);
        double v = rng_uniform(rng, -3, 0);
        p->with.power[lane] = (float)(1 / (a - 1));
        p->with.log_top[lane] = (float)v;
        p->with.scale[lane] = (float)((a - 1) / exp((a - 1) * v));
    }
}

/* What a lane's weights should be, in double. */
typedef void (*lane_map)(const panel *p, size_t lane, double *weights);

static double logit(const panel *p, size_t j, size_t lane) {
    return (double)p->x[j * p->lanes + lane];
}

/* As gates and softpick take it. */
static double sharpened(const panel *p, size_t j, size_t lane) {
    return (double)p->with.beta[lane] * logit(p, j, lane);
}

static void sigmoid_lane(const panel *p, size_t lane, double *weights) {
    for (size_t j = 0; j < p->keys; j++) {
        double g = exp(sharpened(p, j, lane) - (double)p->with.bias[lane]);
        g *= (double)p->with.factor[lane];
        weights[j] = g / (1 + g);
    }
}

static void stick_lane(const panel *p, size_t lane, double *weights) {
    double left = (double)p->with.left[lane] - (double)p->with.owed[lane];
    for (size_t j = p->keys; j-- > 0;) {
        double share = 1 / (1 + exp(-sharpened(p, j, lane)));
        weights[j] = left * share;
        left *= 1 - share;
    }
}

/* For softpick, in the place of sigmoid's. */
static void use_shifts(panel *p) {
    for (size_t lane = 0; lane < p->lanes; lane++) {
        p->with.bias[lane] = p->with.beta[lane] * p->with.max[lane];
        p->with.factor[lane] = (float)exp(-(double)p->with.bias[lane]);
    }
    for (size_t i = 0; i < p->keys * p->lanes; i += 5) /* where exp(x) - 1 loses digits */
        p->x[i] = p->x[i] == -INFINITY ? p->x[i] : fminf(p->x[i] * 1e-3f, p->x[i]);
}

static double excess(const panel *p, size_t j, size_t lane) {
    if (logit(p, j, lane) == -(double)INFINITY)
        return 0;
    return exp(-(double)p->with.bias[lane]) * expm1(sharpened(p, j, lane));
}

static void softpick_lane(const panel *p, size_t lane, double *weights) {
    for (size_t j = 0; j < p->keys; j++)
        weights[j] = fmax(0, excess(p, j, lane));
}

static double above(const panel *p, size_t j, size_t lane) {
    double d = logit(p, j, lane) - (double)p->with.max[lane];
    return fmax(0, (double)p->with.scale[lane] * d - (double)p->with.threshold[lane]);
}

static void entmax_lane(const panel *p, size_t lane, double *weights) {
    for (size_t j = 0; j < p->keys; j++) {
        double y = above(p, j, lane);
        weights[j] = p->with.square[lane] > 0 ? y * y : y;
    }
}

static double ratio(const panel *p, size_t j, size_t lane) {
    return (double)p->with.scale[lane] * (logit(p, j, lane) - (double)p->with.max[lane]);
}

static void power_lane(const panel *p, size_t lane, double *weights) {
    for (size_t j = 0; j < p->keys; j++) {
        double r = ratio(p, j, lane);
        weights[j] =
            r > -1 ? exp((double)p->with.log_top[lane] + (double)p->with.power[lane] * log1p(r))
                   : 0;
    }
}

static void check_lane(const panel *p, const panel *before, size_t lane, lane_map map,
                       const char *what) {
    double right[192] = {0};
    double sum = 0;
    double largest = (double)before->with.largest[lane];
    size_t wrong = 0;
    map(before, lane, right);
    for (size_t j = 0; j < p->keys; j++) {
        float weight = p->weights[j * p->lanes + lane];
        bool is_masked = before->x[j * p->lanes + lane] == -INFINITY;
        sum += map == softpick_lane ? fabs(excess(before, j, lane)) : right[j];
        largest = fmax(largest, right[j]);
        wrong += is_masked ? weight != 0 : !(fabs((double)weight - right[j]) <= 2e-6);
    }
    CHECK_MSG(wrong == 0, "%s: %zu of %zu keys wrong in lane %zu", what, wrong, p->keys, lane);
    double limit = 2e-6 * (1 + sum);
    CHECK_MSG(fabs((double)p->with.z[lane] - sum) <= limit, "%s: z is %g, not %g", what,
              (double)p->with.z[lane], sum);
    if (map == sigmoid_lane || map == stick_lane) {
        CHECK_MSG(fabs((double)p->with.largest[lane] - largest) <= 2e-6, "%s: largest", what);
    }
}

/* Chosen lanes have their weights, the others what they had. */
static void check_kernel(struct rng *rng, size_t keys, weights_kernel kernel, lane_map map,
                         const char *what) {
    panel p = panel_new(rng, keys);
    if (map == power_lane) {
        use_powers(&p, rng);
    } else if (map == softpick_lane) {
        use_shifts(&p);
    }
    panel before = p;
    size_t bytes = keys * p.lanes * sizeof(float);
    float *logits = guarded_new(bytes);
    memcpy(logits, p.x, bytes);
    kernel(p.x, keys, p.chosen, &p.with, p.weights);
    CHECK(same_bytes(logits, p.x, bytes));
    for (size_t lane = 0; lane < p.lanes; lane++) {
        if (p.chosen[lane] > 0) {
            check_lane(&p, &before, lane, map, what);
        }
        for (size_t j = 0; !(p.chosen[lane] > 0) && j < keys; j++) {
            CHECK(p.weights[j * p.lanes + lane] == -7);
        }
    }
    /* in place */
    map_lanes again = before.with;
    kernel(logits, keys, p.chosen, &again, logits);
    size_t unlike = 0;
    for (size_t i = 0; i < keys * p.lanes; i++) {
        float right = p.chosen[i % p.lanes] > 0 ? p.weights[i] : p.x[i];
        unlike += logits[i] != right;
    }
    CHECK_MSG(unlike == 0, "%s: %zu differ in place", what, unlike);
    guarded_free(logits);
    panel_free(&p);
}

TEST(weights_of_maps_agree_with_plain_loops) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(1);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        check_kernel(&rng, key_counts[i], k->map_sigmoid, sigmoid_lane, "sigmoid");
        check_kernel(&rng, key_counts[i], k->map_stick, stick_lane, "stick-breaking");
        check_kernel(&rng, key_counts[i], k->map_entmax, entmax_lane, "entmax");
        check_kernel(&rng, key_counts[i], k->map_power, power_lane, "power");
        check_kernel(&rng, key_counts[i], k->map_softpick, softpick_lane, "softpick");
    }
}

/* ---- the backward pass ---- */

/* Of one entry: its coefficient, what is summed up for `norm`, and the terms of its gradient. */
typedef struct entry_terms {
    double p, norm, own, shared, mean, parameter;
} entry_terms;

typedef entry_terms (*entry_map)(const panel *p, size_t j, size_t lane);

static entry_terms sigmoid_entry(const panel *p, size_t j, size_t lane) {
    double g = exp(sharpened(p, j, lane) - (double)p->with.bias[lane]);
    double share = g * (double)p->with.factor[lane];
    double own = share / (1 + share) / (1 + share);
    return (entry_terms){.p = share / (1 + share), .own = own, .parameter = -own};
}

static entry_terms softpick_entry(const panel *p, size_t j, size_t lane) {
    double x = sharpened(p, j, lane), r = excess(p, j, lane);
    double e = exp(x - (double)p->with.bias[lane]);
    return (entry_terms){.p = fmax(0, r),
                         .norm = fabs(r),
                         .own = x > 0 ? e : 0,
                         .shared = x > 0   ? e
                                   : x < 0 ? -e
                                           : 0,
                         .mean = fmax(0, r)};
}

/* -p L^2 (exp(t) - 1 - t) / t^2 with L = -ln p and t = (a - 1) L, as in policy/entmax.c. */
static entry_terms entmax_entry_of(double p, double a) {
    double log_p = p > 0 ? log(p) : -(double)INFINITY, t = (1 - a) * log_p;
    double rest = t < 1e-3 ? 0.5 + t / 6 : (expm1(t) - t) / (t * t);
    double own = pow(p, 2 - a);
    if (!(p > 0))
        return (entry_terms){.p = 0};
    return (entry_terms){p, p, own, own, own, -p * log_p * log_p * rest};
}

static entry_terms entmax_entry(const panel *p, size_t j, size_t lane) {
    double y = above(p, j, lane);
    return p->with.square[lane] > 0 ? entmax_entry_of(y * y, 1.5) : entmax_entry_of(y, 2);
}

static entry_terms power_entry(const panel *p, size_t j, size_t lane) {
    double r = ratio(p, j, lane), a = 1 + 1 / (double)p->with.power[lane];
    double log_p = (double)p->with.log_top[lane] + (double)p->with.power[lane] * log1p(r);
    return entmax_entry_of(r > -1 ? exp(log_p) : 0, a);
}

typedef struct gradient_case {
    gradient_form form;
    entry_map map;
    const char *name;
} gradient_case;

static panel panel_for(struct rng *rng, size_t keys, const gradient_case *of, float *base) {
    panel p = panel_new(rng, keys);
    for (size_t lane = 0; lane < p.lanes; lane++) {
        base[lane] = (float)rng_normal(rng, 0, 1);
        p.with.power[lane] = of->form == GRADIENT_ENTMAX && lane % 2 ? 2 : 1;
    }
    if (of->form == GRADIENT_POWER)
        use_powers(&p, rng);
    if (of->form == GRADIENT_SOFTPICK)
        use_shifts(&p);
    return p;
}

/* Numbers near each other where the terms of a sum are as large as `size`. */
static bool is_near(double actual, double right, double size) {
    return fabs(actual - right) <= 5e-6 * (size + 1e-6);
}

static bool are_sums_right(const panel *p, const float *grads, const float *base, size_t lane,
                           entry_map map, bool has_parameter, const map_gradient_sums *found) {
    double right[5] = {0}, size[5] = {0};
    const float *actual[] = {found->norm, found->mean, found->mean_g, found->parameter,
                             found->parameter_g};
    for (size_t j = 0; j < p->keys; j++) {
        if (logit(p, j, lane) == -(double)INFINITY)
            continue;
        entry_terms t = map(p, j, lane);
        double g = (double)grads[j * p->lanes + lane] - (double)base[lane];
        const double terms[] = {t.norm, t.mean, t.mean * g, t.parameter, t.parameter * g};
        for (size_t i = 0; i < 5; i++) {
            right[i] += terms[i];
            size[i] += fabs(terms[i]);
        }
    }
    bool is_right = true;
    for (size_t i = 0; i < (has_parameter ? 5 : 3); i++)
        is_right = is_right && is_near((double)actual[i][lane], right[i], size[i]);
    return is_right;
}

/* Sums over the gradients that a lane received. */
static bool are_results_summed(const panel *before, const float *grads, const map_backward *at,
                               size_t lane) {
    double sum = 0, sum_d = 0, size = 0, size_d = 0;
    for (size_t j = 0; j < before->keys; j++) {
        double change = (double)grads[j * before->lanes + lane];
        double d = change == 0 ? 0 : logit(before, j, lane) - (double)before->with.max[lane];
        sum += change;
        sum_d += change * d;
        size += fabs(change);
        size_d += fabs(change * d);
    }
    return is_near((double)at->sum[lane], sum, size) &&
           is_near((double)at->sum_d[lane], sum_d, size_d);
}

static size_t count_wrong_gradients(const panel *before, const float *grads_before, const panel *p,
                                    const float *grads, const map_backward *at, entry_map map) {
    size_t wrong = 0;
    for (size_t i = 0; i < p->keys * p->lanes; i++) {
        size_t lane = i % p->lanes, j = i / p->lanes;
        if (!(p->chosen[lane] > 0)) {
            wrong += !same_bytes(&p->weights[i], &before->x[i], sizeof(float)) ||
                     !same_bytes(&grads[i], &grads_before[i], sizeof(float));
            continue;
        }
        if (before->x[i] == -INFINITY) {
            wrong += p->weights[i] != 0 || grads[i] != 0;
            continue;
        }
        entry_terms t = map(before, j, lane);
        double mean = (double)at->mean[lane], slope = (double)at->slope[lane];
        double g = (double)grads_before[i] - (double)at->base[lane];
        double more = (t.own - t.shared) * (double)at->full_mean[lane];
        double right = slope * (t.own * (g - mean) + more);
        double size =
            slope * (t.own * (fabs(g) + fabs((double)at->base[lane]) + fabs(mean)) + fabs(more));
        /* powers multiply the rounding of a logarithm by up to 1,000 */
        double least = map == power_entry ? 1 : 0;
        size += least;
        wrong += !is_near((double)p->weights[i], (double)at->unit[lane] * t.p, t.p + least) ||
                 !is_near((double)grads[i], right, size);
    }
    return wrong;
}

static void check_gradients(struct rng *rng, size_t keys, const gradient_case *of) {
    const kernels *k = whet_kernels_get();
    float base[LANES_MAX];
    map_gradient_sums sums;
    map_backward at;
    panel p = panel_for(rng, keys, of, base);
    size_t count = keys * p.lanes;
    float *before = guarded_new(count * sizeof(float)), *grads = guarded_new(count * sizeof(float));
    rng_fill_normal(rng, before, count, 0, 1);
    for (size_t i = 0; i < count; i++)
        before[i] = p.x[i] == -INFINITY ? NAN : before[i];
    bool has_parameter = of->form != GRADIENT_SOFTPICK;
    k->map_gradient_sums(of->form, p.x, before, keys, &p.with, base, has_parameter, &sums);
    for (size_t lane = 0; lane < p.lanes; lane++)
        CHECK_MSG(are_sums_right(&p, before, base, lane, of->map, has_parameter, &sums),
                  "%s: sums of lane %zu, %zu keys", of->name, lane, keys);
    for (size_t lane = 0; lane < p.lanes; lane++) {
        at.base[lane] = base[lane];
        at.mean[lane] = of->form == GRADIENT_SIGMOID ? 0 : (float)rng_normal(rng, 0, 1);
        at.full_mean[lane] = of->form == GRADIENT_SOFTPICK ? (float)rng_normal(rng, 0, 1) : 0;
        at.unit[lane] = (float)rng_uniform(rng, 0.5, 2);
        at.slope[lane] = (float)rng_uniform(rng, 0.5, 2);
    }
    memcpy(grads, before, count * sizeof(float));
    memcpy(p.weights, p.x, count * sizeof(float));
    k->map_gradients(of->form, p.weights, grads, keys, p.chosen, &p.with, &at);
    size_t wrong = count_wrong_gradients(&p, before, &p, grads, &at, of->map);
    CHECK_MSG(wrong == 0, "%s: %zu gradients wrong of %zu keys", of->name, wrong, keys);
    for (size_t lane = 0; lane < p.lanes; lane++)
        CHECK(!(p.chosen[lane] > 0) || are_results_summed(&p, grads, &at, lane));
    guarded_free(before);
    guarded_free(grads);
    panel_free(&p);
}

TEST(gradients_through_maps_agree_with_plain_loops) {
    static const gradient_case cases[] = {{GRADIENT_SIGMOID, sigmoid_entry, "sigmoid"},
                                          {GRADIENT_SOFTPICK, softpick_entry, "softpick"},
                                          {GRADIENT_ENTMAX, entmax_entry, "entmax"},
                                          {GRADIENT_POWER, power_entry, "power"}};
    struct rng rng = rng_seeded(3);
    for (size_t i = 0; i < KEY_COUNTS; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            check_gradients(&rng, key_counts[i], &cases[c]);
}

/* Q before each key of a stick of length one, and the stick's coefficients, in double. */
static size_t count_wrong_sticks(const panel *p, const float *before, const float *grads,
                                 const float *base, const float *sums, size_t lane) {
    double ahead[192], q = 0, left = (double)p->with.left[lane], sum = 0, size = 0;
    size_t wrong = 0;
    for (size_t j = 0; j < p->keys; j++) {
        double g = (double)before[j * p->lanes + lane] - (double)base[lane];
        ahead[j] = g - q;
        if (logit(p, j, lane) != -(double)INFINITY)
            q += ahead[j] / (1 + exp(-sharpened(p, j, lane)));
    }
    for (size_t j = p->keys; j-- > 0;) {
        size_t i = j * p->lanes + lane;
        double x = sharpened(p, j, lane), share = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));
        if (logit(p, j, lane) == -(double)INFINITY) {
            wrong += p->weights[i] != 0 || grads[i] != 0;
            continue;
        }
        double weight = left * share, change = weight * rest * ahead[j];
        sum += change * logit(p, j, lane);
        size += weight * rest * 4 * fabs(logit(p, j, lane));
        wrong += !is_near((double)p->weights[i], weight, weight) ||
                 !is_near((double)grads[i], (double)p->with.beta[lane] * change, 8 * weight * rest);
        left *= rest;
    }
    return wrong + !is_near((double)sums[lane], sum, size);
}

TEST(sticks_are_climbed_and_descended) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(4);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        size_t keys = key_counts[i], wrong = 0;
        float base[LANES_MAX], q[LANES_MAX] = {0}, left[LANES_MAX], sums[LANES_MAX];
        panel p = panel_new(&rng, keys);
        size_t count = keys * p.lanes;
        float *before = guarded_new(count * sizeof(float));
        float *grads = guarded_new(count * sizeof(float));
        rng_fill_normal(&rng, before, count, 0, 1);
        rng_fill_normal(&rng, base, p.lanes, 0, 1);
        memcpy(grads, before, count * sizeof(float));
        memcpy(p.weights, p.x, count * sizeof(float));
        memcpy(left, p.with.left, sizeof left);
        k->map_stick_climb(p.weights, grads, keys, p.chosen, &p.with, base, q);
        k->map_stick_descend(p.weights, grads, keys, p.chosen, &p.with, left, sums);
        for (size_t lane = 0; lane < p.lanes; lane++)
            if (p.chosen[lane] > 0)
                wrong += count_wrong_sticks(&p, before, grads, base, sums, lane);
        for (size_t at = 0, lane = 0; at < count; at++, lane = lane + 1 < p.lanes ? lane + 1 : 0)
            if (!(p.chosen[lane] > 0))
                wrong += p.weights[at] != p.x[at] || grads[at] != before[at];
        CHECK_MSG(wrong == 0, "%zu wrong of %zu keys", wrong, keys);
        guarded_free(before);
        guarded_free(grads);
        panel_free(&p);
    }
}

TEST(nan_in_one_lane_stays_there_and_shows_in_z) {
    const kernels *k = whet_kernels_get();
    const weights_kernel all[] = {k->map_sigmoid, k->map_stick, k->map_entmax, k->map_power,
                                  k->map_softpick};
    struct rng rng = rng_seeded(2);
    for (size_t m = 0; m < 5; m++) {
        for (size_t bad = 0; bad < k->lanes; bad++) {
            panel p = panel_new(&rng, 33);
            if (m == 3) {
                use_powers(&p, &rng);
            }
            p.x[(bad % 33) * p.lanes + bad] = NAN;
            k->map_keep(p.x, 33, &p.with);
            all[m](p.x, 33, p.chosen, &p.with, p.weights);
            for (size_t lane = 0; lane < p.lanes; lane++) {
                CHECK_MSG(isnan(p.with.z[lane]) == (lane == bad), "map %zu, lane %zu", m, lane);
            }
            panel_free(&p);
        }
    }
}

static void check_sum(const char *what, float actual, double right, double size) {
    CHECK_MSG(fabs((double)actual - right) <= 3e-6 * fmax(size, 1e-6), "%s is %g, not %g", what,
              (double)actual, right);
}

TEST(sums_above_a_threshold_agree_with_plain_loops) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(3);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        panel p = panel_new(&rng, key_counts[i]);
        map_support found;
        k->map_entmax_support(p.x, p.keys, &p.with, &found);
        for (size_t lane = 0; lane < p.lanes; lane++) {
            double count = 0, sum = 0, squares = 0, lowest = (double)INFINITY;
            for (size_t j = 0; j < p.keys; j++) {
                double y = above(&p, j, lane);
                count += y > 0;
                sum += y;
                squares += y * y;
                lowest = y > 0 ? fmin(lowest, y) : lowest;
            }
            CHECK((double)found.count[lane] == count);
            check_sum("sum", found.sum[lane], sum, sum);
            check_sum("squares", found.squares[lane], squares, squares);
            CHECK((double)found.lowest[lane] == lowest ||
                  fabs((double)found.lowest[lane] - lowest) <= 1e-6);
        }
        use_powers(&p, &rng);
        k->map_power_support(p.x, p.keys, &p.with, &found);
        for (size_t lane = 0; lane < p.lanes; lane++) {
            double weights[192], sum = 0, slope = 0;
            power_lane(&p, lane, weights);
            for (size_t j = 0; j < p.keys; j++) {
                sum += weights[j];
                slope += weights[j] > 0 ? weights[j] / (1 + ratio(&p, j, lane)) : 0;
            }
            check_sum("sum of powers", found.sum[lane], sum, 1 + sum);
            check_sum("slope of powers", found.squares[lane], slope, 1 + slope);
        }
        panel_free(&p);
    }
}

TEST(entries_are_ordered_about_a_pivot) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(4);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        panel p = panel_new(&rng, key_counts[i]);
        float *pivot = guarded_new(p.lanes * sizeof *pivot);
        for (size_t lane = 0; lane < p.lanes; lane++) {
            /* an entry itself, a number between, or below all that is not masked */
            float entry = p.x[(lane % p.keys) * p.lanes + lane];
            pivot[lane] = lane % 3 == 0 ? entry : lane % 3 == 1 ? 0.3f : -3e38f;
        }
        map_order found;
        k->map_order(p.x, p.keys, pivot, &found);
        for (size_t lane = 0; lane < p.lanes; lane++) {
            float count = 0, least = INFINITY, below = -INFINITY;
            for (size_t j = 0; j < p.keys; j++) {
                float x = p.x[j * p.lanes + lane];
                count += x >= pivot[lane];
                least = x >= pivot[lane] ? fminf(least, x) : least;
                below = x < pivot[lane] ? fmaxf(below, x) : below;
            }
            CHECK(found.count[lane] == count);
            CHECK(found.least[lane] == least);
            CHECK(found.below[lane] == below);
        }
        guarded_free(pivot);
        panel_free(&p);
    }
}

TEST(what_is_below_the_lowest_is_masked) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(5);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        panel p = panel_new(&rng, key_counts[i]);
        size_t wrong = 0;
        memcpy(p.weights, p.x, p.keys * p.lanes * sizeof(float));
        p.with.lowest[0] = p.x[0]; /* as low as the lowest is not below it */
        k->map_keep(p.weights, p.keys, &p.with);
        for (size_t at = 0; at < p.keys * p.lanes; at++) {
            bool is_below = p.x[at] < p.with.lowest[at % p.lanes];
            wrong += p.weights[at] != (is_below ? -INFINITY : p.x[at]);
        }
        CHECK_MSG(wrong == 0, "%zu wrong of %zu keys", wrong, p.keys);
        panel_free(&p);
    }
}

TEST(entropy_is_summed_lane_by_lane) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(6);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        panel p = panel_new(&rng, key_counts[i]);
        float *sum = guarded_new(p.lanes * sizeof *sum);
        for (size_t at = 0; at < p.keys * p.lanes; at++) {
            double size = rng_uniform(&rng, -12, 0);
            p.weights[at] = at % 3 == 0 ? 0 : at % 17 == 0 ? 1 : (float)pow(10, size);
        }
        k->map_entropy(p.weights, p.keys, sum);
        for (size_t lane = 0; lane < p.lanes; lane++) {
            double right = 0;
            for (size_t j = 0; j < p.keys; j++) {
                double w = (double)p.weights[j * p.lanes + lane];
                right += w > 0 ? w * log(w) : 0;
            }
            check_sum("w ln w", sum[lane], right, 1 + fabs(right));
        }
        guarded_free(sum);
        panel_free(&p);
    }
}
