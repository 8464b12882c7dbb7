/* Intervals and tests. */
#include "base/statistics.h"

#include <math.h>

static const double normal_95 = 1.959963984540054;

double lab_student_95(size_t degrees) {
    static const double table[] = {INFINITY, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                   2.306,    2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                                   2.120,    2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069,
                                   2.064,    2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    if (degrees < sizeof table / sizeof table[0])
        return table[degrees];
    /* Fisher's expansion, accurate to three digits from thirty on */
    double z = normal_95, d = (double)degrees;
    return z + (z * z * z + z) / (4 * d) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * d * d);
}

/* A factor of the continued fraction, kept away from zero. */
static double away_from_zero(double x) { return fabs(x) < 1e-300 ? 1e-300 : x; }

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double x, double a, double b) {
    double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), product = d;
    for (int m = 1; m < 500; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / away_from_zero(1 + even * d);
        c = away_from_zero(1 + even / c);
        product *= c * d;
        d = 1 / away_from_zero(1 + odd * d);
        c = away_from_zero(1 + odd / c);
        product *= c * d;
        if (fabs(c * d - 1) < 1e-15)
            break;
    }
    return product;
}

/* The regularised incomplete beta function for 0 <= x <= 1. */
static double incomplete_beta(double x, double a, double b) {
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    /* The fraction converges fast below the mean of the distribution. */
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a
                                     : 1 - front * beta_fraction(1 - x, b, a) / b;
}

double lab_student_tail(double t, size_t degrees) {
    double d = (double)degrees;
    double half = isinf(t) ? 0 : incomplete_beta(d / (d + t * t), d / 2, 0.5) / 2;
    return t > 0 ? half : 1 - half;
}

lab_interval lab_mean_interval_of_sums(double sum, double sum_of_squares, uint64_t count) {
    double n = (double)count, mean = sum / n;
    if (count < 2)
        return (lab_interval){mean, -INFINITY, INFINITY, INFINITY};
    double variance = (sum_of_squares - sum * mean) / (n - 1);
    double error = isnan(variance) ? variance : sqrt(fmax(0, variance) / n);
    double half = lab_student_95((size_t)count - 1) * error;
    return (lab_interval){mean, mean - half, mean + half, error};
}

lab_interval lab_mean_interval(const double *values, size_t count) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    lab_interval around_zero = lab_mean_interval_of_sums(0, squares, count);
    return (lab_interval){mean, mean + around_zero.low, mean + around_zero.high, around_zero.error};
}

lab_interval lab_crossed_interval(const double *row_means, size_t rows, uint64_t columns,
                                  double squares, double column_squares) {
    lab_interval of_rows = lab_mean_interval(row_means, rows);
    double r = (double)rows, c = (double)columns, mean = of_rows.mean;
    if (columns < 2 || !isfinite(mean))
        return of_rows;
    double around = r * c * mean * mean;
    double row_part = of_rows.error * of_rows.error * r * c; /* mean squares, as they are called */
    double column_part = (column_squares / r - around) / (c - 1);
    double rest = fmax(0, (squares - around - row_part * (r - 1) - column_part * (c - 1)) /
                              ((r - 1) * (c - 1)));
    /* The variance of rows and columns beyond what the residual alone would cause. */
    double rows_own = fmax(0, row_part - rest), columns_own = fmax(0, column_part - rest);
    double variance = (rows_own + columns_own + rest) / (r * c);
    double degrees = variance > 0
                         ? pow(rows_own + columns_own + rest, 2) /
                               (pow(rows_own + rest, 2) / (r - 1) + pow(columns_own, 2) / (c - 1))
                         : c;
    double error = sqrt(variance), half = lab_student_95((size_t)degrees) * error;
    return (lab_interval){mean, mean - half, mean + half, error};
}

lab_interval lab_share_interval(uint64_t hits, uint64_t count) {
    double n = (double)count, share = (double)hits / n, z = normal_95;
    double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
    double half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return (lab_interval){share, fmax(0, middle - half), fmin(1, middle + half),
                          sqrt(share * (1 - share) / n)};
}

double lab_even_split_probability(uint64_t a, uint64_t b) {
    uint64_t less = a < b ? a : b, n = a + b;
    if (n == 0)
        return 1;
    double total = 0, log_all = lgamma((double)n + 1) - (double)n * log(2);
    for (uint64_t k = 0; k <= less; k++)
        total += exp(log_all - lgamma((double)k + 1) - lgamma((double)(n - k) + 1));
    return fmin(1, 2 * total);
}
