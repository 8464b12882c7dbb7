/*
 * The ratio of two times that were taken in pairs, close to each other, so
 * that noise affects both. No distribution of the noise is assumed: the
 * interval is that of the sign test, from one ordered value to another.
 */
#ifndef WHET_BENCH_PAIRED_H
#define WHET_BENCH_PAIRED_H

#include <stddef.h>

/* Fewer pairs give no interval of 95 %; more than PAIRS_MAX are not kept. */
enum { PAIRS_MIN = 6, PAIRS_MAX = 400 };

typedef struct paired_ratio {
    double median;
    double low,
        high; /* contains the true median with 95 %; 0 and infinity where there are too few pairs */
    size_t pairs;
} paired_ratio;

/*
 * Takes the logarithms of the pairs' ratios in the order in which they were measured, at most
 * PAIRS_MAX. Which of the two is run first must alternate: where there are enough pairs, every two
 * successive ones are averaged, so that being first or second cancels.
 */
paired_ratio bench_paired_ratio(const double *logarithms, size_t count);

/* The median of 1 to PAIRS_MAX values. */
double bench_paired_median(const double *values, size_t count);

#endif
