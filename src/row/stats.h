/* The arithmetic of a row's statistics. */
#ifndef WHET_STATS_H
#define WHET_STATS_H

#include "whet.h"

/* Fills logsumexp and entropy from n, max, z and s; resets beta and what follows. */
void whet_stats_complete(whet_stats *stats);

/* whet_stats_merge without the fields that whet_stats_complete fills. */
whet_stats whet_stats_add(const whet_stats *a, const whet_stats *b);

/* Entropy and largest probability after beta, from the sums z and s at that beta. */
void whet_stats_after(whet_stats *stats, double z, double s);

/* What a row with NaN or +inf among its logits reports. */
whet_stats whet_stats_not_finite(uint64_t n);

#endif
