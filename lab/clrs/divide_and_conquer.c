/* The contiguous part with the greatest sum, in one pass (Kadane). */
#include "clrs/algorithms.h"

void clrs_find_maximum_subarray_kadane(clrs_run *run) {
    const double *A = run->first;
    int best_low = 0, best_high = 0, low = 0;
    double best_sum = A[0], sum = A[0];
    record(run, pair_state(best_low, best_high));
    for (int j = 1; j < run->n; j++) {
        if (sum + A[j] >= A[j]) {
            sum = sum + A[j];
        } else {
            low = j;
            sum = A[j];
        }
        if (sum > best_sum) {
            best_low = low;
            best_high = j;
            best_sum = sum;
        }
        record(run, pair_state(best_low, best_high));
    }
    output(run, pair_state(best_low, best_high));
}
