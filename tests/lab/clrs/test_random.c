// The random stream: numpy's and Python's own numbers, as published vectors of theirs.
#include "clrs/mersenne.h"
#include "support/check.h"

static clrs_random seeded(uint32_t seed) {
    clrs_random random;
    clrs_random_seed(&random, seed);
    return random;
}

TEST(words_are_those_of_mt19937) {
    clrs_random random = seeded(0);
    CHECK_INT(clrs_random_word(&random), 2357136044);
    CHECK_INT(clrs_random_word(&random), 2546248239);
    CHECK_INT(clrs_random_word(&random), 3071714933);
    random = seeded(5489); // the generator's own default, whose ten thousandth word is known
    for (int i = 0; i < 9999; i++)
        clrs_random_word(&random);
    CHECK_INT(clrs_random_word(&random), 4123659995);
}

TEST(doubles_are_those_of_numpy) {
    clrs_random random = seeded(0);
    CHECK(clrs_random_double(&random) == 0.5488135039273248);
    CHECK(clrs_random_double(&random) == 0.7151893663724195);
    CHECK(clrs_random_double(&random) == 0.6027633760716439);
    random = seeded(12345);
    CHECK(clrs_random_double(&random) == 0.9296160928171479);
    CHECK(clrs_random_double(&random) == 0.3163755545817859);
    CHECK(clrs_random_double(&random) == 0.18391881167709445);
    random = seeded(4294967295);
    CHECK(clrs_random_double(&random) == 0.0976320289940138);
    CHECK(clrs_random_double(&random) == 0.9123828453026218);
}

static void check_below(int bound, const int *expected, size_t count) {
    clrs_random random = seeded(0);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(clrs_random_below(&random, bound), expected[i]);
}

TEST(bounded_numbers_are_those_of_numpy) {
    check_below(4, (int[]){0, 3, 1, 0, 3, 3, 3, 3, 1, 3, 1, 2}, 12);
    check_below(5, (int[]){4, 0, 3, 3, 3, 1, 3, 2, 4, 0, 0, 4}, 12);
}

TEST(a_bound_of_one_draws_nothing) {
    clrs_random random = seeded(0);
    CHECK_INT(clrs_random_below(&random, 1), 0);
    CHECK_INT(clrs_random_word(&random), 2357136044);
}

TEST(coins_are_those_of_numpy) {
    static const int even[] = {1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1};
    static const int rare[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1};
    clrs_random random = seeded(0);
    for (size_t i = 0; i < sizeof even / sizeof even[0]; i++)
        CHECK_INT(clrs_random_coin(&random, 0.5), even[i]);
    random = seeded(0);
    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++)
        CHECK_INT(clrs_random_coin(&random, 0.8), rare[i]);
}

TEST(permutations_are_those_of_numpy) {
    static const int ten[] = {2, 8, 4, 9, 1, 6, 7, 3, 0, 5}, five[] = {2, 1, 4, 0, 3};
    int order[10];
    clrs_random random = seeded(0);
    clrs_random_permutation(&random, order, 10);
    CHECK(same_bytes(order, ten, sizeof ten));
    random = seeded(1);
    clrs_random_permutation(&random, order, 5);
    CHECK(same_bytes(order, five, sizeof five));
}

TEST(draws_of_several_kinds_follow_each_other) {
    static const int coins[] = {1, 1, 0, 1}, permutation[] = {0, 3, 2, 1};
    int order[4];
    clrs_random random = seeded(3);
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(clrs_random_coin(&random, 0.5), coins[i]);
    clrs_random_permutation(&random, order, 4);
    CHECK(same_bytes(order, permutation, sizeof permutation));
    CHECK_INT(clrs_random_below(&random, 7), 1);
    CHECK(clrs_random_uniform(&random, 0, 1) == 0.040630737001023265);
}

static void check_picks(uint64_t seed, uint32_t bound, const uint32_t *expected, size_t count) {
    clrs_random random;
    clrs_random_seed_python(&random, seed);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(clrs_random_pick_python(&random, bound), expected[i]);
}

TEST(picks_are_those_of_python) {
    check_picks(0, 5, (uint32_t[]){3, 3, 0, 2, 4, 3, 3, 2, 3, 2}, 10);
    check_picks(12345, 60, (uint32_t[]){26, 46, 0, 52, 52, 51, 19, 54, 23, 59}, 10);
    check_picks((uint64_t)1 << 32, 7, (uint32_t[]){0, 2, 3, 0, 0, 4, 6, 6}, 8);
    check_picks(9, 1, (uint32_t[]){0, 0, 0}, 3);
}
