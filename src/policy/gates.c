/*
 * Maps whose coefficients need not sum to one, so that a head can attend to
 * nothing: softmax1 and sigmoid.
 */
#include "policy/registry.h"
#include "row/walk.h"

/* ---- softmax1 ---- */

whet_policy whet_policy_softmax1(void) {
    return whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_SOFTMAX1);
}

/* found: the shift, the denominator. */
static double softmax1_coefficient(double logit, const map_solution *solution) {
    return exp(solution->beta * logit - solution->found[0]) / solution->found[1];
}

/* The 1 in 1 + sum exp(e) is a logit of zero: shifting by the larger of it and the maximum keeps
 * every exponential at 1 or below. */
static void softmax1_start(const map_row *row, map_search *search) {
    search->solution.found[0] = fmax(0, row->beta * row->stats->max);
    search->sums = 1;
}

static void softmax1_sum(const map_row *row, const map_search *search, map_sums *sums) {
    double shift = search->solution.found[0];
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk)) {
        double block = 0;
        for (size_t i = 0; i < walk.count; i++)
            block += exp(row->beta * (double)walk.logits[i] - shift);
        sums->value[0] += block;
    }
}

static void softmax1_step(const map_row *row, map_search *search, const map_sums *sums) {
    (void)row;
    search->solution.found[1] = exp(-search->solution.found[0]) + sums->value[0];
    search->done = true;
}

static map_terms softmax1_terms(double logit, double p, const map_solution *solution) {
    (void)logit;
    (void)solution;
    return (map_terms){.own = p, .shared = p, .mean = p};
}

static panel_form softmax1_panel(const whet_policy *policy) {
    (void)policy;
    return PANEL_EXP;
}

const map_descriptor whet_map_softmax1 = {.kind = WHET_POLICY_SOFTMAX1,
                                          .traits =
                                              MAP_TAKES_SINK | MAP_ZERO_LOGIT | MAP_EXPONENTIAL,
                                          .start = softmax1_start,
                                          .sum = softmax1_sum,
                                          .step = softmax1_step,
                                          .coefficient = softmax1_coefficient,
                                          .terms = softmax1_terms,
                                          .panel = softmax1_panel};

const policy_entry whet_entry_softmax1 = {
    .name = "softmax1",
    .map = &whet_map_softmax1,
    .preset = whet_policy_softmax1,
    .info = {"softmax1", "exp(e) / (1 + sum exp(e))", "softmax1", 0}};

/* ---- sigmoid ---- */

whet_policy whet_policy_sigmoid(double b) {
    whet_policy policy = whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_SIGMOID);
    policy.map_value[0] = b;
    return policy;
}

static whet_policy preset_sigmoid(void) { return whet_policy_sigmoid(NAN); }

/* found: b, whether it was given. */
static double sigmoid_coefficient(double logit, const map_solution *solution) {
    return 1 / (1 + exp(solution->found[0] - solution->beta * logit));
}

static void sigmoid_start(const map_row *row, map_search *search) {
    double b = row->policy->map_value[0];
    search->solution.found[0] = isnan(b) ? log((double)row->visible) : b;
    search->solution.found[1] = !isnan(b);
    search->done = true;
}

static map_terms sigmoid_terms(double logit, double p, const map_solution *solution) {
    (void)logit;
    double derivative = p * (1 - p);
    return (map_terms){.own = derivative, .parameter = solution->found[1] > 0 ? -derivative : 0};
}

static panel_form sigmoid_panel(const whet_policy *policy) {
    (void)policy;
    return PANEL_SIGMOID;
}

static const policy_parameter sigmoid_parameters[] = {
    {.name = "b",
     .rule = "sigmoid needs a finite b",
     .offset = POLICY_MAP_VALUE(0),
     .gradient = GRADIENT_MAP_VALUE(0),
     .low = -INFINITY,
     .high = INFINITY,
     .flags = PARAMETER_OPEN | PARAMETER_NAN | PARAMETER_OPTIONAL},
};

const map_descriptor whet_map_sigmoid = {.kind = WHET_POLICY_SIGMOID,
                                         .traits = MAP_BY_VISIBLE,
                                         .parameters = sigmoid_parameters,
                                         .parameter_count = COUNT_OF(sigmoid_parameters),
                                         .start = sigmoid_start,
                                         .coefficient = sigmoid_coefficient,
                                         .terms = sigmoid_terms,
                                         .panel = sigmoid_panel};

const policy_entry whet_entry_sigmoid = {
    .name = "sigmoid",
    .map = &whet_map_sigmoid,
    .preset = preset_sigmoid,
    .info = {"sigmoid[:b]", "1 / (1 + exp(b - e)), b = ln n by default", "sigmoid:4", 0}};
