/*
 * The entmax family: sparsemax (a = 2), entmax15 and any a between 1 and 2. With d = e -
 * max, which is never positive, r = 1 / (a - 1) and x = (a - 1) d,
 *
 *     p = max(0, x - tau)^r
 *
 * where the threshold tau makes these sum to one. tau is in [-1, 0), since the largest
 * entry alone has p = (-tau)^r.
 *
 * The r-th root of that sum is the r-norm of max(0, x - tau): convex and falling in tau,
 * and close to a straight line. So Newton's method on it, started at tau = -1, climbs
 * towards the solution in a few steps and never passes it.
 *
 * For a = 2 and 1.5 the solution for the entries above some tau has a closed form; once
 * it excludes none of them, it is the solution for all entries. For other a the unknown
 * is v = ln p of the largest entry: with w = exp(v / r) = -tau,
 *
 *     ln p = v + r log1p(x / w)
 *
 * which is nearly ln softmax when a is nearly 1, with nothing lost to rounding.
 */
#include "policy/entmax.h"
#include "policy/registry.h"
#include "row/walk.h"

whet_policy whet_policy_entmax(double alpha) {
    whet_policy policy = whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_ENTMAX);
    policy.map_value[0] = alpha;
    return policy;
}

whet_policy whet_policy_sparsemax(void) { return whet_policy_entmax(2); }

whet_policy whet_policy_entmax15(void) { return whet_policy_entmax(1.5); }

/* More than Newton ever needs: on a convex f, f f' falls at least fourfold at each step. */
#define STEPS_MAX 200

/* The last change of v in rows, whose sums are in double. */
#define ROW_TOLERANCE 1e-13

static void add_support(double y, entmax_sums *sums) {
    if (!(y > 0))
        return;
    sums->count++;
    sums->sum += y;
    sums->squares += y * y;
    sums->lowest = y < sums->lowest ? y : sums->lowest;
}

/* The sums of entmax_sums as those of a search. */
enum { ENTMAX_COUNT, ENTMAX_SUM, ENTMAX_SQUARES, ENTMAX_SUMS };

static void sum_support(const map_row *row, const map_search *search, map_sums *whole) {
    double scale = (search->entmax.a - 1) * row->beta, threshold = search->entmax.threshold;
    double max = row->stats->max;
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk)) {
        entmax_sums block = {.lowest = whole->lowest};
        for (size_t i = 0, end; i < walk.count; i = end) {
            double largest = scale * ((double)walk_part(&walk, i, &end) - max) - threshold;
            for (; largest > 0 && i < end; i++)
                add_support(scale * ((double)walk.logits[i] - max) - threshold, &block);
        }
        whole->value[ENTMAX_COUNT] += block.count;
        whole->value[ENTMAX_SUM] += block.sum;
        whole->value[ENTMAX_SQUARES] += block.squares;
        whole->lowest = block.lowest;
    }
}

/* How far the solution is above the threshold if the support does not change. */
static double sparsemax_step(const entmax_sums *above) { return (above->sum - 1) / above->count; }

/* The same for squares: the smaller root t of count t^2 - 2 sum t + squares = 1. NaN if none. */
static double entmax15_step(const entmax_sums *above) {
    double excess = above->squares - 1;
    return excess / (above->sum + sqrt(above->sum * above->sum - above->count * excess));
}

/* Newton's step on the 2-norm, when entries would leave the support. */
static double entmax15_newton(const entmax_sums *above) {
    return (above->squares - sqrt(above->squares)) / above->sum;
}

static void step_exact(entmax_solver *solver, const entmax_sums *above) {
    bool is_square = solver->a == 1.5;
    double step = is_square ? entmax15_step(above) : sparsemax_step(above);
    if (step <= above->lowest) {
        solver->threshold += step;
        solver->done = fabs(step) <= solver->reach * -solver->threshold;
        return;
    }
    double next = solver->threshold + (is_square ? entmax15_newton(above) : step);
    if (!(next - solver->threshold > solver->tolerance * -solver->threshold)) {
        solver->done = 1;
        return;
    }
    solver->threshold = next;
}

/* Newton on the r-norm, with its step written for v = r ln w so that nothing is lost when r is
 * large. Starts at w = 1, v = 0. */
static void step_power(entmax_solver *solver, const entmax_sums *at) {
    double less = solver->a - 1;
    double change = log1p(expm1(-less * log(at->sum)) * at->sum / at->squares) / less;
    if (change < 0) {
        solver->threshold += change;
    }
    solver->done = !(change < -solver->tolerance);
}

void whet_entmax_start(entmax_solver *solver, double a, double tolerance, double reach) {
    *solver = (entmax_solver){.a = a, .tolerance = tolerance, .reach = reach};
    solver->threshold = whet_entmax_is_exact(a) ? -1 : 0;
}

void whet_entmax_step(entmax_solver *solver, const entmax_sums *sums) {
    if (whet_entmax_is_exact(solver->a)) {
        step_exact(solver, sums);
    } else {
        step_power(solver, sums);
    }
    if (++solver->steps >= STEPS_MAX) {
        solver->done = 1;
    }
}

/* found: the largest logit, the threshold. */
static double sparsemax_of(double logit, const map_solution *solution) {
    double p = solution->beta * (logit - solution->found[0]) - solution->found[1];
    return p > 0 ? p : 0;
}

static double entmax15_of(double logit, const map_solution *solution) {
    double root = 0.5 * solution->beta * (logit - solution->found[0]) - solution->found[1];
    return root > 0 ? root * root : 0;
}

/* found: the largest logit, a - 1, v = ln p of the largest, w = exp((a - 1) v). */
static double ratio_of(double logit, const map_solution *solution) {
    const double *found = solution->found;
    return found[1] * solution->beta * (logit - found[0]) / found[3];
}

static double power_of(double ratio, const double *found) {
    return ratio > -1 ? exp(found[2] + log1p(ratio) / found[1]) : 0;
}

static double entmax_coefficient(double logit, const map_solution *solution) {
    const double *found = solution->found;
    if (found[3] == 0) /* exact: see note_threshold */
        return found[2] == 2 ? sparsemax_of(logit, solution) : entmax15_of(logit, solution);
    return power_of(ratio_of(logit, solution), found);
}

/* The sum of all coefficients, and in squares how it grows with v. */
static void sum_powers(const map_row *row, const map_search *search, map_sums *whole) {
    const map_solution *solution = &search->solution;
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk)) {
        double block_sum = 0;
        double block_derivative = 0;
        for (size_t i = 0; i < walk.count; i++) {
            double ratio = ratio_of((double)walk.logits[i], solution);
            if (ratio > -1) {
                double p = power_of(ratio, solution->found);
                block_sum += p;
                block_derivative += p / (1 + ratio);
            }
        }
        whole->value[ENTMAX_SUM] += block_sum;
        whole->value[ENTMAX_SQUARES] += block_derivative;
    }
}

/* Fills found[2] and found[3]. */
static void set_top(double *found, double v) {
    found[2] = v;
    found[3] = exp(found[1] * v);
}

/* For the exact ones found[1] is the threshold, found[2] is a and found[3] is 0. */
static void note_threshold(map_search *search) {
    double *found = search->solution.found;
    if (whet_entmax_is_exact(search->entmax.a)) {
        found[1] = search->entmax.threshold;
        found[2] = search->entmax.a;
        found[3] = 0;
    } else {
        found[1] = search->entmax.a - 1;
        set_top(found, search->entmax.threshold);
    }
}

static void entmax_start(const map_row *row, map_search *search) {
    double a = row->policy->map_value[0];
    whet_entmax_start(&search->entmax, a, whet_entmax_is_exact(a) ? 0 : ROW_TOLERANCE,
                      (double)INFINITY);
    search->solution.found[0] = row->stats->max;
    search->sums = ENTMAX_SUMS;
    note_threshold(search);
}

static void entmax_sum(const map_row *row, const map_search *search, map_sums *sums) {
    if (whet_entmax_is_exact(search->entmax.a))
        sum_support(row, search, sums);
    else
        sum_powers(row, search, sums);
}

static void entmax_step(const map_row *row, map_search *search, const map_sums *sums) {
    (void)row;
    whet_entmax_step(&search->entmax, &(entmax_sums){.count = sums->value[ENTMAX_COUNT],
                                                     .sum = sums->value[ENTMAX_SUM],
                                                     .squares = sums->value[ENTMAX_SQUARES],
                                                     .lowest = sums->lowest});
    note_threshold(search);
    search->done = search->entmax.done;
}

/* ---- gradient ---- */

/* (exp(t) - 1 - t) / t^2 for t >= 0, by its series where the difference would lose digits. */
static double exp_remainder(double t) {
    if (t < 0.03)
        return 0.5 + t * (1.0 / 6 + t * (1.0 / 24 + t * (1.0 / 120 + t / 720)));
    return (expm1(t) - t) / (t * t);
}

/*
 * The derivative of a coefficient p > 0 with respect to a, except for a multiple of its
 * weight p^(2 - a), which D removes: with L = -ln p, -p L^2 remainder((a - 1) L). That is
 * the derivative r h + r^2 p (r = 1 / (a - 1), h = p L) less r^2 p^(2 - a), so that no
 * digits are lost as a approaches 1.
 */
static double alpha_derivative(double alpha, double p) {
    double log_p = log(p);
    return -p * log_p * log_p * exp_remainder((1 - alpha) * log_p);
}

static map_terms entmax_terms(double logit, double p, const map_solution *solution) {
    (void)logit;
    if (!(p > 0))
        return (map_terms){.own = 0};
    const double *found = solution->found;
    double alpha = found[3] == 0 ? found[2] : found[1] + 1;
    double s = alpha == 2 ? 1 : alpha == 1.5 ? sqrt(p) : pow(p, 2 - alpha);
    return (map_terms){.own = s, .shared = s, .mean = s, .parameter = alpha_derivative(alpha, p)};
}

static panel_form entmax_panel(const whet_policy *policy) {
    return whet_entmax_is_exact(policy->map_value[0]) ? PANEL_ENTMAX : PANEL_POWER;
}

static const policy_parameter entmax_parameters[] = {{.name = "a",
                                                      .rule = "entmax needs 1 < a <= 2",
                                                      .offset = POLICY_MAP_VALUE(0),
                                                      .gradient = GRADIENT_MAP_VALUE(0),
                                                      .low = 1,
                                                      .high = 2,
                                                      .flags = PARAMETER_LOW_OPEN}};

const map_descriptor whet_map_entmax = {.kind = WHET_POLICY_ENTMAX,
                                        .traits = MAP_SUMS_TO_ONE | MAP_TAKES_SINK | MAP_SEARCHES |
                                                  MAP_MEAN_OVER_SUM,
                                        .parameters = entmax_parameters,
                                        .parameter_count = COUNT_OF(entmax_parameters),
                                        .start = entmax_start,
                                        .sum = entmax_sum,
                                        .step = entmax_step,
                                        .coefficient = entmax_coefficient,
                                        .terms = entmax_terms,
                                        .panel = entmax_panel};

const policy_entry whet_entry_sparsemax = {
    .name = "sparsemax",
    .map = &whet_map_entmax,
    .preset = whet_policy_sparsemax,
    .is_alias = true,
    .info = {"sparsemax", "the nearest point of the simplex: entmax with a = 2", "sparsemax", 0}};

const policy_entry whet_entry_entmax15 = {
    .name = "entmax15",
    .map = &whet_map_entmax,
    .preset = whet_policy_entmax15,
    .is_alias = true,
    .info = {"entmax15", "entmax with a = 1.5", "entmax15", 0}};

const policy_entry whet_entry_entmax = {
    .name = "entmax",
    .map = &whet_map_entmax,
    .preset = whet_policy_sparsemax,
    .info = {"entmax:a", "between softmax (a = 1) and sparsemax (a = 2)", "entmax:1.25", 0}};
