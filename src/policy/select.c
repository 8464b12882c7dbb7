/*
 * Maps that keep the largest logits: topk and hardmax. The k-th largest is
 * found by radix selection: floats are mapped to integers in the same order,
 * and four passes over the row settle one byte of the answer each, the highest
 * first, by counting how often each value of that byte occurs. Parts of the row whose largest
 * logit is below the answer are passed over: before its first byte is known, those below
 * the k-th largest of the parts' largest logits. Of a whole row, entries that reach this bound are
 * mostly few: then they are collected, and the answer is found among them.
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

/* How often each value of the byte at `shift` occurs among floats whose higher bytes are those of
 * prefix. */
typedef struct byte_counts {
    uint32_t prefix;
    unsigned shift;
    uint64_t of[256];
} byte_counts;

static void count_floats(byte_counts *c, const float *x, size_t n, float lowest) {
    uint32_t higher = (uint32_t)(UINT64_C(0xffffff00) << c->shift);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = whet_ordered_bits(x[i]);
        if (!(x[i] < lowest) && ((bits ^ c->prefix) & higher) == 0)
            c->of[(bits >> c->shift) & 0xff]++;
    }
}

/* The k-th largest of n floats, for k no larger than n. */
static float kth_largest(const float *x, size_t n, uint64_t k) {
    byte_counts c = {.shift = 32};
    while (c.shift > 0) {
        c.shift -= 8;
        memset(c.of, 0, sizeof c.of);
        count_floats(&c, x, n, -INFINITY);
        uint32_t byte = 255;
        while (byte > 0 && c.of[byte] < k)
            k -= c.of[byte--];
        c.prefix |= byte << c.shift;
    }
    return whet_from_ordered_bits(c.prefix);
}

/* The k-th largest of the largest logits of a row's parts: the k-th largest logit of the row is not
 * below it, nor that of any row of which this one is a piece. -inf where there are fewer than k
 * parts, or too many. */
static float lower_bound(const row_view *row, uint64_t k, row_walk *walk) {
    float largest[PARTS_MAX];
    size_t length = ROW_PART, count = 0; /* length divides ROW_BLOCK */
    while (length <= ROW_BLOCK && row->n / length >= PARTS_MAX)
        length *= 2;
    if (length > ROW_BLOCK || k > PARTS_MAX)
        return -INFINITY;
    walk_begin(walk, row, -INFINITY);
    while (walk_next(walk))
        for (size_t i = 0; i < walk->count; i += length) {
            size_t to = walk->count - i < length ? walk->count : i + length;
            float top = -INFINITY;
            for (size_t j = i, end; j < to; j = end) {
                float more = walk_part(walk, j, &end);
                top = more > top ? more : top;
            }
            largest[count++] = top;
        }
    return k <= count ? kth_largest(largest, count, k) : -INFINITY;
}

#define CANDIDATES_MAX 1024

/* Entries of a row that are not below a bound; more than CANDIDATES_MAX if there are too many. */
static size_t collect(const map_row *row, float lowest, row_walk *walk, float *found) {
    size_t count = 0;
    walk_begin(walk, row->row, row->sink);
    while (walk_next(walk))
        for (size_t i = 0, end; i < walk->count; i = end) {
            float largest = walk_part(walk, i, &end);
            for (; largest >= lowest && i < end; i++)
                if (walk->logits[i] >= lowest) {
                    if (count == CANDIDATES_MAX)
                        return CANDIDATES_MAX + 1;
                    found[count++] = walk->logits[i];
                }
        }
    return count;
}

/* Counts the values of the next byte, except in parts that are below the k-th largest logit: it is
 * not below the bound that the first pass finds, nor below the lowest float with the bytes known so
 * far, if that is not NaN. */
static void count_bytes(const map_row *row, const map_search *search, map_sums *sums) {
    byte_counts c = {.prefix = search->prefix, .shift = search->shift};
    row_walk walk;
    float lowest = (float)search->solution.found[0];
    if (search->shift == 24) {
        lowest = lower_bound(row->row, search->k, &walk);
        sums->lowest = (double)lowest < sums->lowest ? (double)lowest : sums->lowest;
    } else if (whet_from_ordered_bits(search->prefix) > lowest) {
        lowest = whet_from_ordered_bits(search->prefix);
    }
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk))
        for (size_t i = 0, end; i < walk.count; i = end)
            if (!(walk_part(&walk, i, &end) < lowest))
                count_floats(&c, walk.logits + i, end - i, lowest);
    for (size_t byte = 0; byte < 256; byte++)
        sums->value[byte] += (double)c.of[byte];
}

/* Settles one more byte of the k-th largest logit. */
static void choose_byte(map_search *search, const map_sums *sums) {
    uint32_t byte = 255;
    while (byte > 0 && sums->value[byte] < (double)search->k)
        search->k -= (uint64_t)sums->value[byte--];
    search->prefix |= byte << search->shift;
}

/* found: the lowest logit that stays, the largest logit, Z over those that stay. */
static double topk_coefficient(double logit, const map_solution *solution) {
    const double *found = solution->found;
    return logit >= found[0] ? exp(solution->beta * (logit - found[1])) / found[2] : 0;
}

static void sum_kept(const map_row *row, const map_search *search, map_sums *sums) {
    double lowest = search->solution.found[0], max = search->solution.found[1];
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
        sums->value[0] += block_z;
    }
}

/* One pass for each byte of the lowest logit that stays, one for Z; or that one alone. */
static void topk_start(const map_row *row, map_search *search) {
    double k = row->policy->map_value[0];
    bool all = k >= map_row_entries(row);
    search->solution.found[0] = -INFINITY;
    search->solution.found[1] = row->stats->max;
    search->sums = all ? 1 : 256;
    if (!all) {
        search->k = (uint64_t)k;
        search->shift = 24;
    }
}

/* The k-th largest logit at once, where few entries reach the bound. */
static void topk_settle(const map_row *row, map_search *search) {
    float found[CANDIDATES_MAX];
    row_walk walk;
    if (search->sums == 1)
        return;
    float lowest = lower_bound(row->row, search->k, &walk);
    size_t count = lowest > -INFINITY ? collect(row, lowest, &walk, found) : 0;
    if (count < search->k || count > CANDIDATES_MAX)
        return;
    search->solution.found[0] = (double)kth_largest(found, count, search->k);
    search->sums = 1;
}

static void topk_sum(const map_row *row, const map_search *search, map_sums *sums) {
    if (search->sums == 1)
        sum_kept(row, search, sums);
    else
        count_bytes(row, search, sums);
}

static void topk_step(const map_row *row, map_search *search, const map_sums *sums) {
    (void)row;
    if (search->sums == 1) {
        search->solution.found[2] = sums->value[0];
        search->done = true;
        return;
    }
    choose_byte(search, sums);
    if (search->shift == 24)
        search->solution.found[0] = sums->lowest < INFINITY ? sums->lowest : -INFINITY;
    if (search->shift == 0) {
        search->solution.found[0] = (double)whet_from_ordered_bits(search->prefix);
        search->sums = 1;
    } else {
        search->shift -= 8;
    }
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
                                      .start = topk_start,
                                      .sum = topk_sum,
                                      .step = topk_step,
                                      .settle = topk_settle,
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

static void hardmax_start(const map_row *row, map_search *search) {
    search->solution.found[0] = row->stats->max;
    search->sums = 1;
}

static void hardmax_sum(const map_row *row, const map_search *search, map_sums *sums) {
    double max = search->solution.found[0];
    uint64_t multiplicity = 0;
    row_walk walk;
    walk_begin(&walk, row->row, row->sink);
    while (walk_next(&walk))
        for (size_t i = 0, end; i < walk.count; i = end) {
            double largest = (double)walk_part(&walk, i, &end);
            for (; largest == max && i < end; i++)
                multiplicity += (double)walk.logits[i] == max;
        }
    sums->value[0] += (double)multiplicity;
}

static void hardmax_step(const map_row *row, map_search *search, const map_sums *sums) {
    (void)row;
    search->solution.found[1] = 1 / sums->value[0];
    search->solution.found[2] = sums->value[0];
    search->done = true;
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
                                         .start = hardmax_start,
                                         .sum = hardmax_sum,
                                         .step = hardmax_step,
                                         .coefficient = hardmax_coefficient,
                                         .terms = hardmax_terms,
                                         .entropy = hardmax_entropy,
                                         .panel = hardmax_panel};

const policy_entry whet_entry_hardmax = {
    .name = "hardmax",
    .map = &whet_map_hardmax,
    .preset = whet_policy_hardmax,
    .info = {"hardmax", "everything on the largest, ties share", "hardmax", 0}};
