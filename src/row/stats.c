/*
 * The arithmetic of a row's statistics. (m, Z, S) are sums over exp(e - m), so
 * two pieces are brought to the larger of their maxima and added:
 *
 *     Z' = Z exp(m_i - m)
 *     S' = (S + (m_i - m) Z) exp(m_i - m)
 *
 * A piece with nothing in it has m = -inf and must not reach these formulas,
 * where it would make NaN; one whose weight exp(m_i - m) is zero adds nothing.
 * A piece may hold a sink alone (n = 0, but m finite), so m tells and not n.
 */
#include "row/row.h"

#include <math.h>
#include <stdbool.h>

static bool is_finite(const whet_stats *stats) {
    return !(stats->flags & WHET_ROW_NOT_FINITE) && stats->max < INFINITY && !isnan(stats->z) &&
           !isnan(stats->s);
}

whet_stats whet_stats_empty(void) {
    whet_stats stats = {.max = -INFINITY};
    whet_stats_complete(&stats);
    return stats;
}

/* Adds a piece to sums that are relative to the maximum sums->max. */
static void add_piece(whet_stats *sums, const whet_stats *piece) {
    if (piece->max == -INFINITY) {
        return;
    }
    double shift = piece->max - sums->max;
    double weight = shift < 0 ? exp(shift) : 1;
    if (weight > 0) {
        sums->z += piece->z * weight;
        sums->s += (piece->s + shift * piece->z) * weight;
    }
}

whet_stats whet_stats_add(const whet_stats *a, const whet_stats *b) {
    whet_stats whole = {.n = a->n + b->n};
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
    *result = whet_stats_add(a, b);
    whet_stats_complete(result);
}

static void spoil(whet_stats *stats) {
    stats->max = stats->z = stats->s = stats->logsumexp = stats->entropy = NAN;
    stats->beta = stats->entropy_after = stats->max_prob = NAN;
    stats->flags = WHET_ROW_NOT_FINITE;
}

/* beta and what follows become those of plain softmax, where every policy starts from. */
void whet_stats_complete(whet_stats *stats) {
    stats->reserved = 0;
    if (!is_finite(stats)) {
        spoil(stats);
        return;
    }
    stats->flags = stats->n == 0 ? WHET_ROW_EMPTY : 0;
    stats->logsumexp = -INFINITY;
    stats->entropy = 0;
    stats->beta = 1;
    stats->max_prob = 0;
    if (stats->max > -INFINITY) {
        double log_z = log(stats->z);
        stats->logsumexp = stats->max + log_z;
        double entropy = log_z - stats->s / stats->z;
        stats->entropy = entropy > 0 ? entropy : 0;
        stats->max_prob = 1 / stats->z;
    }
    stats->entropy_after = stats->entropy;
}
