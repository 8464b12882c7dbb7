/*
 * The paper's inequalities, one function for each bound: what softmax can do
 * with logits within a given spread.
 */
#ifndef WHET_LAB_THEORY_BOUNDS_H
#define WHET_LAB_THEORY_BOUNDS_H

#include <stddef.h>

/* Lemma 2.1: exp(-spread / temperature) / n <= coefficient <= exp(spread / temperature) / n. */
typedef struct coefficient_bounds {
    double low, high;
} coefficient_bounds;

coefficient_bounds theory_coefficient_bounds(double n, double spread, double temperature);

/*
 * The largest number of items among which logits with this spread can still
 * put `mass` on one: n <= 1 + exp(spread / temperature) (1 - mass) / mass.
 * +inf where that is more than a double can hold.
 */
double theory_reach(double spread, double temperature, double mass);

/* The spread needed: the inverse of the above. 0 where any suffices. */
double theory_spread_needed(double n, double temperature, double mass);

/*
 * Proposition 3.1: the spread of a head's logits is at most
 * 2 sigma_q sigma_k |query| max |key input| / scale, with the largest singular
 * values of the query and key maps and scale = sqrt(head_dim), or 1.
 */
double theory_spread_bound(double sigma_q, double sigma_k, double query_norm, double key_norm,
                           double scale);

/*
 * The largest singular value of a matrix [rows][columns], by power iteration on
 * its Gram matrix until the value no longer grows. Rounded up by the relative
 * change of the last step; memory: rows + columns doubles. NaN when memory runs
 * out or an entry is not finite.
 */
double theory_largest_singular_value(const float *matrix, size_t rows, size_t columns);

#endif
