/*
 * Sorting. A[] are the keys and P[] their original positions; P is permuted
 * like A, and the trace shows the keys in the order of P.
 */
#include "clrs/algorithms.h"

static void exchange(double *A, int *P, int i, int j) {
    double key = A[i];
    int position = P[i];
    A[i] = A[j];
    P[i] = P[j];
    A[j] = key;
    P[j] = position;
}

void clrs_insertion_sort(clrs_run *run) {
    int n = run->n;
    double *A = run->first;
    int *P = clrs_identity(run);
    record(run, order_state(P, n));
    for (int j = 1; j < n; j++) {
        double key = A[j];
        int position = P[j], i = j - 1;
        for (; i >= 0 && A[i] > key; i--) {
            A[i + 1] = A[i];
            P[i + 1] = P[i];
        }
        A[i + 1] = key;
        P[i + 1] = position;
        record(run, order_state(P, n));
    }
    output(run, order_state(P, n));
}

void clrs_bubble_sort(clrs_run *run) {
    int n = run->n;
    double *A = run->first;
    int *P = clrs_identity(run);
    record(run, order_state(P, n));
    for (int i = 0; i < n - 1; i++)
        for (int j = n - 1; j > i; j--) {
            if (A[j] < A[j - 1])
                exchange(A, P, j, j - 1);
            record(run, order_state(P, n));
        }
    output(run, order_state(P, n));
}

static void max_heapify(clrs_run *run, int *P, int i, int heap_size) {
    double *A = run->first;
    for (;;) {
        int left = 2 * i + 1, right = 2 * i + 2, largest = i;
        if (left < heap_size && A[left] > A[largest])
            largest = left;
        if (right < heap_size && A[right] > A[largest])
            largest = right;
        if (largest != i)
            exchange(A, P, i, largest);
        record(run, order_state(P, run->n));
        if (largest == i)
            return;
        i = largest;
    }
}

void clrs_heapsort(clrs_run *run) {
    int n = run->n;
    int *P = clrs_identity(run);
    record(run, order_state(P, n));
    for (int i = n - 1; i >= 0; i--)
        max_heapify(run, P, i, n);
    for (int i = n - 1; i > 0; i--) {
        exchange(run->first, P, 0, i);
        record(run, order_state(P, n));
        max_heapify(run, P, 0, i);
    }
    output(run, order_state(P, n));
}

int clrs_partition(clrs_run *run, int *P, int p, int r, clrs_state traced) {
    double *A = run->first;
    double pivot = A[r];
    int i = p - 1;
    for (int j = p; j < r; j++) {
        if (A[j] <= pivot)
            exchange(A, P, ++i, j);
        record(run, traced);
    }
    exchange(A, P, i + 1, r);
    record(run, traced);
    return i + 1;
}

/* With an explicit stack of right halves: sorted keys would recurse once a key. */
void clrs_quicksort(clrs_run *run) {
    int n = run->n, waiting = 0;
    int *P = clrs_identity(run);
    int *from = clrs_vector(run), *to = clrs_vector(run);
    from[waiting] = 0;
    to[waiting++] = n - 1;
    while (waiting > 0) {
        int p = from[--waiting], r = to[waiting];
        while (p < r) {
            int q = clrs_partition(run, P, p, r, order_state(P, n));
            from[waiting] = q + 1;
            to[waiting++] = r;
            r = q - 1;
        }
    }
    output(run, order_state(P, n));
}
