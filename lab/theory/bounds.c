/* The inequalities in numbers; see bounds.h. */
#include "theory/bounds.h"
#include <math.h>
#include <stdlib.h>

coefficient_bounds theory_coefficient_bounds(double n, double spread, double temperature) {
    double ratio = exp(spread / temperature);
    return (coefficient_bounds){1 / (n * ratio), ratio / n};
}

double theory_reach(double spread, double temperature, double mass) {
    return 1 + exp(spread / temperature) * (1 - mass) / mass;
}

double theory_spread_needed(double n, double temperature, double mass) {
    double ratio = (n - 1) * mass / (1 - mass);
    return ratio > 1 ? temperature * log(ratio) : 0;
}

double theory_spread_bound(double sigma_q, double sigma_k, double query_norm, double key_norm,
                           double scale) {
    return 2 * sigma_q * sigma_k * query_norm * key_norm / scale;
}

/* result = matrix x, and its length. */
static double multiply(const float *matrix, size_t rows, size_t columns, const double *x,
                       double *result) {
    double squares = 0;
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < columns; j++)
            sum += (double)matrix[i * columns + j] * x[j];
        result[i] = sum;
        squares += sum * sum;
    }
    return sqrt(squares);
}

/* x = transpose(matrix) y, normalised; returns the length before. */
static double multiply_back(const float *matrix, size_t rows, size_t columns, const double *y,
                            double *x) {
    for (size_t j = 0; j < columns; j++)
        x[j] = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            x[j] += (double)matrix[i * columns + j] * y[i];
    double squares = 0;
    for (size_t j = 0; j < columns; j++)
        squares += x[j] * x[j];
    double length = sqrt(squares);
    for (size_t j = 0; j < columns && length > 0; j++)
        x[j] /= length;
    return length;
}

static double iterate(const float *matrix, size_t rows, size_t columns, double *x, double *y) {
    enum { STEPS_MAX = 10000 };
    /* A start vector that no ordinary matrix maps to zero: unequal, none zero, mixed signs. */
    for (size_t j = 0; j < columns; j++)
        x[j] = (j % 2 ? -1.0 : 1.0) / (1.0 + (double)(j % 17));
    double before = 0, sigma = 0, change = 0;
    for (int step = 0; step < STEPS_MAX; step++) {
        sigma = multiply(matrix, rows, columns, x, y);
        if (!isfinite(sigma))
            return (double)NAN;
        /* the first x is not normalised yet */
        change = step > 1 ? (sigma - before) / sigma : 1;
        if (sigma == 0 || change < 1e-12)
            break;
        before = sigma;
        multiply_back(matrix, rows, columns, y, x);
    }
    return sigma * (1 + fabs(change));
}

double theory_largest_singular_value(const float *matrix, size_t rows, size_t columns) {
    if (rows == 0 || columns == 0)
        return 0;
    double *x = calloc(columns, sizeof *x), *y = calloc(rows, sizeof *y);
    double sigma = x && y ? iterate(matrix, rows, columns, x, y) : (double)NAN;
    free(y);
    free(x);
    return sigma;
}
