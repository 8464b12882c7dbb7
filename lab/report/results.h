/*
 * Looking things up in the results of the experiments, which are kept as JSON
 * beside the report: evaluations have a row for each policy and size.
 */
#ifndef WHET_LAB_REPORT_RESULTS_H
#define WHET_LAB_REPORT_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { RESULTS_SIZES_MAX = 32, RESULTS_POLICIES_MAX = 64 };

/* The sizes and policies of an evaluation, in the order in which they were given. */
typedef struct results_axes {
    double sizes[RESULTS_SIZES_MAX];
    size_t size_count;
    const char *policies[RESULTS_POLICIES_MAX];
    size_t policy_count;
} results_axes;

results_axes results_axes_of(const json_t *evaluation);

/* The row of a policy and size, or NULL. */
const json_t *results_row(const json_t *evaluation, const char *policy, double n);

/* A number of a row: measure "accuracy", "cross_entropy" ..., part "mean", "low", "high" or
 * "error" (its standard error); NaN where there is none. Fine with a NULL row. */
double results_value(const json_t *row, const char *measure, const char *part);

#endif
