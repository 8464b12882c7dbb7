/* Searching: the least key, a key in sorted order, and the key of a given rank. */
#include "clrs/algorithms.h"

void clrs_minimum(clrs_run *run) {
    const double *A = run->first;
    int least = 0;
    record(run, index_state(least));
    for (int i = 1; i < run->n; i++) {
        if (A[least] > A[i])
            least = i;
        record(run, index_state(least));
    }
    output(run, index_state(least));
}

void clrs_binary_search(clrs_run *run) {
    const double *A = run->first;
    int low = 0, high = run->n - 1;
    record(run, pair_state(low, high));
    while (low < high) {
        int middle = (low + high) / 2;
        if (run->target <= A[middle])
            high = middle;
        else
            low = middle + 1;
        record(run, pair_state(low, high));
    }
    output(run, run->hints ? pair_state(low, high) : index_state(high));
}

/* The trace shows the pivot of each partition, by its original position. */
void clrs_quickselect(clrs_run *run) {
    int *P = clrs_identity(run);
    int p = 0, r = run->n - 1, wanted = run->n / 2;
    for (;;) {
        int q = clrs_partition(run, P, p, r, index_state(P[r])), rank = q - p;
        if (wanted == rank) {
            output(run, index_state(P[q]));
            return;
        }
        if (wanted < rank) {
            r = q - 1;
        } else {
            p = q + 1;
            wanted -= rank + 1;
        }
    }
}
