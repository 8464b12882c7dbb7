/*
 * Temperatures that follow a row's entropy: polynomials, the paper's among them,
 * and the exponential.
 */
#include "policy/registry.h"

/* ---- poly and adaptive ---- */

/* The paper's polynomial, from the highest power down. */
static const double adaptive_coefficients[] = {-0.037, 0.481, -2.3, 4.917, -1.791};
#define ADAPTIVE_DEGREE 4
#define ADAPTIVE_THRESHOLD 0.5
#define ADAPTIVE_FLOOR 1.0

/*
 * Where that polynomial peaks: the root of -0.148 H^3 + 1.443 H^2 - 4.6 H +
 * 4.917 near 4.412, rounded to double. beta is 2.42138770663... there.
 */
#define ADAPTIVE_PEAK 4.412401865965671

/* A degree too high and missing coefficients are kept as such, for the check to refuse. */
whet_policy whet_policy_poly(const double *coefficients, unsigned degree, double threshold,
                             double floor, double hold) {
    whet_policy policy = whet_policy_of(WHET_POLICY_POLY, WHET_POLICY_SOFTMAX);
    policy.degree = degree;
    policy.threshold = threshold;
    policy.floor = floor;
    policy.hold = hold;
    bool is_readable = coefficients && degree <= WHET_POLY_DEGREE_MAX;
    for (unsigned i = 0; i <= degree && i <= WHET_POLY_DEGREE_MAX; i++)
        policy.value[i] = is_readable ? coefficients[i] : NAN;
    return policy;
}

whet_policy whet_policy_adaptive(void) {
    return whet_policy_poly(adaptive_coefficients, ADAPTIVE_DEGREE, ADAPTIVE_THRESHOLD,
                            ADAPTIVE_FLOOR, INFINITY);
}

whet_policy whet_policy_adaptive_hold(void) {
    return whet_policy_poly(adaptive_coefficients, ADAPTIVE_DEGREE, ADAPTIVE_THRESHOLD,
                            ADAPTIVE_FLOOR, ADAPTIVE_PEAK);
}

static whet_policy preset_poly(void) {
    const double one = 1;
    return whet_policy_poly(&one, 0, -INFINITY, 1, INFINITY);
}

/* Coefficient by coefficient over all rows, so that no row waits for itself. */
static void poly_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    const double *entropy = batch->entropy;
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = 0;
    for (unsigned k = 0; k <= policy->degree && k <= WHET_POLY_DEGREE_MAX; k++) {
        for (size_t i = 0; i < batch->count; i++) {
            double h = entropy[i] < policy->hold ? entropy[i] : policy->hold;
            beta[i] = beta[i] * h + policy->value[k];
        }
    }
    for (size_t i = 0; i < batch->count; i++) {
        bool is_left = entropy[i] <= policy->threshold || policy->hold <= policy->threshold;
        double floored = beta[i] > policy->floor ? beta[i] : policy->floor;
        beta[i] = is_left ? 1 : floored;
    }
}

/* Coefficients, the entropy below `hold`, and `hold` itself beyond. */
static double poly_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                              double variance, whet_policy_gradient *parameters) {
    (void)variance;
    double h = fmin(stats->entropy, policy->hold);
    if (h <= policy->threshold || !(beta > policy->floor))
        return 0;
    double power = 1;
    double derivative = 0;
    for (unsigned i = 0; i <= policy->degree; i++) {
        parameters->value[policy->degree - i] = power;
        power *= h;
    }
    for (unsigned i = 0; i < policy->degree; i++)
        derivative = derivative * h + policy->value[i] * (double)(policy->degree - i);
    if (stats->entropy > policy->hold) {
        parameters->hold = derivative;
        return 0;
    }
    return derivative;
}

static const policy_parameter poly_parameters[] = {
    {.name = "c",
     .rule = "poly needs finite coefficients",
     .offset = POLICY_VALUE(0),
     .gradient = GRADIENT_VALUE(0),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_LIST | PARAMETER_LEARNABLE},
    {.name = "threshold",
     .rule = "poly needs a threshold below inf",
     .offset = offsetof(whet_policy, threshold),
     .gradient = NO_GRADIENT,
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_HIGH_OPEN | PARAMETER_OPTION},
    {.name = "floor",
     .rule = "poly needs a floor below inf",
     .offset = offsetof(whet_policy, floor),
     .gradient = NO_GRADIENT,
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_HIGH_OPEN | PARAMETER_OPTION},
    {.name = "hold",
     .rule = "poly needs a hold above -inf",
     .offset = offsetof(whet_policy, hold),
     .gradient = offsetof(whet_policy_gradient, hold),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_LOW_OPEN | PARAMETER_OPTION},
};

const temperature_descriptor whet_temperature_poly = {.kind = WHET_POLICY_POLY,
                                                      .needs = NEEDS_SUMS,
                                                      .parameters = poly_parameters,
                                                      .parameter_count = COUNT_OF(poly_parameters),
                                                      .betas = poly_betas,
                                                      .derivative = poly_derivative};

const policy_entry whet_entry_adaptive = {
    .name = "adaptive",
    .temperature = &whet_temperature_poly,
    .preset = whet_policy_adaptive,
    .is_alias = true,
    .info = {"adaptive", "the paper's: beta = max(1, poly(H)) for H > 0.5, else 1", "adaptive", 1}};

const policy_entry whet_entry_adaptive_hold = {
    .name = "adaptive:hold",
    .temperature = &whet_temperature_poly,
    .preset = whet_policy_adaptive_hold,
    .is_alias = true,
    .info = {"adaptive:hold", "the same, but beyond the peak at H = 4.412 beta stays 2.421",
             "adaptive:hold", 1}};

const policy_entry whet_entry_poly = {
    .name = "poly",
    .temperature = &whet_temperature_poly,
    .preset = preset_poly,
    .info = {"poly:c4/c3/...[:threshold=T][:floor=F][:hold=H1]",
             "beta = max(F, poly(H)); 1 for H <= T; constant from H1 on",
             "poly:-0.2/1.6/-0.5:threshold=0.5:hold=4", 1}};

/* ---- exp ---- */

whet_policy whet_policy_exp(double h0) {
    whet_policy policy = whet_policy_of(WHET_POLICY_EXP, WHET_POLICY_SOFTMAX);
    policy.value[0] = h0;
    return policy;
}

static whet_policy preset_exp(void) { return whet_policy_exp(0); }

static void exp_betas(const whet_policy *policy, const beta_batch *batch, double *beta) {
    for (size_t i = 0; i < batch->count; i++)
        beta[i] = fmax(1, exp(batch->entropy[i] - policy->value[0]));
}

static double exp_derivative(const whet_policy *policy, const whet_stats *stats, double beta,
                             double variance, whet_policy_gradient *parameters) {
    (void)policy;
    (void)stats;
    (void)variance;
    parameters->value[0] = beta > 1 ? -beta : 0;
    return beta > 1 ? beta : 0;
}

static const policy_parameter exp_parameters[] = {{.name = "h0",
                                                   .rule = "exp needs a finite h0",
                                                   .offset = POLICY_VALUE(0),
                                                   .gradient = GRADIENT_VALUE(0),
                                                   .low = -INFINITY,
                                                   .high = INFINITY,
                                                   .flags = PARAMETER_OPEN}};

const temperature_descriptor whet_temperature_exp = {.kind = WHET_POLICY_EXP,
                                                     .needs = NEEDS_SUMS,
                                                     .parameters = exp_parameters,
                                                     .parameter_count = COUNT_OF(exp_parameters),
                                                     .betas = exp_betas,
                                                     .derivative = exp_derivative};

const policy_entry whet_entry_exp = {
    .name = "exp",
    .temperature = &whet_temperature_exp,
    .preset = preset_exp,
    .info = {"exp:h0", "beta = max(1, exp(H - h0))", "exp:1.5", 1}};
