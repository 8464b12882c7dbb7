/* Published accuracies, and the ceiling that ties of rounded priorities set. */
#include "report/published.h"
#include <math.h>

static const published_size table1[] = {
    {16, 98.6, 98.6, false},   {32, 97.1, 97.1, false},   {64, 94.3, 94.5, false},
    {128, 89.7, 89.9, false},  {256, 81.3, 82.1, false},  {512, 70.1, 72.5, true},
    {1024, 53.8, 57.7, true},  {2048, 35.7, 39.4, true},  {4096, 22.6, 24.9, false},
    {8192, 15.7, 17.5, false}, {16384, 12.4, 14.0, false}};

const published_size *published_at(double n) {
    for (size_t i = 0; i < sizeof table1 / sizeof table1[0]; i++)
        if (table1[i].n == n)
            return &table1[i];
    return NULL;
}

/*
 * The sum over k >= 1 of (1 / k) times the probability that exactly k of n
 * items fall into a cell of probability `cell` and all others below it, where
 * `below` is the probability of that.
 */
static double expected_share(double n, double cell, double below) {
    double sum = 0;
    for (size_t i = 1; (double)i <= n; i++) {
        double k = (double)i;
        double log_term = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(cell);
        if (k < n)
            log_term += below > 0 ? (n - k) * log(below) : -(double)INFINITY;
        double term = exp(log_term) / k;
        sum += term;
        /* past the peak, and nothing left to add */
        if (k > n * cell + 1 && term < 1e-15)
            break;
    }
    return sum;
}

double published_tie_ceiling(double n, double classes) {
    /* bfloat16 has 8 bits: in [1/2, 1) numbers are 1/256 apart, and what lies in the upper half of
     * the last interval becomes 1. Below 1/2 cells are finer; sets whose largest item is there are
     * rare, and count as free of ties. */
    double share = pow(0.5 - 1.0 / 1024, n), high = 1;
    for (int i = 0; i <= 128; i++) {
        double low = i == 0 ? 1 - 1.0 / 512 : high - 1.0 / 256;
        if (i == 128)
            low = 0.5 - 1.0 / 1024;
        share += expected_share(n, high - low, low);
        high = low;
    }
    return 100 * (share + (1 - share) / classes);
}
