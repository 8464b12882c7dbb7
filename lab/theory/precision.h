/*
 * The corollary: once a head is uniform up to the precision of the arithmetic,
 * its output no longer depends on which item was the right one.
 *
 * The sharpest head that a logit spread allows gives its item the logit
 * `spread` and all others 0. Its output is computed twice, with two values for
 * that item and the same random values for the others, and rounded: where both
 * are equal, the answer is lost.
 */
#ifndef WHET_LAB_THEORY_PRECISION_H
#define WHET_LAB_THEORY_PRECISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A binary format: bits of the significand (including the hidden one) and the smallest exponent e
 * such that 2^e is a normal number. */
typedef struct number_format {
    const char *name;
    int bits, smallest_exponent;
} number_format;

enum { PRECISION_FORMATS = 3 };
extern const number_format theory_formats[PRECISION_FORMATS]; /* f32, f16, bf16 */

double theory_round(double x, const number_format *format);

typedef struct precision_point {
    uint64_t n;
    double coefficient;                /* of the item, exactly */
    double telling[PRECISION_FORMATS]; /* the share of outputs that still differ */
} precision_point;

/* n = 2, 4, 8 ... up to 2^points. */
void theory_precision(double spread, uint64_t seed, size_t points, precision_point *result);

/* The first size from which on no output of a format differs, or 0 if the last still does. */
uint64_t theory_precision_end(const precision_point *points, size_t count, size_t format);

/* The expected size: the coefficient times the values' difference is half a rounding step at
 * 1/2. */
double theory_precision_expected(double spread, const number_format *format);

#endif
