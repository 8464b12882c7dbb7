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
    /* Fisher's expansion, right to three digits from thirty on */
    double z = normal_95, d = (double)degrees;
    return z + (z * z * z + z) / (4 * d) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * d * d);
}

lab_interval lab_mean_interval_of_sums(double sum, double sum_of_squares, uint64_t count) {
    double n = (double)count, mean = sum / n;
    if (count < 2)
        return (lab_interval){mean, -INFINITY, INFINITY};
    double variance = fmax(0, (sum_of_squares - sum * mean) / (n - 1));
    double half = lab_student_95((size_t)count - 1) * sqrt(variance / n);
    return (lab_interval){mean, mean - half, mean + half};
}

lab_interval lab_mean_interval(const double *values, size_t count) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    lab_interval around_zero = lab_mean_interval_of_sums(0, squares, count);
    return (lab_interval){mean, mean + around_zero.low, mean + around_zero.high};
}

lab_interval lab_share_interval(uint64_t hits, uint64_t count) {
    double n = (double)count, share = (double)hits / n, z = normal_95;
    double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
    double half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return (lab_interval){share, fmax(0, middle - half), fmin(1, middle + half)};
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
