/* Intervals and tests. */
#ifndef WHET_LAB_STATISTICS_H
#define WHET_LAB_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* A mean with its 95 % interval and its standard error. */
typedef struct lab_interval {
    double mean, low, high, error;
} lab_interval;

/* The mean of values with its 95 % interval by Student's t; infinitely wide for one value. */
lab_interval lab_mean_interval(const double *values, size_t count);

/* The same from sums, for many values. */
lab_interval lab_mean_interval_of_sums(double sum, double sum_of_squares, uint64_t count);

/*
 * The mean of a table of values, with a row for each head and a column for each set, where all
 * heads saw the same sets, and its error for other heads and other sets. Errors over rows alone
 * would be too small, since all rows share easy and hard columns. Variances of rows, columns and
 * the residual are separated as in a two-way analysis of variance, with Satterthwaite's degrees of
 * freedom. `squares` is the sum of all values' squares, `column_squares` that of all columns'
 * sums. At least two rows.
 */
lab_interval lab_crossed_interval(const double *row_means, size_t rows, uint64_t columns,
                                  double squares, double column_squares);

/* A share with Wilson's 95 % interval, which stays inside 0 ... 1. */
lab_interval lab_share_interval(uint64_t hits, uint64_t count);

/* The two-sided quantile of Student's t for 95 %: 12.7 for one degree of freedom, 1.96 for many. */
double lab_student_95(size_t degrees);

/* The probability that Student's t exceeds a value, one-sided; 1 degree of freedom at least. */
double lab_student_tail(double t, size_t degrees);

/* Probability of a split at least as uneven as a : b if both sides are equally likely. */
double lab_even_split_probability(uint64_t a, uint64_t b);

#endif
