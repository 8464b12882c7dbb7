/*
 * The arithmetic of a row's statistics. (m, Z, S) are sums over exp(e - m), so two pieces
 * are rescaled to the larger of their maxima and added:
 *
 *     Z' = Z exp(m_i - m)
 *     S' = (S + (m_i - m) Z) exp(m_i - m)
 *
 * A piece with nothing in it has m = -inf and must not reach these formulas, where it
 * would make NaN; one whose weight exp(m_i - m) is zero adds nothing. A piece may hold a
 * sink alone (n = 0, but m finite), so m decides, not n.
 */
#include "row/stats.h"
#include "base/last_error.h"
#include "base/sums.h"

#include <math.h>
#include <stdbool.h>

static bool is_finite(const whet_stats *stats) {
    return !(stats->flags & WHET_ROW_NOT_FINITE) && stats->max < INFINITY && !isnan(stats->z) &&
           !isnan(stats->s);
}

whet_stats whet_stats_empty(void) {
    return (whet_stats){.max = -INFINITY,
                        .logsumexp = -INFINITY,
                        .min = INFINITY,
                        .argmax = UINT64_MAX,
                        .beta = 1,
                        .flags = WHET_ROW_EMPTY};
}

/* Adds a piece to sums that are relative to the maximum sums->max. */
static void add_piece(whet_stats *sums, const whet_stats *piece) {
    if (piece->max == -INFINITY) {
        return;
    }
    double shift = piece->max - sums->max;
    double weight = shift < 0 ? exp(shift) : 1;
    if (weight > 0) {
        double z = piece->z, s = piece->s;
        sums_shift(shift, weight, &z, &s, NULL);
        sums->z += z;
        sums->s += s;
    }
}

whet_stats whet_stats_add(const whet_stats *a, const whet_stats *b) {
    /* a sink alone has no entry that could be the largest */
    bool is_b = a->argmax == UINT64_MAX || (b->max > a->max && b->argmax != UINT64_MAX);
    const whet_stats *top = is_b ? b : a;
    whet_stats whole = {.n = a->n + b->n,
                        .min = a->min < b->min ? a->min : b->min,
                        .argmax = top->argmax,
                        .position = a->max > -INFINITY ? a->position : b->position};
    if (is_finite(a) && is_finite(b)) {
        whole.max = a->max > b->max ? a->max : b->max;
        add_piece(&whole, a);
        add_piece(&whole, b);
    } else {
        whole.flags = WHET_ROW_NOT_FINITE;
    }
    return whole;
}

void whet_stats_merge(const whet_stats *a, const whet_stats *b, whet_stats *result) {
    const whet_stats empty = whet_stats_empty();
    if (!result) {
        whet_refuse(WHET_ERROR_ARGUMENT, "result is NULL");
        return;
    }
    *result = whet_stats_add(a ? a : &empty, b ? b : &empty);
    whet_stats_complete(result);
    result->sink_share = NAN;
}

whet_stats whet_stats_not_finite(uint64_t n) {
    double nan = (double)NAN;
    return (whet_stats){.n = n,
                        .max = nan,
                        .z = nan,
                        .s = nan,
                        .logsumexp = nan,
                        .entropy = nan,
                        .min = nan,
                        .argmax = UINT64_MAX,
                        .beta = nan,
                        .entropy_after = nan,
                        .max_prob = nan,
                        .sink_share = nan,
                        .flags = WHET_ROW_NOT_FINITE};
}

/* beta and what follows become those of plain softmax, where every policy starts from. */
void whet_stats_complete(whet_stats *stats) {
    stats->reserved = 0;
    stats->skipped_weight = stats->skipped_share = 0;
    if (!is_finite(stats)) {
        int64_t position = stats->position;
        *stats = whet_stats_not_finite(stats->n);
        stats->position = position;
        return;
    }
    stats->flags = stats->n == 0 ? WHET_ROW_EMPTY : 0;
    stats->logsumexp = -INFINITY;
    stats->entropy = 0;
    stats->beta = 1;
    stats->max_prob = 0;
    stats->sink_share = 0;
    if (stats->max > -INFINITY) {
        double log_z = log(stats->z);
        stats->logsumexp = stats->max + log_z;
        double entropy = log_z - stats->s / stats->z;
        stats->entropy = entropy > 0 ? entropy : 0;
        stats->max_prob = 1 / stats->z;
    }
    stats->entropy_after = stats->entropy;
}

void whet_stats_after(whet_stats *stats, double z, double s) {
    double h = log(z) - stats->beta * (s / z);
    stats->entropy_after = h > 0 ? h : 0;
    stats->max_prob = 1.0 / z;
}
