/*
 * Rows against the reference, within the accuracy that whet.h promises, and the
 * worst errors that were met on the way.
 */
#ifndef WHET_TESTS_ROW_COMPARE_H
#define WHET_TESTS_ROW_COMPARE_H

#include "whet.h"

#include <stdbool.h>
#include <stddef.h>

/* The limits: whet_softmax in whet.h. */
#define ENTROPY_LIMIT 2e-6              /* times max(1, H) */
#define BETA_LIMIT 1e-5                 /* times max(1, beta) */
#define PROBABILITY_LIMIT 4e-6          /* relative */
#define PROBABILITY_ABSOLUTE_LIMIT 1e-9 /* whichever is larger */

/* Checks the statistics and the result of one row under a temperature policy. */
void compare_row(const char *what, const double *logits, size_t n, const whet_policy *policy,
                 const float *result, const whet_stats *stats);

/* Checks a result at the beta of these statistics, or one that is beta_error away from it. */
void compare_result(const char *what, const double *logits, size_t n, const float *result,
                    const whet_stats *stats, double beta_error);

/* The policy with this name; a failed check if there is none. */
whet_policy policy_named(const char *name);

/* Bit for bit, except that all NaN are alike. */
bool same_stats(const whet_stats *a, const whet_stats *b);

/* Prints the worst errors since the last time. */
void print_worst(void);

#endif
