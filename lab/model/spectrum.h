/* Largest eigenvalues of Gram matrices, from above and from below. */
#ifndef WHET_LAB_MODEL_SPECTRUM_H
#define WHET_LAB_MODEL_SPECTRUM_H

#include <stddef.h>

/*
 * The Gram matrix [rows][rows] of the rows of a matrix [rows][columns]; its
 * largest eigenvalue is the square of the matrix's largest singular value.
 */
void gram_matrix(const double *matrix, size_t rows, size_t columns, double *gram);

/*
 * An upper bound of the largest eigenvalue of a symmetric positive semidefinite
 * matrix [n][n], tight to about a millionth. `vector` [n] is the start and the
 * result of power iteration; `work` has n * n elements.
 */
double eigenvalue_from_above(const double *matrix, size_t n, double *vector, double *work);

/*
 * A lower bound of the largest eigenvalue of the product a b of two such
 * matrices. `work` has 3 n elements.
 */
double product_eigenvalue_from_below(const double *a, const double *b, size_t n, double *work);

/* One step of power iteration: vector = matrix vector / |matrix vector|; returns that length.
 * `work` has n elements. */
double power_step(const double *matrix, size_t n, double *vector, double *work);

#endif
