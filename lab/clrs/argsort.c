/*
 * numpy's argsort for doubles, which is not stable: the order of equal keys is
 * part of the data, so both of its variants are reproduced step by step.
 *
 * The scalar variant is a quicksort (median of three, insertion sort for 16 and
 * fewer, heapsort for ranges that were partitioned too often). The SIMD variant
 * is a bitonic network, for any vector width.
 */
#include "clrs/run.h"

enum { SMALL = 16, RANGES_MAX = 128 };

static void swap(int *order, int i, int j) {
    int moved = order[i];
    order[i] = order[j];
    order[j] = moved;
}

static void sort_by_insertion(const double *keys, int *order, int low, int high) {
    for (int i = low + 1; i <= high; i++) {
        int moved = order[i], j = i;
        for (; j > low && keys[moved] < keys[order[j - 1]]; j--)
            order[j] = order[j - 1];
        order[j] = moved;
    }
}

static void sift_down(const double *keys, int *heap, int at, int size) {
    int moved = heap[at];
    for (int child = 2 * at + 1; child < size; child = 2 * at + 1) {
        if (child + 1 < size && keys[heap[child]] < keys[heap[child + 1]])
            child++;
        if (!(keys[moved] < keys[heap[child]]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void sort_by_heap(const double *keys, int *order, int count) {
    for (int at = count / 2 - 1; at >= 0; at--)
        sift_down(keys, order, at, count);
    for (int last = count - 1; last > 0; last--) {
        swap(order, 0, last);
        sift_down(keys, order, 0, last);
    }
}

/* Partitions order[low ... high] and returns the position of the pivot. */
static int partition(const double *keys, int *order, int low, int high) {
    int middle = low + (high - low) / 2;
    if (keys[order[middle]] < keys[order[low]])
        swap(order, middle, low);
    if (keys[order[high]] < keys[order[middle]])
        swap(order, high, middle);
    if (keys[order[middle]] < keys[order[low]])
        swap(order, middle, low);
    double pivot = keys[order[middle]];
    swap(order, middle, high - 1);
    int i = low, j = high - 1;
    for (;;) {
        do
            i++;
        while (keys[order[i]] < pivot);
        do
            j--;
        while (pivot < keys[order[j]]);
        if (i >= j)
            break;
        swap(order, i, j);
    }
    swap(order, i, high - 1);
    return i;
}

typedef struct range {
    int low, high, depth;
} range;

static void argsort_scalar(const double *keys, int *order, int count) {
    range waiting[RANGES_MAX];
    int waiting_count = 0, depth = 0;
    for (int rest = count / 2; rest > 0; rest /= 2)
        depth += 2;
    waiting[waiting_count++] = (range){0, count - 1, depth};
    while (waiting_count > 0) {
        range now = waiting[--waiting_count];
        if (now.depth < 0) {
            sort_by_heap(keys, order + now.low, now.high - now.low + 1);
            continue;
        }
        while (now.high - now.low >= SMALL) {
            int middle = partition(keys, order, now.low, now.high);
            range left = {now.low, middle - 1, now.depth - 1};
            range right = {middle + 1, now.high, now.depth - 1};
            /* The larger half is deferred, which bounds the stack. */
            bool left_first = middle - now.low < now.high - middle;
            waiting[waiting_count++] = left_first ? right : left;
            now = left_first ? left : right;
        }
        sort_by_insertion(keys, order, now.low, now.high);
    }
}

/* Elements beyond the end are infinities, which never move. */
static void compare_exchange(const double *keys, int *order, int64_t count, int64_t i, int64_t j) {
    if (j < count && keys[order[j]] < keys[order[i]])
        swap(order, (int)i, (int)j);
}

static void argsort_simd(const double *keys, int *order, int count) {
    int64_t m = count;
    for (int64_t block = 2; block < 2 * m; block *= 2) {
        for (int64_t start = 0; start < m; start += block)
            for (int64_t i = 0; i < block / 2; i++)
                compare_exchange(keys, order, m, start + i, start + block - 1 - i);
        for (int64_t distance = block / 4; distance > 0; distance /= 2)
            for (int64_t start = 0; start < m; start += 2 * distance)
                for (int64_t i = start; i < start + distance; i++)
                    compare_exchange(keys, order, m, i, i + distance);
    }
}

void clrs_argsort(const double *keys, int *order, int count, clrs_ties ties) {
    for (int i = 0; i < count; i++)
        order[i] = i;
    if (ties == CLRS_TIES_SIMD)
        argsort_simd(keys, order, count);
    else
        argsort_scalar(keys, order, count);
}

int clrs_argsort_first(const double *keys, int *order, int count, clrs_ties ties) {
    if (ties == CLRS_TIES_SIMD || count > SMALL) {
        clrs_argsort(keys, order, count, ties);
        return order[0];
    }
    int first = 0; /* few keys are sorted by insertion, which is stable */
    for (int i = 1; i < count; i++)
        if (keys[i] < keys[first])
            first = i;
    return first;
}
