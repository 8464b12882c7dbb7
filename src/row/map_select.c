/*
 * Maps that keep the largest logits: topk and hardmax. The k-th largest is
 * found by radix selection: floats are mapped to integers in the same order,
 * and four passes over the row settle one byte of the answer each, the highest
 * first, by counting how often each value of that byte occurs.
 */
#include "row/map.h"

#include <math.h>
#include <string.h>

/* An integer that orders as the logit does; -0 and +0 give the same. */
static uint32_t ordered_bits(float logit) {
    float without_sign_of_zero = logit + 0.0f;
    uint32_t bits;
    memcpy(&bits, &without_sign_of_zero, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float from_ordered_bits(uint32_t bits) {
    bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
    float logit;
    memcpy(&logit, &bits, sizeof logit);
    return logit;
}

/* Counts the values of the byte at `shift` among logits whose higher bytes are those of prefix. */
static void count_bytes(const row_view *row, uint32_t prefix, unsigned shift,
                        uint64_t counts[256]) {
    uint32_t higher = (uint32_t)(UINT64_C(0xffffff00) << shift);
    memset(counts, 0, 256 * sizeof counts[0]);
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        for (size_t i = 0; i < walk.count; i++) {
            uint32_t bits = ordered_bits(walk.logits[i]);
            if (((bits ^ prefix) & higher) == 0) {
                counts[(bits >> shift) & 0xff]++;
            }
        }
    }
}

/* The k-th largest logit, for k no larger than the number of logits that are not masked. */
static float kth_largest(const row_view *row, uint64_t k) {
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
    return from_ordered_bits(prefix);
}

/* found: the lowest logit that stays, the largest logit, Z over those that stay. */
static double topk_coefficient(double logit, const double *found) {
    return logit >= found[0] ? exp(logit - found[1]) / found[2] : 0;
}

static double sum_from(const row_view *row, double lowest, double max) {
    double z = 0;
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        double block_z = 0;
        for (size_t i = 0; i < walk.count; i++) {
            double logit = (double)walk.logits[i];
            if (logit >= lowest) {
                block_z += exp(logit - max);
            }
        }
        z += block_z;
    }
    return z;
}

map_solution whet_map_topk(const whet_policy *policy, const row_view *row,
                           const whet_stats *stats) {
    double k = policy->value[0];
    bool all = k >= (double)stats->n;
    double lowest = all ? -INFINITY : (double)kth_largest(row, (uint64_t)k);
    double z = sum_from(row, lowest, stats->max);
    return (map_solution){topk_coefficient, {lowest, stats->max, z}};
}

/* found: the largest logit, what each that equals it gets, how many those are. */
static double hardmax_coefficient(double logit, const double *found) {
    return logit == found[0] ? found[1] : 0;
}

map_solution whet_map_hardmax(const row_view *row, const whet_stats *stats) {
    uint64_t multiplicity = 0;
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        for (size_t i = 0; i < walk.count; i++) {
            multiplicity += (double)walk.logits[i] == stats->max;
        }
    }
    double ties = (double)multiplicity;
    return (map_solution){hardmax_coefficient, {stats->max, 1 / ties, ties}};
}
