/*
 * The way back through the maps that are not a temperature. All but
 * stick-breaking have a gradient of the same form: with a weight s made from
 * each coefficient p,
 *
 *     s_j (g_j - D)
 *
 *     topk, softmax1   s = p                    D = sum s g
 *     entmax           s = p^(2 - a), p > 0     D = sum s g / sum s
 *     sigmoid          s = p (1 - p)            D = 0
 *     hardmax          s = 0
 *
 * Stick-breaking: Q_i is what the positions before i would get of a stick of
 * length one, Q_(i + 1) = (1 - sigma_i) Q_i + sigma_i g_i; a logit then gets
 * p_i (1 - sigma_i) (g_i - Q_i). Q runs from the first position on, what is
 * left of the stick from the last one: Q is noted every so many blocks on the
 * way up, and taken again from there on the way down.
 *
 * A gradient that is not finite spoils the row wherever it arrives unmasked,
 * also where its weight is zero, so that it does not depend on rounding.
 */
#include "row/map.h"

#include <math.h>

/* A map, and what is made of its coefficients. */
typedef struct map_back {
    const row_view *row, *grad;
    float *weights; /* where coefficients go, or NULL */
    map_solution map;
    uint32_t kind;
    double alpha;
    double mean; /* D */
} map_back;

static double weight_of(const map_back *back, double p) {
    switch (back->kind) {
    case WHET_POLICY_HARDMAX:
        return 0;
    case WHET_POLICY_SIGMOID:
        return p * (1 - p);
    case WHET_POLICY_ENTMAX:
        if (!(p > 0))
            return 0;
        return back->alpha == 2 ? 1 : back->alpha == 1.5 ? sqrt(p) : pow(p, 2 - back->alpha);
    default:
        return p;
    }
}

/* What a pass adds up; spoilt turns NaN when something that arrives is not finite. */
typedef struct back_sums {
    double weights, gradients, spoilt;
} back_sums;

static back_sums sum_weights(const map_back *back, float *buffer) {
    back_sums sums = {0, 0, 0};
    row_walk walk;
    walk_begin(&walk, back->row);
    while (walk_next(&walk)) {
        const float *g = whet_row_load(back->grad, walk.start, walk.count, buffer);
        back_sums block = {0, 0, 0};
        for (size_t i = 0; i < walk.count; i++) {
            if (walk.logits[i] == -INFINITY)
                continue;
            double p = back->map.coefficient((double)walk.logits[i], back->map.found);
            double s = weight_of(back, p);
            block.weights += s;
            block.gradients += s * (double)g[i];
            block.spoilt += 0 * (double)g[i];
        }
        sums.weights += block.weights;
        sums.gradients += block.gradients;
        sums.spoilt += block.spoilt;
    }
    return sums;
}

/* (exp(t) - 1 - t) / t^2 for t >= 0, by its series where the difference would lose digits. */
static double exp_remainder(double t) {
    if (t < 0.03)
        return 0.5 + t * (1.0 / 6 + t * (1.0 / 24 + t * (1.0 / 120 + t / 720)));
    return (expm1(t) - t) / (t * t);
}

/*
 * How a coefficient p > 0 of entmax changes with a, but for a multiple of its
 * weight, which D takes away: with L = -ln p, -p L^2 remainder((a - 1) L). That is the
 * derivative r h + r^2 p (r = 1 / (a - 1), h = p L) less r^2 s, so that nothing is lost as a
 * comes near 1.
 */
static double alpha_slope(double alpha, double p) {
    if (!(p > 0))
        return 0;
    double log_p = log(p);
    return -p * log_p * log_p * exp_remainder((1 - alpha) * log_p);
}

/* Stores the gradient, and coefficients where they are wanted; returns what alpha gets. `buffer`
 * serves what arrives and what goes out. */
static double store_gradient(const map_back *back, float *buffer) {
    bool is_entmax = back->kind == WHET_POLICY_ENTMAX;
    double by_alpha = 0;
    row_walk walk;
    walk_begin(&walk, back->row);
    while (walk_next(&walk)) {
        const float *g = whet_row_load(back->grad, walk.start, walk.count, buffer);
        double block = 0;
        for (size_t i = 0; i < walk.count; i++) {
            float result = 0;
            double p = 0;
            if (walk.logits[i] != -INFINITY) {
                p = back->map.coefficient((double)walk.logits[i], back->map.found);
                double difference = (double)g[i] - back->mean;
                result = (float)(weight_of(back, p) * difference);
                if (is_entmax)
                    block += alpha_slope(back->alpha, p) * difference;
            }
            buffer[i] = result; /* g[i], if it is there, is not needed any more */
            if (back->weights)
                back->weights[walk.start + i] = (float)p; /* nor is the logit */
        }
        by_alpha += block;
        whet_row_store(back->row, walk.start, walk.count, buffer);
    }
    return by_alpha;
}

static bool spoil(const row_view *row) {
    whet_row_fill(row, NAN);
    return false;
}

static bool solved_backward(const whet_policy *policy, const row_view *row, const row_view *grad,
                            const whet_stats *stats, float *weights,
                            whet_policy_gradient *numbers) {
    float buffer[ROW_BLOCK];
    map_back back = {.row = row,
                     .grad = grad,
                     .map = whet_map_solve(policy, row, stats),
                     .kind = policy->kind,
                     .alpha = policy->value[0]};
    back.weights = weights;
    back_sums sums = sum_weights(&back, buffer);
    if (isnan(sums.spoilt))
        return spoil(row);
    if (policy->kind == WHET_POLICY_ENTMAX)
        back.mean = sums.gradients / sums.weights;
    else if (policy->kind != WHET_POLICY_SIGMOID)
        back.mean = sums.gradients;
    double by_alpha = store_gradient(&back, buffer);
    if (numbers && policy->kind == WHET_POLICY_ENTMAX)
        numbers->value[0] += by_alpha;
    if (numbers && policy->kind == WHET_POLICY_SIGMOID && !isnan(policy->value[0]))
        numbers->value[0] -= sums.gradients;
    return true;
}

/* ---- stick-breaking ---- */

/* Positions in a block, so that Q of each fits the stack; and how many blocks have theirs noted. */
#define STICK_BLOCK (ROW_BLOCK / 2)
#define STICK_NOTES 512

typedef struct stick {
    const row_view *row, *grad;
    float *weights;             /* where coefficients go, or NULL */
    size_t span;                /* blocks from one note to the next */
    double notes[STICK_NOTES];  /* Q at the beginning of a span */
    double before[STICK_BLOCK]; /* Q at each position of a block */
    float logits[STICK_BLOCK], gradient[STICK_BLOCK];
} stick;

static size_t stick_count(const stick *s, size_t block) {
    size_t left = s->row->n - block * STICK_BLOCK;
    return left < STICK_BLOCK ? left : STICK_BLOCK;
}

/* Q after a block, from Q before it; and Q before each of its positions. */
static double climb(stick *s, size_t block, double q) {
    size_t start = block * STICK_BLOCK, count = stick_count(s, block);
    const float *x = whet_row_load(s->row, start, count, s->logits);
    const float *g = whet_row_load(s->grad, start, count, s->gradient);
    for (size_t i = 0; i < count; i++) {
        s->before[i] = q;
        if (x[i] != -INFINITY) {
            stick_parts parts = stick_parts_at((double)x[i]);
            q = parts.left * q + parts.taken * (double)g[i];
        }
    }
    return q;
}

/* The gradient of a block, from its end to its beginning. */
static double descend(stick *s, size_t block, double left) {
    size_t start = block * STICK_BLOCK, count = stick_count(s, block);
    const float *x = whet_row_load(s->row, start, count, s->logits);
    const float *g = whet_row_load(s->grad, start, count, s->gradient);
    for (size_t i = count; i-- > 0;) {
        float result = 0;
        double p = 0;
        if (x[i] != -INFINITY) {
            stick_parts parts = stick_parts_at((double)x[i]);
            p = left * parts.taken;
            result = (float)(p * parts.left * ((double)g[i] - s->before[i]));
            left *= parts.left;
        }
        if (s->weights)
            s->weights[start + i] = (float)p; /* only blocks before this one are loaded again */
        s->gradient[i] = result;              /* g[i], if it is there, is not needed any more */
    }
    whet_row_store(s->row, start, count, s->gradient);
    return left;
}

/* Whether all that arrives unmasked is finite: later positions may forget what came before. */
static bool arrives_finite(stick *s, size_t blocks) {
    double spoilt = 0;
    for (size_t b = 0; b < blocks; b++) {
        size_t start = b * STICK_BLOCK, count = stick_count(s, b);
        const float *x = whet_row_load(s->row, start, count, s->logits);
        const float *g = whet_row_load(s->grad, start, count, s->gradient);
        for (size_t i = 0; i < count; i++)
            spoilt += x[i] == -INFINITY ? 0 : 0 * (double)g[i];
    }
    return !isnan(spoilt);
}

static bool stick_backward(const row_view *row, const row_view *grad, float *weights) {
    stick s = {.row = row, .grad = grad};
    s.weights = weights;
    size_t blocks = row->n / STICK_BLOCK + (row->n % STICK_BLOCK != 0);
    if (!arrives_finite(&s, blocks))
        return spoil(row);
    s.span = blocks / STICK_NOTES + 1;
    double q = 0;
    for (size_t b = 0; b < blocks; b++) {
        if (b % s.span == 0)
            s.notes[b / s.span] = q;
        q = climb(&s, b, q);
    }
    double left = 1;
    for (size_t b = blocks; b-- > 0;) {
        q = s.notes[b / s.span];
        for (size_t before = b - b % s.span; before <= b; before++)
            q = climb(&s, before, q);
        left = descend(&s, b, left);
    }
    return true;
}

bool whet_map_row_backward(const whet_policy *policy, const row_view *row, const row_view *grad,
                           const whet_stats *stats, float *weights, whet_policy_gradient *numbers) {
    if (policy->kind == WHET_POLICY_STICK_BREAKING)
        return stick_backward(row, grad, weights);
    return solved_backward(policy, row, grad, stats, weights, numbers);
}
