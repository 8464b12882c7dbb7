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
 * The mean of a table of values, a row for each of some heads and a column for each of some sets,
 * all heads having met the same sets: how far it may be off for other heads and other sets. Errors
 * over rows alone would be too small, since all rows share what is easy or hard about the columns.
 * Variances of rows, columns and the rest are told apart as in a two-way analysis of variance and
 * Satterthwaite's degrees of freedom taken. `squares` is the sum of all values' squares,
 * `column_squares` that of all columns' sums. At least two rows.
 */
lab_interval lab_crossed_interval(const double *row_means, size_t rows, uint64_t columns,
                                  double squares, double column_squares);

/* A share with Wilson's 95 % interval, which stays inside 0 ... 1. */
lab_interval lab_share_interval(uint64_t hits, uint64_t count);

/* The two-sided quantile of Student's t for 95 %: 12.7 for one degree of freedom, 1.96 for many. */
double lab_student_95(size_t degrees);

/* How probable a split at least as uneven as a : b is where both sides are equally likely. */
double lab_even_split_probability(uint64_t a, uint64_t b);

#endif
