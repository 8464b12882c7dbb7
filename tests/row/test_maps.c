/*
 * The maps that are not a temperature, through whet_softmax, against plain
 * references: in long double, by sorting, straight from the definitions.
 */
#include "support/check.h"
#include "support/random.h"
#include "whet.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More than two blocks of any walk over a row. */
#define N_MAX 9001

static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 127, 1000, 4097, N_MAX};
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])

static const char *const maps[] = {"topk:1",     "topk:3",       "topk:16",       "topk:5000",
                                   "hardmax",    "sparsemax",    "entmax15",      "entmax:1.25",
                                   "entmax:1.9", "entmax:1.01",  "entmax:1.0001", "softmax1",
                                   "sigmoid",    "sigmoid:-2.5", "stick-breaking"};
#define MAP_COUNT (sizeof maps / sizeof maps[0])

typedef long double wide;

typedef struct reference {
    wide p[N_MAX];
    wide sorted[N_MAX]; /* unmasked logits, the largest first */
    size_t unmasked;
} reference;

static reference expected;
static float logits[N_MAX];
static float result[N_MAX];
static whet_stats stats;

static whet_policy policy_named(const char *name) {
    whet_policy policy;
    CHECK_INT(whet_policy_parse(name, &policy, NULL, 0), WHET_OK);
    return policy;
}

static int larger_first(const void *a, const void *b) {
    wide x = *(const wide *)a;
    wide y = *(const wide *)b;
    return (x < y) - (x > y);
}

static void sort_logits(size_t n) {
    expected.unmasked = 0;
    for (size_t i = 0; i < n; i++) {
        if (logits[i] > -INFINITY) {
            expected.sorted[expected.unmasked++] = (wide)logits[i];
        }
    }
    qsort(expected.sorted, expected.unmasked, sizeof(wide), larger_first);
}

static void expect_softmax_from(size_t n, wide lowest) {
    wide z = 0;
    for (size_t i = 0; i < n; i++) {
        wide e = (wide)logits[i];
        bool stays = e > -INFINITY && e >= lowest;
        expected.p[i] = stays ? expl(e - expected.sorted[0]) : 0;
        z += expected.p[i];
    }
    for (size_t i = 0; i < n; i++) {
        expected.p[i] /= z;
    }
}

static void expect_topk(size_t n, double k) {
    size_t kept = k < (double)expected.unmasked ? (size_t)k : expected.unmasked;
    expect_softmax_from(n, expected.sorted[kept - 1]);
}

static void expect_hardmax(size_t n) {
    size_t ties = 0;
    while (ties < expected.unmasked && expected.sorted[ties] == expected.sorted[0]) {
        ties++;
    }
    for (size_t i = 0; i < n; i++) {
        expected.p[i] = (wide)logits[i] == expected.sorted[0] ? 1 / (wide)ties : 0;
    }
}

/* Martins and Astudillo (2016): the largest support whose threshold leaves all of it positive. */
static void expect_sparsemax(size_t n) {
    wide sum = 0;
    wide tau = 0;
    for (size_t k = 0; k < expected.unmasked; k++) {
        wide d = expected.sorted[k] - expected.sorted[0];
        sum += d;
        if (1 + (wide)(k + 1) * d > sum) {
            tau = (sum - 1) / (wide)(k + 1);
        }
    }
    for (size_t i = 0; i < n; i++) {
        expected.p[i] = fmaxl(0, (wide)logits[i] - expected.sorted[0] - tau);
    }
}

/* Peters, Niculae and Martins (2019): the same for squares, by running mean and mean square. */
static void expect_entmax15(size_t n) {
    wide sum = 0;
    wide squares = 0;
    wide tau = -1;
    for (size_t k = 0; k < expected.unmasked; k++) {
        wide x = (expected.sorted[k] - expected.sorted[0]) / 2;
        if (x < -1) {
            break;
        }
        sum += x;
        squares += x * x;
        wide count = (wide)(k + 1);
        wide mean = sum / count;
        wide delta = (1 - (squares - count * mean * mean)) / count;
        wide candidate = mean - sqrtl(fmaxl(0, delta));
        if (candidate <= x && delta >= 0) {
            tau = candidate;
        }
    }
    for (size_t i = 0; i < n; i++) {
        wide root = fmaxl(0, ((wide)logits[i] - expected.sorted[0]) / 2 - tau);
        expected.p[i] = root * root;
    }
}

static wide entmax_power(wide x, wide tau, wide a) {
    return x > tau ? powl(x - tau, 1 / (a - 1)) : 0;
}

static void expect_entmax(size_t n, double alpha) {
    wide a = (wide)alpha;
    wide low = -1;
    wide high = 0;
    for (int i = 0; i < 66; i++) {
        wide tau = (low + high) / 2;
        wide sum = 0;
        wide p = powl(-tau, 1 / (a - 1));
        for (size_t k = 0; k < expected.unmasked && sum <= 1 && p > 0; k++) {
            if (k > 0 && expected.sorted[k] != expected.sorted[k - 1]) {
                p = entmax_power((a - 1) * (expected.sorted[k] - expected.sorted[0]), tau, a);
            }
            sum += p;
        }
        if (sum > 1) {
            low = tau;
        } else {
            high = tau;
        }
    }
    for (size_t i = 0; i < n; i++) {
        wide x = (a - 1) * ((wide)logits[i] - expected.sorted[0]);
        expected.p[i] = entmax_power(x, low, a);
    }
}

/* Without any shift: long double has the range for logits up to 11,000. */
static void expect_softmax1(size_t n) {
    wide z = 1;
    for (size_t i = 0; i < n; i++) {
        expected.p[i] = expl((wide)logits[i]);
        z += expected.p[i];
    }
    for (size_t i = 0; i < n; i++) {
        expected.p[i] /= z;
    }
}

static wide sigma(wide x) { return 1 / (1 + expl(-x)); }

static void expect_sigmoid(size_t n, double b) {
    wide shift = isnan(b) ? logl((wide)expected.unmasked) : (wide)b;
    for (size_t i = 0; i < n; i++) {
        expected.p[i] = sigma((wide)logits[i] - shift);
    }
}

static void expect_stick_breaking(size_t n) {
    static wide kept[N_MAX];
    for (size_t i = 0; i < n; i++) {
        kept[i] = sigma(-(wide)logits[i]);
    }
    for (size_t i = 0; i < n; i++) {
        expected.p[i] = sigma((wide)logits[i]);
        for (size_t j = i + 1; j < n && expected.p[i] > 1e-60L; j++) {
            expected.p[i] *= kept[j];
        }
    }
}

static void expect(const whet_policy *policy, size_t n) {
    sort_logits(n);
    double first = policy->map_value[0];
    switch (policy->map) {
    case WHET_POLICY_TOPK:
        expect_topk(n, first);
        break;
    case WHET_POLICY_HARDMAX:
        expect_hardmax(n);
        break;
    case WHET_POLICY_ENTMAX:
        if (first == 2) {
            expect_sparsemax(n);
        } else if (first == 1.5) {
            expect_entmax15(n);
        } else {
            expect_entmax(n, first);
        }
        break;
    case WHET_POLICY_SOFTMAX1:
        expect_softmax1(n);
        break;
    case WHET_POLICY_SIGMOID:
        expect_sigmoid(n, first);
        break;
    default:
        expect_stick_breaking(n);
        break;
    }
}

static bool sums_to_one(const whet_policy *policy) {
    return policy->map == WHET_POLICY_TOPK || policy->map == WHET_POLICY_HARDMAX ||
           policy->map == WHET_POLICY_ENTMAX;
}

static whet_status run(const whet_policy *policy, size_t n, const float *in, float *out) {
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = in, .stats = &stats};
    rows.out = out;
    return whet_softmax(&rows, policy, NULL);
}

static bool same_bits(const void *a, const void *b, size_t count) {
    return memcmp(a, b, count * sizeof(float)) == 0;
}

/* Half a step of f32 beside 1e-7; a threshold moves all by its own rounding. */
static double tolerance(const whet_policy *policy, wide p) {
    double absolute = policy->map == WHET_POLICY_ENTMAX ? 1e-13 : 1e-44;
    return 1.6e-7 * (double)p + absolute;
}

static void check_values(const char *name, const whet_policy *policy, size_t n) {
    size_t wrong = 0;
    size_t worst = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)result[i] - (double)expected.p[i]);
        bool masked = logits[i] == -INFINITY;
        if (!(error <= tolerance(policy, expected.p[i])) || (masked && result[i] != 0)) {
            worst = wrong++ ? worst : i;
        }
    }
    CHECK_MSG(wrong == 0, "%s, n = %zu: %zu wrong, at %zu %.9g where %.9Lg is right", name, n,
              wrong, worst, (double)result[worst], expected.p[worst]);
}

static void check_statistics(const char *name, const whet_policy *policy, size_t n) {
    wide largest = 0;
    wide entropy = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmaxl(largest, expected.p[i]);
        entropy -= expected.p[i] > 0 ? expected.p[i] * logl(expected.p[i]) : 0;
    }
    bool right = stats.beta == 1 && stats.n == expected.unmasked && stats.flags == 0;
    right = right && fabs(stats.max_prob - (double)largest) <= 1e-9 * (double)largest;
    if (sums_to_one(policy)) {
        right = right && fabs(stats.entropy_after - (double)entropy) <= 1e-9;
    } else {
        right = right && isnan(stats.entropy_after);
    }
    CHECK_MSG(right, "%s, n = %zu: max_prob %.17g for %.17Lg, entropy after %.17g for %.17Lg", name,
              n, stats.max_prob, largest, stats.entropy_after, entropy);
}

/* The reference for entmax takes its time: one exponent stands for all in long rows. */
static bool is_too_slow(const whet_policy *policy, size_t n) {
    double alpha = policy->map_value[0];
    return policy->map == WHET_POLICY_ENTMAX && n > 1000 && alpha != 2 && alpha != 1.5 &&
           alpha != 1.25;
}

/* All maps on the logits there are, out of place and in place. */
static void check_maps(size_t n) {
    for (size_t m = 0; m < MAP_COUNT; m++) {
        whet_policy policy = policy_named(maps[m]);
        if (is_too_slow(&policy, n)) {
            continue;
        }
        expect(&policy, n);
        memset(result, 0xff, sizeof result);
        CHECK_INT(run(&policy, n, logits, result), WHET_OK);
        check_values(maps[m], &policy, n);
        check_statistics(maps[m], &policy, n);
        static float in_place[N_MAX];
        memcpy(in_place, logits, n * sizeof(float));
        CHECK_INT(run(&policy, n, in_place, in_place), WHET_OK);
        CHECK_MSG(same_bits(in_place, result, n), "%s in place", maps[m]);
    }
}

TEST(maps_agree_with_their_references) {
    struct rng rng = rng_seeded(1);
    const double deviations[] = {0.05, 1, 6};
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        for (size_t d = 0; d < 3; d++) {
            rng_fill_normal(&rng, logits, sizes[s], 0.5, deviations[d]);
            check_maps(sizes[s]);
        }
    }
}

TEST(masked_entries_get_exactly_zero) {
    struct rng rng = rng_seeded(2);
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        rng_fill_normal(&rng, logits, sizes[s], -1, 2);
        for (size_t i = 0; i < sizes[s]; i++) {
            if (i > 0 && rng_bits(&rng) % 3 == 0) {
                logits[i] = -INFINITY;
            }
        }
        check_maps(sizes[s]);
    }
}

TEST(ties_are_treated_alike) {
    struct rng rng = rng_seeded(3);
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        for (size_t i = 0; i < sizes[s]; i++) {
            logits[i] = (float)floor(rng_normal(&rng, 0, 2)) / 2;
            logits[i] = logits[i] == 0 && i % 2 ? -0.0f : logits[i];
        }
        check_maps(sizes[s]);
    }
}

TEST(rows_of_equal_logits_are_spread_evenly) {
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        for (size_t i = 0; i < sizes[s]; i++) {
            logits[i] = -3.25f;
        }
        check_maps(sizes[s]);
    }
}

TEST(large_logits_do_not_overflow) {
    if (expl(5000.0L) == (long double)INFINITY) {
        SKIP("the reference needs a wider long double");
    }
    struct rng rng = rng_seeded(4);
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        rng_fill_normal(&rng, logits, sizes[s], 0, 3000);
        for (size_t i = 0; i < sizes[s]; i++) {
            logits[i] = fminf(logits[i], 1e4f);
        }
        check_maps(sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++) {
            logits[i] = 1e4f - 0.01f * (float)(rng_bits(&rng) % 64);
        }
        check_maps(sizes[s]);
    }
}

TEST(the_largest_floats_pass) {
    const float extremes[] = {FLT_MAX, -FLT_MAX, 0, FLT_MIN, -FLT_MIN, FLT_MAX, -INFINITY, 1e-45f};
    const size_t n = sizeof extremes / sizeof extremes[0];
    memcpy(logits, extremes, sizeof extremes);
    for (size_t m = 0; m < MAP_COUNT; m++) {
        whet_policy policy = policy_named(maps[m]);
        CHECK_INT(run(&policy, n, logits, result), WHET_OK);
        for (size_t i = 0; i < n; i++) {
            CHECK_MSG(result[i] >= 0 && result[i] <= 1, "%s at %zu: %g", maps[m], i,
                      (double)result[i]);
        }
        CHECK_NEAR(result[6], 0, 0);
        if (sums_to_one(&policy)) {
            CHECK_NEAR(result[0], 0.5, 0);
            CHECK_NEAR(result[5], 0.5, 0);
        }
    }
}

TEST(hardmax_shares_exactly) {
    for (size_t ties = 1; ties <= 100; ties++) {
        for (size_t i = 0; i < 200; i++) {
            logits[i] = i % 2 && i < 2 * ties ? 7.5f : -1.0f;
        }
        whet_policy policy = whet_policy_hardmax();
        run(&policy, 200, logits, result);
        CHECK(result[1] == (float)(1 / (double)ties));
        CHECK_NEAR(stats.entropy_after, log((double)ties), 0);
        CHECK_NEAR(stats.max_prob, 1 / (double)ties, 0);
    }
}

TEST(topk_keeps_k_entries_and_ties) {
    struct rng rng = rng_seeded(5);
    rng_fill_normal(&rng, logits, 3000, 0, 1);
    for (uint64_t k = 1; k <= 3001; k += 100) {
        whet_policy policy = whet_policy_topk(k);
        run(&policy, 3000, logits, result);
        sort_logits(3000);
        wide lowest = expected.sorted[k < 3000 ? k - 1 : 2999];
        for (size_t i = 0; i < 3000; i++) {
            CHECK((result[i] > 0) == ((wide)logits[i] >= lowest));
        }
    }
    const float zeros[] = {0.0f, -0.0f, -1, 0.0f};
    whet_policy policy = whet_policy_topk(1);
    run(&policy, 4, zeros, result);
    CHECK(result[0] == result[1] && result[1] == result[3] && result[2] == 0);
    policy = whet_policy_topk(UINT64_MAX);
    run(&policy, 4, zeros, result);
    CHECK(result[2] > 0);
}

TEST(topk_never_counts_masked_entries) {
    const float row[] = {-INFINITY, 1, -INFINITY, 3, 2};
    for (uint64_t k = 1; k <= 5; k++) {
        whet_policy policy = whet_policy_topk(k);
        run(&policy, 5, row, result);
        int kept = 0;
        for (size_t i = 0; i < 5; i++) {
            kept += result[i] > 0;
        }
        CHECK_INT(kept, k < 3 ? k : 3);
    }
}

TEST(entmax_approaches_its_limits) {
    struct rng rng = rng_seeded(6);
    static float other[N_MAX];
    struct {
        double alpha;
        whet_policy limit;
        double distance;
    } pairs[] = {{2 - 1e-9, whet_policy_sparsemax(), 1e-7},
                 {1.5 + 1e-9, whet_policy_entmax15(), 1e-7},
                 {1 + 1e-9, whet_policy_softmax(), 1e-6},
                 {1 + DBL_EPSILON, whet_policy_softmax(), 1e-6}};
    for (size_t i = 0; i < 4; i++) {
        rng_fill_normal(&rng, logits, 1000, 0, 1);
        whet_policy policy = whet_policy_entmax(pairs[i].alpha);
        CHECK_INT(run(&policy, 1000, logits, result), WHET_OK);
        CHECK_INT(run(&pairs[i].limit, 1000, logits, other), WHET_OK);
        for (size_t k = 0; k < 1000; k++) {
            CHECK_NEAR(result[k], other[k], pairs[i].distance);
        }
    }
}

TEST(maps_that_should_sum_to_one_do) {
    struct rng rng = rng_seeded(7);
    for (int trial = 0; trial < 200; trial++) {
        size_t n = (size_t)rng_integer(&rng, 1, N_MAX);
        rng_fill_normal(&rng, logits, n, 0, exp(rng_uniform(&rng, -5, 5)));
        whet_policy policy = whet_policy_entmax(1 + exp(rng_uniform(&rng, -14, 0)));
        CHECK_INT(run(&policy, n, logits, result), WHET_OK);
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)result[i];
        }
        CHECK_MSG(fabs(sum - 1) < 1e-6, "entmax:%.17g sums to %.17g", policy.map_value[0], sum);
    }
}

TEST(one_of_very_many_stands_out) {
    size_t n = 200000;
    float *row = malloc(n * sizeof *row);
    REQUIRE(row != NULL);
    for (size_t i = 0; i < n; i++) {
        row[i] = i == 777 ? 1.0f : (float)(i % 3) * 1e-4f;
    }
    for (size_t m = 0; m < MAP_COUNT; m++) {
        whet_policy policy = policy_named(maps[m]);
        float *out = malloc(n * sizeof *out);
        REQUIRE(out != NULL);
        CHECK_INT(run(&policy, n, row, out), WHET_OK);
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)out[i];
        }
        if (sums_to_one(&policy)) {
            CHECK_MSG(fabs(sum - 1) < 1e-6, "%s sums to %.9g", maps[m], sum);
        }
        free(out);
    }
    free(row);
}

TEST(stick_breaking_goes_from_the_last_to_the_first) {
    const float row[] = {0, 0, -INFINITY, 0};
    whet_policy policy = whet_policy_stick_breaking();
    run(&policy, 4, row, result);
    CHECK_NEAR(result[3], 0.5, 0);
    CHECK_NEAR(result[2], 0, 0);
    CHECK_NEAR(result[1], 0.25, 0);
    CHECK_NEAR(result[0], 0.125, 0);
    CHECK_NEAR(stats.max_prob, 0.5, 0);
}

TEST(sigmoid_counts_unmasked_entries_for_its_default) {
    const float row[] = {0, -INFINITY, 0, 0, 0};
    whet_policy policy = policy_named("sigmoid");
    run(&policy, 5, row, result);
    CHECK_NEAR(result[0], 0.2, 1e-8);
    CHECK_NEAR(result[1], 0, 0);
}

static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TEST(narrow_types_give_the_rounded_result_in_place) {
    struct rng rng = rng_seeded(8);
    static uint16_t row[N_MAX];
    for (size_t m = 0; m < MAP_COUNT; m++) {
        for (size_t i = 0; i < N_MAX; i++) {
            row[i] = to_bf16((float)rng_normal(&rng, 0, 2));
            logits[i] = from_bf16(row[i]);
        }
        whet_policy policy = policy_named(maps[m]);
        CHECK_INT(run(&policy, N_MAX, logits, result), WHET_OK);
        whet_rows rows = {.size = sizeof rows, .rows = 1, .n = N_MAX, .in = row, .out = row};
        rows.in_type = rows.out_type = WHET_BF16;
        CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
        size_t wrong = 0;
        for (size_t i = 0; i < N_MAX; i++) {
            wrong += row[i] != to_bf16(result[i]);
        }
        CHECK_MSG(wrong == 0, "%s: %zu wrong", maps[m], wrong);
    }
}

TEST(a_mask_array_acts_like_infinite_logits) {
    struct rng rng = rng_seeded(9);
    static float mask[N_MAX];
    static float masked[N_MAX];
    static float out[N_MAX];
    rng_fill_normal(&rng, logits, N_MAX, 0, 2);
    for (size_t i = 0; i < N_MAX; i++) {
        mask[i] = rng_bits(&rng) % 2 ? -INFINITY : 0.5f;
        masked[i] = logits[i] + mask[i];
    }
    for (size_t m = 0; m < MAP_COUNT; m++) {
        whet_policy policy = policy_named(maps[m]);
        CHECK_INT(run(&policy, N_MAX, masked, result), WHET_OK);
        whet_rows rows = {.size = sizeof rows, .rows = 1, .n = N_MAX, .in = logits, .out = out};
        rows.mask = mask;
        CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
        CHECK_MSG(same_bits(out, result, N_MAX), "%s", maps[m]);
    }
}

TEST(statistics_alone_are_those_that_come_with_the_result) {
    struct rng rng = rng_seeded(10);
    rng_fill_normal(&rng, logits, N_MAX, 0, 2);
    for (size_t m = 0; m < MAP_COUNT; m++) {
        whet_policy policy = policy_named(maps[m]);
        CHECK_INT(run(&policy, N_MAX, logits, result), WHET_OK);
        whet_stats alone = whet_stats_empty();
        whet_rows rows = {
            .size = sizeof rows, .rows = 1, .n = N_MAX, .in = logits, .stats = &alone};
        CHECK_INT(whet_entropy(&rows, &policy, NULL), WHET_OK);
        CHECK_INT(alone.n, stats.n);
        CHECK_NEAR(alone.max_prob, stats.max_prob, 0);
        CHECK_NEAR(alone.entropy, stats.entropy, 0);
        CHECK_NEAR(alone.entropy_after, stats.entropy_after, 0);
        CHECK_NEAR(alone.beta, 1, 0);
    }
}

TEST(bad_and_empty_rows_are_kept_apart) {
    float rows_of_three[] = {1, NAN, 2, -INFINITY, -INFINITY, -INFINITY, 1, 2, 3};
    for (size_t m = 0; m < MAP_COUNT; m++) {
        whet_policy policy = policy_named(maps[m]);
        whet_stats each[3];
        float out[9];
        size_t first_bad = 99;
        whet_rows rows = {.size = sizeof rows, .rows = 3, .n = 3, .in = rows_of_three, .out = out};
        rows.stats = each;
        CHECK_INT(whet_softmax(&rows, &policy, &first_bad), WHET_NOT_FINITE);
        CHECK_INT(first_bad, 0);
        CHECK(isnan(out[0]) && isnan(out[1]) && isnan(out[2]));
        CHECK(out[3] == 0 && out[4] == 0 && out[5] == 0);
        CHECK(out[8] > 0);
        CHECK_INT(each[1].flags, WHET_ROW_EMPTY);
    }
}
