/*
 * Bounds of eigenvalues. Power iteration gives lower bounds: its Rayleigh
 * quotient never exceeds the largest eigenvalue. An upper bound is proved by a
 * Cholesky decomposition: bound I - matrix is positive definite exactly if the
 * decomposition succeeds. So the estimate is raised by a billionth, and then by
 * more, until it does.
 */
#include "model/spectrum.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

enum { LANES = 8, STEPS = 300, ATTEMPTS = 15 }; /* 4^15 billionths are more than one */

/* In several independent sums, so that compilers vectorise. */
static double dot(const double *a, const double *b, size_t count) {
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sum += a[i] * b[i];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

void gram_matrix(const double *matrix, size_t rows, size_t columns, double *gram) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j <= i; j++)
            gram[i * rows + j] = gram[j * rows + i] =
                dot(matrix + i * columns, matrix + j * columns, columns);
}

static void multiply(const double *matrix, size_t n, const double *vector, double *result) {
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += matrix[i * n + j] * vector[j];
        result[i] = sum;
    }
}

static double inner(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

double power_step(const double *matrix, size_t n, double *vector, double *work) {
    multiply(matrix, n, vector, work);
    double length = sqrt(inner(work, work, n));
    for (size_t i = 0; length > 0 && i < n; i++)
        vector[i] = work[i] / length;
    return length;
}

/* Whether level I - matrix is positive definite. */
static bool is_above(const double *matrix, size_t n, double level, double *lower) {
    for (size_t i = 0; i < n; i++) {
        double *row = lower + i * n;
        for (size_t j = 0; j <= i; j++) {
            double rest = (i == j ? level : 0) - matrix[i * n + j] - inner(row, lower + j * n, j);
            if (i != j)
                row[j] = rest / lower[j * n + j];
            else if (rest > 0)
                row[j] = sqrt(rest);
            else
                return false;
        }
    }
    return true;
}

double eigenvalue_from_above(const double *matrix, size_t n, double *vector, double *work) {
    double estimate = 0, trace = 0;
    for (size_t i = 0; i < n; i++)
        trace += matrix[i * n + i];
    for (int step = 0; step < STEPS; step++) {
        double length = power_step(matrix, n, vector, work);
        bool has_settled = fabs(length - estimate) <= 1e-12 * length;
        estimate = length;
        if (has_settled)
            break;
    }
    /* The effect of rounding on the decomposition. */
    double slack = 4 * (double)n * DBL_EPSILON * trace;
    double margin = 1e-9;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (is_above(matrix, n, estimate * (1 + margin), work))
            return estimate * (1 + margin) + slack;
        margin *= 4;
    }
    return trace; /* an upper bound; for a zero matrix, one */
}

double product_eigenvalue_from_below(const double *a, const double *b, size_t n, double *work) {
    double *x = work, *bx = work + n, *abx = work + 2 * n, best = 0;
    for (size_t i = 0; i < n; i++)
        x[i] = 1 + 0.01 * (double)(i % 7);
    for (int step = 0; step < STEPS; step++) {
        multiply(b, n, x, bx);
        multiply(a, n, bx, abx);
        /* Rayleigh's quotient of a b, which is symmetric for the inner product of b. */
        double below = inner(x, bx, n), value = inner(bx, abx, n) / below;
        double length = sqrt(inner(abx, abx, n));
        if (!(below > 0) || !(length > 0))
            break;
        bool has_settled = fabs(value - best) <= 1e-10 * value;
        best = fmax(best, value);
        if (has_settled)
            break;
        for (size_t i = 0; i < n; i++)
            x[i] = abx[i] / length;
    }
    return best;
}
