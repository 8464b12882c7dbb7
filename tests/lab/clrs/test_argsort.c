// argsort as numpy does it, in both ways: the order of equal keys is known for some inputs, and any
// input is sorted.
#include "clrs/run.h"
#include "support/check.h"
#include "support/random.h"

enum { COUNT_MAX = 5000 };

static double keys[COUNT_MAX];
static int order[COUNT_MAX];

static void check_order(const int *expected, int count, clrs_ties ties) {
    for (int i = 0; i < count; i++)
        keys[i] = i % 3;
    clrs_argsort(keys, order, count, ties);
    for (int i = 0; i < count; i++)
        CHECK_INT(order[i], expected[i]);
}

TEST(equal_keys_lie_as_in_numpy_without_simd) {
    static const int expected[] = {0,  15, 12, 18, 6, 9,  3, 4,  7,  10,
                                   13, 1,  16, 19, 8, 11, 2, 14, 17, 5};
    check_order(expected, 20, CLRS_TIES_SCALAR);
}

TEST(equal_keys_lie_as_in_numpy_with_simd) {
    static const int expected[] = {0, 3, 6,  9,  12, 15, 18, 7,  13, 10,
                                   4, 1, 16, 19, 5,  2,  14, 11, 8,  17};
    check_order(expected, 20, CLRS_TIES_SIMD);
}

static bool is_sorted_permutation(int count) {
    static bool seen[COUNT_MAX];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < count; i++) {
        if (order[i] < 0 || order[i] >= count || seen[order[i]])
            return false;
        seen[order[i]] = true;
        if (i > 0 && keys[order[i]] < keys[order[i - 1]])
            return false;
    }
    return true;
}

static void check_sorts(int count, clrs_ties ties) {
    clrs_argsort(keys, order, count, ties);
    CHECK_MSG(is_sorted_permutation(count), "%d keys, ties %d", count, (int)ties);
    if (count > 0) {
        int first = order[0];
        CHECK_INT(clrs_argsort_first(keys, order, count, ties), first);
    }
}

TEST(any_number_of_keys_is_sorted_in_either_way) {
    static const int sizes[] = {0, 1, 2, 3, 15, 16, 17, 18, 31, 33, 64, 127, 256, 257, 1000, 4097};
    struct rng rng = rng_seeded(1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int distinct = 1; distinct <= 100000; distinct *= 10) {
            for (int j = 0; j < sizes[i]; j++)
                keys[j] = (double)rng_integer(&rng, 0, distinct);
            check_sorts(sizes[i], CLRS_TIES_SCALAR);
            check_sorts(sizes[i], CLRS_TIES_SIMD);
        }
}

// Keys that rise and fall: the median of three is always among the smallest, quicksort gets
// nowhere, and most of it is left to a heap.
TEST(keys_that_defeat_quicksort_are_sorted) {
    for (int count = 100; count <= 4000; count += 1300) {
        for (int i = 0; i < count; i++)
            keys[i] = i < count / 2 ? i : count - i;
        check_sorts(count, CLRS_TIES_SCALAR);
        check_sorts(count, CLRS_TIES_SIMD);
    }
}
