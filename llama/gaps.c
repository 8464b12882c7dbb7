/*
 * Histograms of logits near the largest; see gaps.h.
 */
#include "llama/gaps.h"
#include <math.h>
#include <string.h>

static int64_t bin_of(float logit) {
    double bin = floor((double)logit * GAP_BINS_PER_NAT);
    return (int64_t)fmin(fmax(bin, -1e15), 1e15); /* of logits beyond any that occur */
}

/* Moves the window up to a new largest bin; what falls out of it is too deep to matter. */
static void raise_top(gap_histogram *all, int64_t top) {
    uint64_t by = (uint64_t)(top - all->top);
    size_t kept = by < GAP_BINS ? GAP_BINS - (size_t)by : 0;
    memmove(all->counts + (GAP_BINS - kept), all->counts, kept * sizeof *all->counts);
    memset(all->counts, 0, (GAP_BINS - kept) * sizeof *all->counts);
    all->top = top;
}

void gaps_add(gap_histogram *all, int64_t bin, uint32_t count, float largest) {
    if (count == 0)
        return;
    if (all->counts[0] == 0) {
        all->top = bin;
        all->largest = largest;
    }
    if (bin > all->top)
        raise_top(all, bin);
    all->largest = largest > all->largest ? largest : all->largest;
    if (all->top - bin < GAP_BINS)
        all->counts[all->top - bin] += count;
}

void gaps_add_row(gap_histogram *all, const float *logits, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (isfinite(logits[i]))
            gaps_add(all, bin_of(logits[i]), 1, logits[i]);
}

void gaps_merge(gap_histogram *all, const gap_histogram *piece) {
    for (size_t i = 0; i < GAP_BINS; i++)
        gaps_add(all, piece->top - (int64_t)i, piece->counts[i],
                 i == 0 ? piece->largest : -INFINITY);
}

/* How far the logits of a bin lie below the largest: those of its own bin halfway to the bin's
 * lower edge, others in the middle of theirs. */
static double gap_of(const gap_histogram *all, size_t i) {
    double low = (double)(all->top - (int64_t)i) / GAP_BINS_PER_NAT, largest = (double)all->largest;
    return i == 0 ? fmax(0, largest - low) / 2 : largest - low - 0.5 / GAP_BINS_PER_NAT;
}

double gaps_within(const gap_histogram *all, double delta) {
    double count = 0;
    for (size_t i = 0; i < GAP_BINS; i++)
        if (all->counts[i] > 0 && gap_of(all, i) <= delta)
            count += all->counts[i];
    return all->counts[0] > 0 && count < 1 ? 1 : count;
}

double gaps_ln_sum(const gap_histogram *all, double beta) {
    if (all->counts[0] == 0)
        return (double)NAN;
    double others = (all->counts[0] - 1) * exp(-beta * gap_of(all, 0));
    for (size_t i = 1; i < GAP_BINS; i++)
        if (all->counts[i] > 0)
            others += all->counts[i] * exp(-beta * gap_of(all, i));
    return log1p(others);
}
