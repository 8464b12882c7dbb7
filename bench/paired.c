/*
 * Medians and their intervals; see paired.h.
 */
#include "paired.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From this number on, successive pairs are averaged, which leaves enough for a narrow interval. */
enum { PAIRS_TO_AVERAGE = 4 * PAIRS_MIN };

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sorted_median(const double *sorted, size_t count) {
    return count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

double bench_paired_median(const double *values, size_t count) {
    double sorted[PAIRS_MAX];
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    return sorted_median(sorted, count);
}

/* How many of the smallest and of the largest values may be left out: as many as lie on one side of
 * the median with a probability of at most 2.5 %. Counted from 1; 0 if there are too few. */
static size_t first_within(size_t count) {
    double below = 0; /* probability of fewer than `first` heads in `count` tosses of a coin */
    size_t first = 0;
    for (;; first++) {
        double ways = lgamma((double)count + 1) - lgamma((double)first + 1) -
                      lgamma((double)(count - first) + 1);
        below += exp(ways - (double)count * log(2));
        if (below > 0.025)
            return first;
    }
}

paired_ratio bench_paired_ratio(const double *logarithms, size_t count) {
    double sorted[PAIRS_MAX];
    size_t used = count;
    memcpy(sorted, logarithms, count * sizeof *sorted);
    if (count >= PAIRS_TO_AVERAGE) {
        used = count / 2;
        for (size_t i = 0; i < used; i++)
            sorted[i] = 0.5 * (logarithms[2 * i] + logarithms[2 * i + 1]);
    }
    qsort(sorted, used, sizeof *sorted, compare_doubles);
    paired_ratio result = {
        .median = used ? exp(sorted_median(sorted, used)) : 1, .high = INFINITY, .pairs = count};
    size_t first = first_within(used);
    if (first > 0) {
        result.low = exp(sorted[first - 1]);
        result.high = exp(sorted[used - first]);
    }
    return result;
}
