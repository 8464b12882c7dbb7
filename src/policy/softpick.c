/*
 * softpick: max(exp(e) - 1, 0) / sum |exp(e) - 1|. Entries below zero get nothing
 * and still push the others down, so that a head can attend to nothing.
 *
 * Everything is relative to exp(shift) with shift = max(beta max, 0), so that nothing
 * overflows: with E = exp(x - shift), r = E - exp(-shift) and S = sum |r| over unmasked
 * entries, p = max(r, 0) / S. A logit gets E / S (g where r > 0, less sign(r) D): also
 * where p is zero.
 */
#include "policy/softpick.h"
#include "policy/registry.h"
#include "row/walk.h"

whet_policy whet_policy_softpick(void) {
    return whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_SOFTPICK);
}

/* found: the shift, 1 / S or 0 where S is. */
static double coefficient(double logit, const map_solution *solution) {
    double r = softpick_excess(solution->beta * logit, solution->found[0]);
    return r > 0 ? r * solution->found[1] : 0;
}

static void start(const map_row *row, map_search *search) {
    search->solution.found[0] = softpick_shift(row->beta, row->stats->max);
    search->sums = 1;
}

static void sum(const map_row *row, const map_search *search, map_sums *sums) {
    double shift = search->solution.found[0];
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk)) {
        double block = 0;
        for (size_t i = 0; i < walk.count; i++)
            if (walk.logits[i] != -INFINITY)
                block += fabs(softpick_excess(row->beta * (double)walk.logits[i], shift));
        sums->value[0] += block;
    }
}

static void step(const map_row *row, map_search *search, const map_sums *sums) {
    (void)row;
    search->solution.found[1] = sums->value[0] > 0 ? 1 / sums->value[0] : 0;
    search->done = true;
}

static map_terms terms(double logit, double p, const map_solution *solution) {
    double x = solution->beta * logit;
    double e = exp(x - solution->found[0]) * solution->found[1];
    return (map_terms){.own = x > 0 ? e : 0, .shared = x > 0 ? e : x < 0 ? -e : 0, .mean = p};
}

static panel_form softpick_panel(const whet_policy *policy) {
    (void)policy;
    return PANEL_SOFTPICK;
}

const map_descriptor whet_map_softpick = {.kind = WHET_POLICY_SOFTPICK,
                                          .traits = MAP_TAKES_SINK | MAP_SEARCHES,
                                          .start = start,
                                          .sum = sum,
                                          .step = step,
                                          .coefficient = coefficient,
                                          .terms = terms,
                                          .panel = softpick_panel};

const policy_entry whet_entry_softpick = {
    .name = "softpick",
    .map = &whet_map_softpick,
    .preset = whet_policy_softpick,
    .info = {"softpick", "max(exp(e) - 1, 0) / sum |exp(e) - 1|", "softpick", 0}};
