/*
 * Rows against the reference, within the accuracy that whet.h promises, and the
 * worst errors that were met on the way; the lengths, temperatures and arrays
 * that several programs take for it.
 */
#ifndef WHET_TESTS_ROW_COMPARE_H
#define WHET_TESTS_ROW_COMPARE_H

#include "support/random.h"
#include "whet.h"

#include <stdbool.h>
#include <stddef.h>

/* The limits: whet_softmax in whet.h. */
#define ENTROPY_LIMIT 2e-6              /* times max(1, H) */
#define BETA_LIMIT 1e-5                 /* times max(1, beta) */
#define PROBABILITY_LIMIT 4e-6          /* relative */
#define PROBABILITY_ABSOLUTE_LIMIT 1e-9 /* whichever is larger */

/* Awkward lengths: at the ends of vectors and blocks, and beside them. */
enum { ROW_SIZE_COUNT = 23 };
extern const size_t row_sizes[ROW_SIZE_COUNT];

/* Names of temperatures of every kind, with their options. */
enum { ROW_TEMPERATURE_COUNT = 20 };
extern const char *const row_temperatures[ROW_TEMPERATURE_COUNT];

/* Checks the statistics and the result of one row under a temperature policy. */
void compare_row(const char *what, const double *logits, size_t n, const whet_policy *policy,
                 const float *result, const whet_stats *stats);

/* Checks a result at the beta of these statistics, or one that is beta_error away from it. */
void compare_result(const char *what, const double *logits, size_t n, const float *result,
                    const whet_stats *stats, double beta_error);

/* A row with all that it may have besides its logits. */
typedef struct full_row {
    const double *logits;
    size_t n;
    double sink;        /* -INFINITY for none */
    const double *beta; /* given, or NULL */
    int64_t position;
} full_row;

/* Checks the statistics of one row under any policy, and its result (NULL: there is none), which
 * was rounded to `type`. */
void compare_full_row(const char *what, const full_row *row, const whet_policy *policy,
                      const double *result, whet_type type, const whet_stats *stats);

/* Calls `function` with every temperature and every map of the table that go together, by the name
 * of both. */
typedef void (*composition_function)(const char *name, const whet_policy *policy, void *context);
void each_composition(composition_function function, void *context);

/* Checks whet_softmax and whet_entropy of one row: with statistics and without, in place, and
 * statistics alone. */
void check_one_row(const char *what, const float *row, size_t n, const whet_policy *policy);

/* The same under every one of row_temperatures; content says in messages what the row is. */
void check_all_temperatures(const float *row, size_t n, const char *content);

/* Whether a row's beta is computed from its logits, and so only as exact as BETA_LIMIT. */
bool beta_depends_on_logits(const whet_policy *policy);

/* The policy with this name; a failed check if there is none. */
whet_policy policy_named(const char *name);

/* Every field, bit for bit, except that all NaN are alike. */
bool same_stats(const whet_stats *a, const whet_stats *b);

/* Prints the worst errors since the last time. */
void print_worst(void);

/* An array of rows in guarded memory, perhaps from the last to the first. */
typedef struct array {
    whet_type type;
    size_t rows, n;
    char *memory;
    char *first;
    ptrdiff_t stride; /* elements */
} array;

/* With `gap` elements between rows; guarded_free(memory) frees it. */
array array_new(whet_type type, size_t rows, size_t n, size_t gap, bool backwards);

/* Where an element is. */
char *array_at(const array *a, size_t row, size_t i);

/* Rounded to the array's type. */
void array_set(const array *a, size_t row, size_t i, float value);

/* What is there now. */
double array_get(const array *a, size_t row, size_t i);

/* Fills it with multiples of 1/256 below 8: their sums with a mask of sixteenths are exact in
 * f32. */
void fill_logits(array *a, struct rng *rng);

#endif
