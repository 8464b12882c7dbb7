/*
 * The beta at which a row's entropy has a given value. H falls with beta, from the row's
 * own entropy at 1 to the logarithm of how many entries share the maximum, so there is at
 * most one solution. The first evaluation is at the cap and shows whether there is one;
 * then Newton's method runs inside a bracket that every evaluation tightens.
 *
 * Newton works on ln H as a function of beta: as softmax sharpens, H falls like exp(-beta
 * * gap), whose logarithm is close to a straight line. Where Newton leaves the bracket,
 * or has not settled after a number of steps (H near zero is mostly rounding), the
 * bracket is halved in ln beta instead. Sums made of f32 exponentials leave beta
 * uncertain by about 1e-7; a Newton step below 1e-6 is accepted without another pass over
 * the row, since its own error is of the order of its square.
 */
#include "policy/beta.h"
#include "policy/registry.h"

#include <float.h>

whet_policy whet_policy_target(double entropy, double cap) {
    whet_policy policy = whet_policy_of(WHET_POLICY_TARGET, WHET_POLICY_SOFTMAX);
    policy.value[0] = entropy;
    policy.value[1] = cap;
    return policy;
}

static whet_policy preset_target(void) { return whet_policy_target(1, 256); }

#define STEP_TOLERANCE 1e-6
#define ENTROPY_TOLERANCE 1e-9

/* From here on every second step halves the bracket, and here it ends whatever happens. */
#define STEPS_BEFORE_HALVING 10
#define STEPS_MAX 64

static void finish(beta_solver *solver, double beta, uint32_t flags) {
    solver->beta = beta;
    solver->flags = flags;
    solver->done = 1;
}

/*
 * A first guess from the row's statistics, exact for many normal logits: there H = ln n -
 * beta^2 v / 2 with variance v, and the maximum is sqrt(2 v ln n) above the mean. With L
 * = ln Z and t = S / Z that gives v = t^2 / (2 L), and beta^2 = 1 + (H - goal) / (v / 2).
 * For other logits the result can be anything.
 */
static double first_guess(const whet_stats *stats, double goal) {
    double t = stats->s / stats->z;
    return sqrt(1 + 4 * (stats->entropy - goal) * log(stats->z) / (t * t));
}

static double middle(const beta_solver *solver) { return sqrt(solver->low) * sqrt(solver->high); }

static int is_inside(const beta_solver *solver, double beta) {
    return beta > solver->low && beta < solver->high;
}

static void start(beta_solver *solver, const whet_policy *policy, const whet_stats *stats) {
    double cap = fmin(policy->value[1], POLICY_BETA_MAX);
    *solver = (beta_solver){.goal = policy->value[0], .cap = cap, .low = 1, .high = cap};
    solver->beta = cap;
    if (!(stats->entropy > solver->goal)) {
        finish(solver, 1, 0);
    } else if (!(cap > 1)) {
        finish(solver, cap, WHET_ROW_CAPPED);
    } else {
        solver->start = first_guess(stats, solver->goal);
    }
}

/*
 * A goal of exactly ln(multiplicity) is never reached, though the entropy at the cap
 * rounds to it; a goal a few roundings above that is treated like it.
 */
static void judge_cap(beta_solver *solver, double entropy) {
    double reachable = solver->goal * (1 - 4 * DBL_EPSILON);
    if (!(entropy < reachable)) {
        finish(solver, solver->cap, WHET_ROW_CAPPED);
        return;
    }
    solver->beta = is_inside(solver, solver->start) ? solver->start : middle(solver);
}

/* Where the tangent of ln H at beta meets ln goal; dH/dbeta = -beta Var. NaN where H is zero. */
static double newton(const beta_solver *solver, double entropy, double variance) {
    double beta = solver->beta;
    return beta + entropy * log(entropy / solver->goal) / (beta * variance);
}

static int is_settled(const beta_solver *solver, double entropy, double next) {
    double error = fabs(entropy - solver->goal);
    return error <= ENTROPY_TOLERANCE * fmin(1, solver->goal) ||
           fabs(next - solver->beta) <= STEP_TOLERANCE * solver->beta ||
           solver->high - solver->low <= STEP_TOLERANCE * solver->low;
}

static void step(beta_solver *solver, double z, double s, double q) {
    double mean = s / z;
    double entropy = fmax(0, log(z) - solver->beta * mean);
    if (solver->steps++ == 0) {
        judge_cap(solver, entropy);
        return;
    }
    if (entropy > solver->goal) {
        solver->low = solver->beta;
    } else {
        solver->high = solver->beta;
    }
    double next = newton(solver, entropy, q / z - mean * mean);
    if (is_settled(solver, entropy, next) || solver->steps >= STEPS_MAX) {
        finish(solver, is_inside(solver, next) ? next : solver->beta, 0);
        return;
    }
    int halve = solver->steps > STEPS_BEFORE_HALVING && solver->steps % 2 == 0;
    solver->beta = is_inside(solver, next) && !halve ? next : middle(solver);
}

/* ---- gradient ---- */

/* The entropy at beta is H, unless the cap holds. */
static double derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                         double variance, whet_policy_gradient *parameters) {
    if (stats->flags & WHET_ROW_CAPPED) {
        parameters->value[1] = policy->value[1] <= POLICY_BETA_MAX;
        return 0;
    }
    if (!(beta > 1 && variance > 0))
        return 0;
    parameters->value[0] = -1 / (beta * variance);
    return beta / variance;
}

static const policy_parameter target_parameters[] = {
    {.name = "H",
     .rule = "target needs an entropy H > 0",
     .offset = POLICY_VALUE(0),
     .gradient = GRADIENT_VALUE(0),
     .low = 0,
     .high = INFINITY,
     .flags = PARAMETER_OPEN},
    {.name = "cap",
     .rule = "target needs a finite cap >= 1",
     .offset = POLICY_VALUE(1),
     .gradient = GRADIENT_VALUE(1),
     .low = 1,
     .high = INFINITY,
     .flags = PARAMETER_HIGH_OPEN | PARAMETER_OPTION},
};

static const beta_solver_steps steps = {start, step};

const temperature_descriptor whet_temperature_target = {.kind = WHET_POLICY_TARGET,
                                                        .needs = NEEDS_SUMS | NEEDS_SEARCH,
                                                        .parameters = target_parameters,
                                                        .parameter_count =
                                                            COUNT_OF(target_parameters),
                                                        .derivative = derivative,
                                                        .solver = &steps};

const policy_entry whet_entry_target = {
    .name = "target",
    .temperature = &whet_temperature_target,
    .preset = preset_target,
    .info = {"target:H[:cap=C]", "beta from 1 to C (default 256) at which the entropy is H",
             "target:1.5", 1}};
