/*
 * Rate of generating CLRS-Text: each of the thirty algorithms at length 16,
 * without and with hints, on one thread. Measured in processor time of the
 * thread, as the reference's figures are.
 */
#ifndef WHET_BENCH_CLRS_RATES_H
#define WHET_BENCH_CLRS_RATES_H

#include "clrs/clrs.h"

enum { CLRS_RATES_LENGTH = 16 };

/* Samples per second. */
typedef struct clrs_rate {
    double best, median;
} clrs_rate;

typedef struct clrs_rates {
    clrs_rate each[2][CLRS_ALGORITHM_COUNT]; /* without hints, with hints */
    clrs_rate mean[2];                       /* harmonic, over the algorithms */
} clrs_rates;

/* The reference in Python, harmonic mean, and the project's targets. */
extern const double clrs_reference_rate[2], clrs_rate_bar[2];

/* `title` is called before each algorithm with its name, for progress; may be NULL. */
clrs_status bench_clrs_rates(bool quick, void (*title)(const char *name), clrs_rates *rates);

#endif
