/*
 * Maps that keep the largest logits: topk and hardmax. The k-th largest is
 * found by radix selection: floats are mapped to integers in the same order,
 * and four passes over the row settle one byte of the answer each, the highest
 * first, by counting how often each value of that byte occurs. Of long rows only the parts
 * are looked at whose largest logit is among the k largest of all parts: the k-th
 * largest entry is not below the k-th of these.
 */
#include "policy/ordered_bits.h"
#include "policy/registry.h"
#include "row/walk.h"

#include <string.h>

#define PARTS_MAX 1024 /* of a row */

/* ---- topk ---- */

whet_policy whet_policy_topk(uint64_t k) {
    whet_policy policy = whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_TOPK);
    policy.map_value[0] = (double)k;
    return policy;
}

static whet_policy preset_topk(void) { return whet_policy_topk(1); }

/* The largest logit of each part of a row; none where there would be too many parts. */
typedef struct row_parts {
    size_t length; /* logits to a part: divides ROW_BLOCK */
    size_t count;
    float largest[PARTS_MAX];
} row_parts;

static void find_parts(const map_row *row, row_parts *parts) {
    parts->count = 0;
    parts->length = WALK_PART;
    while ((row->row->n - 1) / parts->length >= PARTS_MAX)
        parts->length *= 2;
    if (parts->length > ROW_BLOCK)
        return;
    row_walk walk;
    walk_begin(&walk, row->row, -INFINITY);
    while (walk_next(&walk))
        for (size_t i = 0; i < walk.count; i += parts->length) {
            size_t n = walk.count - i < parts->length ? walk.count - i : parts->length;
            parts->largest[parts->count++] = row->row->kernels->max(walk.logits + i, n);
        }
}

/* What a radix selection goes through, for those whose higher bytes are those of prefix: counts
 * the values of the byte at `shift`. */
typedef struct radix_count {
    uint32_t prefix;
    unsigned shift;
    uint64_t counts[256];
} radix_count;

static void count_floats(radix_count *c, const float *x, size_t n) {
    uint32_t higher = (uint32_t)(UINT64_C(0xffffff00) << c->shift);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = whet_ordered_bits(x[i]);
        if (((bits ^ c->prefix) & higher) == 0)
            c->counts[(bits >> c->shift) & 0xff]++;
    }
}

/* Logits among which the k-th largest is: all parts not below `lowest`, and the sink. */
typedef struct candidates {
    const map_row *row;
    const row_parts *parts;
    float lowest;
} candidates;

static void count_candidates(const candidates *of, radix_count *c) {
    const row_parts *parts = of->parts;
    row_walk walk;
    walk_begin(&walk, of->row->row, of->row->sink);
    while (walk_next(&walk)) {
        size_t step = walk.is_sink || parts->count == 0 ? walk.count : parts->length;
        for (size_t i = 0; i < walk.count; i += step) {
            size_t n = walk.count - i < step ? walk.count - i : step;
            bool all = walk.is_sink || parts->count == 0;
            if (all || parts->largest[(walk.start + i) / step] >= of->lowest)
                count_floats(c, walk.logits + i, n);
        }
    }
}

/* The k-th largest of the candidates or, without any, of the parts' largest; k is no larger than
 * their number. */
static float kth_of(const candidates *of, const row_parts *parts, uint64_t k) {
    radix_count c = {.shift = 32};
    while (c.shift > 0) {
        c.shift -= 8;
        memset(c.counts, 0, sizeof c.counts);
        if (of)
            count_candidates(of, &c);
        else
            count_floats(&c, parts->largest, parts->count);
        uint32_t byte = 255;
        while (byte > 0 && c.counts[byte] < k) {
            k -= c.counts[byte--];
        }
        c.prefix |= byte << c.shift;
    }
    return whet_from_ordered_bits(c.prefix);
}

/* The k-th largest logit, for k no larger than the number of logits that are not masked. */
static float kth_largest(const map_row *row, uint64_t k) {
    row_parts parts;
    find_parts(row, &parts);
    candidates of = {row, &parts, -INFINITY};
    if (k <= parts.count)
        of.lowest = kth_of(NULL, &parts, k);
    return kth_of(&of, &parts, k);
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
        for (size_t i = 0, end; i < walk.count; i = end) {
            double largest = (double)walk_part(&walk, i, &end);
            for (; largest >= lowest && i < end; i++)
                if ((double)walk.logits[i] >= lowest)
                    block_z += exp(row->beta * ((double)walk.logits[i] - max));
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
        for (size_t i = 0, end; i < walk.count; i = end) {
            double largest = (double)walk_part(&walk, i, &end);
            for (; largest == row->stats->max && i < end; i++)
                multiplicity += (double)walk.logits[i] == row->stats->max;
        }
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
