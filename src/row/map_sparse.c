/*
 * The entmax family: sparsemax (a = 2), entmax15 and any a between 1 and 2.
 * With d = e - max, which is never positive, r = 1 / (a - 1) and x = (a - 1) d,
 *
 *     p = max(0, x - tau)^r
 *
 * and everything is about the threshold tau for which these sum to one. tau
 * lies in [-1, 0), since the largest entry alone has p = (-tau)^r.
 *
 * The r-th root of that sum is the r-norm of max(0, x - tau): convex and falling
 * in tau, and close to a straight line. So Newton's method on it, started at
 * tau = -1, climbs towards the solution in a few steps and never passes it.
 *
 * For a = 2 and 1.5 the solution for the entries above some tau has a closed
 * form; once it leaves none of them out, it is the solution for all entries.
 * For other a the unknown is v = ln p of the largest entry: with
 * w = exp(v / r) = -tau,
 *
 *     ln p = v + r log1p(x / w)
 *
 * which is nearly ln softmax when a is nearly 1, with nothing lost to rounding.
 */
#include "row/map.h"

#include <math.h>

/* More than Newton ever needs: on a convex f, f f' falls at least fourfold at each step. */
#define STEPS_MAX 200

/* Sums over the entries above a threshold, of y = scale (e - max) - threshold. */
typedef struct support {
    double count;
    double sum;
    double squares;
    double lowest; /* the smallest y */
} support;

static support support_above(const row_view *row, double max, double scale, double threshold) {
    support whole = {.lowest = INFINITY};
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        support block = {.lowest = whole.lowest};
        for (size_t i = 0; i < walk.count; i++) {
            double y = scale * ((double)walk.logits[i] - max) - threshold;
            if (y > 0) {
                block.count++;
                block.sum += y;
                block.squares += y * y;
                block.lowest = y < block.lowest ? y : block.lowest;
            }
        }
        whole.count += block.count;
        whole.sum += block.sum;
        whole.squares += block.squares;
        whole.lowest = block.lowest;
    }
    return whole;
}

/* How far above the threshold the solution lies if the support stays as it is. */
static double sparsemax_step(const support *above) { return (above->sum - 1) / above->count; }

/* The same for squares: the smaller root t of count t^2 - 2 sum t + squares = 1. NaN if none. */
static double entmax15_step(const support *above) {
    double excess = above->squares - 1;
    return excess / (above->sum + sqrt(above->sum * above->sum - above->count * excess));
}

/* Newton's step on the 2-norm, when entries would leave the support. */
static double entmax15_newton(const support *above) {
    return (above->squares - sqrt(above->squares)) / above->sum;
}

/* The threshold for a = 2 (is_square false) or a = 1.5 (true). */
static double exact_threshold(const row_view *row, double max, bool is_square) {
    double scale = is_square ? 0.5 : 1;
    double threshold = -1;
    for (int i = 0; i < STEPS_MAX; i++) {
        support above = support_above(row, max, scale, threshold);
        double step = is_square ? entmax15_step(&above) : sparsemax_step(&above);
        if (step <= above.lowest) {
            return threshold + step;
        }
        double next = threshold + (is_square ? entmax15_newton(&above) : step);
        if (!(next > threshold)) {
            break;
        }
        threshold = next;
    }
    return threshold;
}

/* found: the largest logit, the threshold. */
static double sparsemax_coefficient(double logit, const double *found) {
    double p = logit - found[0] - found[1];
    return p > 0 ? p : 0;
}

static double entmax15_coefficient(double logit, const double *found) {
    double root = 0.5 * (logit - found[0]) - found[1];
    return root > 0 ? root * root : 0;
}

/* found: the largest logit, a - 1, v = ln p of the largest, w = exp((a - 1) v). */
static double entmax_ratio(double logit, const double *found) {
    return found[1] * (logit - found[0]) / found[3];
}

static double entmax_power(double ratio, const double *found) {
    return ratio > -1 ? exp(found[2] + log1p(ratio) / found[1]) : 0;
}

static double entmax_coefficient(double logit, const double *found) {
    return entmax_power(entmax_ratio(logit, found), found);
}

/* The sum of all coefficients, and how it grows with v. */
static void entmax_sum(const row_view *row, const double *found, double *sum, double *slope) {
    *sum = *slope = 0;
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        double block_sum = 0;
        double block_slope = 0;
        for (size_t i = 0; i < walk.count; i++) {
            double ratio = entmax_ratio((double)walk.logits[i], found);
            if (ratio > -1) {
                double p = entmax_power(ratio, found);
                block_sum += p;
                block_slope += p / (1 + ratio);
            }
        }
        *sum += block_sum;
        *slope += block_slope;
    }
}

/*
 * Newton on the r-norm, with its step written for v = r ln w so that nothing is
 * lost when r is large. Starts at w = 1, v = 0. Fills found[2] and found[3].
 */
static void solve_entmax(const row_view *row, double *found) {
    double v = 0;
    double change = -INFINITY;
    for (int i = 0; i < STEPS_MAX && change < -1e-13; i++) {
        double sum, slope;
        found[2] = v;
        found[3] = exp(found[1] * v);
        entmax_sum(row, found, &sum, &slope);
        change = log1p(expm1(-found[1] * log(sum)) * sum / slope) / found[1];
        v += change;
    }
    found[2] = v;
    found[3] = exp(found[1] * v);
}

map_solution whet_map_entmax(const whet_policy *policy, const row_view *row,
                             const whet_stats *stats) {
    double a = policy->value[0];
    map_solution map = {entmax_coefficient, {stats->max, a - 1, 0, 0}};
    if (a == 2 || a == 1.5) {
        map.coefficient = a == 2 ? sparsemax_coefficient : entmax15_coefficient;
        map.found[1] = exact_threshold(row, stats->max, a == 1.5);
    } else {
        solve_entmax(row, map.found);
    }
    return map;
}
