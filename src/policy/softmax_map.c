/* Softmax as a map. Its fast forms are elsewhere (src/row, src/isa); this one is for what they
 * leave out, such as gradients of entropies. */
#include "policy/registry.h"
#include "row/walk.h"

/* found: the largest logit, the sum of exponentials. */
static double softmax_coefficient(double logit, const map_solution *solution) {
    return exp(solution->beta * (logit - solution->found[0])) / solution->found[1];
}

static void softmax_start(const map_row *row, map_search *search) {
    search->solution.found[0] = row->stats->max;
    search->sums = 1;
}

static void softmax_sum(const map_row *row, const map_search *search, map_sums *sums) {
    double max = search->solution.found[0];
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk)) {
        double block = 0;
        for (size_t i = 0; i < walk.count; i++)
            block += exp(row->beta * ((double)walk.logits[i] - max));
        sums->value[0] += block;
    }
}

static void softmax_step(const map_row *row, map_search *search, const map_sums *sums) {
    (void)row;
    search->solution.found[1] = sums->value[0];
    search->done = true;
}

static map_terms softmax_terms(double logit, double p, const map_solution *solution) {
    (void)logit;
    (void)solution;
    return (map_terms){.own = p, .shared = p, .mean = p};
}

static panel_form softmax_panel(const whet_policy *policy) {
    (void)policy;
    return PANEL_EXP;
}

const map_descriptor whet_map_softmax = {.kind = WHET_POLICY_SOFTMAX,
                                         .traits = MAP_SUMS_TO_ONE | MAP_TAKES_SINK |
                                                   MAP_EXPONENTIAL | MAP_IS_SOFTMAX,
                                         .start = softmax_start,
                                         .sum = softmax_sum,
                                         .step = softmax_step,
                                         .coefficient = softmax_coefficient,
                                         .terms = softmax_terms,
                                         .panel = softmax_panel};
