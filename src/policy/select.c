/*
 * Maps that keep the largest logits: topk and hardmax. The k-th largest is
 * found by radix selection: floats are mapped to integers in the same order,
 * and four passes over the row settle one byte of the answer each, the highest
 * first, by counting how often each value of that byte occurs.
 */
#include "policy/ordered_bits.h"
#include "policy/registry.h"
#include "row/walk.h"

#include <string.h>

/* ---- topk ---- */

whet_policy whet_policy_topk(uint64_t k) {
    whet_policy policy = whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_TOPK);
    policy.map_value[0] = (double)k;
    return policy;
}

static whet_policy preset_topk(void) { return whet_policy_topk(1); }

/* Counts the values of the byte at `shift` among logits whose higher bytes are those of prefix. */
static void count_bytes(const map_row *row, uint32_t prefix, unsigned shift, uint64_t counts[256]) {
    uint32_t higher = (uint32_t)(UINT64_C(0xffffff00) << shift);
    memset(counts, 0, 256 * sizeof counts[0]);
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk)) {
        for (size_t i = 0; i < walk.count; i++) {
            uint32_t bits = whet_ordered_bits(walk.logits[i]);
            if (((bits ^ prefix) & higher) == 0) {
                counts[(bits >> shift) & 0xff]++;
            }
        }
    }
}

/* The k-th largest logit, for k no larger than the number of logits that are not masked. */
static float kth_largest(const map_row *row, uint64_t k) {
    uint64_t counts[256];
    uint32_t prefix = 0;
    for (unsigned shift = 32; shift > 0;) {
        shift -= 8;
        count_bytes(row, prefix, shift, counts);
        uint32_t byte = 255;
        while (byte > 0 && counts[byte] < k) {
            k -= counts[byte--];
        }
        prefix |= byte << shift;
    }
    return whet_from_ordered_bits(prefix);
}

/* found: the lowest logit that stays, the largest logit, Z over those that stay. */
static double topk_coefficient(double logit, const map_solution *solution) {
    const double *found = solution->found;
    return logit >= found[0] ? exp(solution->beta * (logit - found[1])) / found[2] : 0;
}

static double sum_from(const map_row *row, double lowest) {
    double z = 0;
    double max = row->stats->max;
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk)) {
        double block_z = 0;
        for (size_t i = 0; i < walk.count; i++) {
            double logit = (double)walk.logits[i];
            if (logit >= lowest)
                block_z += exp(row->beta * (logit - max));
        }
        z += block_z;
    }
    return z;
}

static void topk_solve(const map_row *row, map_solution *solution) {
    double k = row->policy->map_value[0];
    bool all = k >= map_row_entries(row);
    double lowest = all ? -INFINITY : (double)kth_largest(row, (uint64_t)k);
    solution->found[0] = lowest;
    solution->found[1] = row->stats->max;
    solution->found[2] = sum_from(row, lowest);
}

static map_terms topk_terms(double logit, double p, const map_solution *solution) {
    (void)logit;
    (void)solution;
    return (map_terms){.own = p, .shared = p, .mean = p};
}

static panel_form topk_panel(const whet_policy *policy) {
    (void)policy;
    return PANEL_EXP_KTH;
}

static const policy_parameter topk_parameters[] = {
    {.name = "k",
     .rule = "topk needs a whole k >= 1",
     .offset = POLICY_MAP_VALUE(0),
     .gradient = NO_GRADIENT,
     .low = 1,
     .high = INFINITY,
     .flags = PARAMETER_HIGH_OPEN | PARAMETER_WHOLE},
};

const map_descriptor whet_map_topk = {.kind = WHET_POLICY_TOPK,
                                      .traits = MAP_SUMS_TO_ONE | MAP_TAKES_SINK | MAP_SEARCHES |
                                                MAP_EXPONENTIAL,
                                      .parameters = topk_parameters,
                                      .parameter_count = COUNT_OF(topk_parameters),
                                      .solve = topk_solve,
                                      .coefficient = topk_coefficient,
                                      .terms = topk_terms,
                                      .panel = topk_panel};

const policy_entry whet_entry_topk = {
    .name = "topk",
    .map = &whet_map_topk,
    .preset = preset_topk,
    .info = {"topk:k", "softmax over the entries not below the k-th largest", "topk:8", 0}};

/* ---- hardmax ---- */

whet_policy whet_policy_hardmax(void) {
    return whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_HARDMAX);
}

/* found: the largest logit, what each that equals it gets, how many those are. */
static double hardmax_coefficient(double logit, const map_solution *solution) {
    return logit == solution->found[0] ? solution->found[1] : 0;
}

static void hardmax_solve(const map_row *row, map_solution *solution) {
    uint64_t multiplicity = 0;
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk))
        for (size_t i = 0; i < walk.count; i++)
            multiplicity += (double)walk.logits[i] == row->stats->max;
    solution->found[0] = row->stats->max;
    solution->found[1] = 1 / (double)multiplicity;
    solution->found[2] = (double)multiplicity;
}

/* Constant but where it jumps. */
static map_terms hardmax_terms(double logit, double p, const map_solution *solution) {
    (void)logit;
    (void)p;
    (void)solution;
    return (map_terms){.own = 0};
}

static double hardmax_entropy(const map_solution *solution) { return log(solution->found[2]); }

static panel_form hardmax_panel(const whet_policy *policy) {
    (void)policy;
    return PANEL_EXP_LARGEST;
}

const map_descriptor whet_map_hardmax = {.kind = WHET_POLICY_HARDMAX,
                                         .traits = MAP_SUMS_TO_ONE | MAP_TAKES_SINK | MAP_SEARCHES |
                                                   MAP_EXPONENTIAL,
                                         .solve = hardmax_solve,
                                         .coefficient = hardmax_coefficient,
                                         .terms = hardmax_terms,
                                         .entropy = hardmax_entropy,
                                         .panel = hardmax_panel};

const policy_entry whet_entry_hardmax = {
    .name = "hardmax",
    .map = &whet_map_hardmax,
    .preset = whet_policy_hardmax,
    .info = {"hardmax", "everything on the largest, ties share", "hardmax", 0}};
