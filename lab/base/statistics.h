/* Intervals and tests. */
#ifndef WHET_LAB_STATISTICS_H
#define WHET_LAB_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

typedef struct lab_interval {
    double mean, low, high;
} lab_interval;

/* The mean of values with its 95 % interval by Student's t; infinitely wide for one value. */
lab_interval lab_mean_interval(const double *values, size_t count);

/* The same from sums, for many values. */
lab_interval lab_mean_interval_of_sums(double sum, double sum_of_squares, uint64_t count);

/* A share with Wilson's 95 % interval, which stays inside 0 ... 1. */
lab_interval lab_share_interval(uint64_t hits, uint64_t count);

/* The two-sided quantile of Student's t for 95 %: 12.7 for one degree of freedom, 1.96 for many. */
double lab_student_95(size_t degrees);

/* How probable a split at least as uneven as a : b is where both sides are equally likely. */
double lab_even_split_probability(uint64_t a, uint64_t b);

#endif
