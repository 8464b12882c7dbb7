/*
 * What rows may have besides their logits: a sink, a beta of the caller's, the
 * position of a query. Every path that a row can take is compared with the
 * reference, or with what the same row comes to another way.
 */
#include "reference/reference.h"
#include "row/compare.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_MAX = 9000, MANY = 21 };
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static double exact[N_MAX], shown[N_MAX];

/* Temperatures, maps and both. */
static const char *const names[] = {
    "softmax",
    "fixed:2.5",
    "adaptive",
    "poly:0.3/-0.2/1.1:strength=0.5",
    "target:1.2",
    "ssmax:0.4:0.3",
    "length:4",
    "exp:1.5",
    "topk:3",
    "hardmax",
    "sparsemax",
    "entmax15",
    "entmax:1.25",
    "softmax1",
    "sigmoid",
    "sigmoid:0.5",
    "stick-breaking",
    "adaptive+topk:4",
    "adaptive+hardmax",
    "target:1.2+entmax15",
    "length:4+entmax:1.7",
    "exp:1+softmax1",
    "adaptive+sigmoid",
    "adaptive+stick-breaking",
};

/* Rows of one request, and where everything lies. */
typedef struct batch {
    array in, out;
    float *sinks, *betas; /* for each row, `stride` apart; or NULL */
    size_t sink_stride;
    whet_stats *stats;
} batch;

static batch batch_new(whet_type in, whet_type out, size_t rows, size_t n, struct rng *rng) {
    batch b = {.in = array_new(in, rows, n, 1, false), .out = array_new(out, rows, n, 2, false)};
    b.stats = guarded_new(rows * sizeof *b.stats);
    fill_logits(&b.in, rng);
    return b;
}

static void batch_free(batch *b) {
    guarded_free(b->in.memory);
    guarded_free(b->out.memory);
    guarded_free(b->sinks);
    guarded_free(b->betas);
    guarded_free(b->stats);
}

static whet_rows request(const batch *b) {
    return (whet_rows){.size = sizeof(whet_rows),
                       .rows = b->in.rows,
                       .n = b->in.n,
                       .in = b->in.first,
                       .in_type = b->in.type,
                       .in_stride = b->in.stride,
                       .out = b->out.first,
                       .out_type = b->out.type,
                       .out_stride = b->out.stride,
                       .stats = b->stats,
                       .sink = b->sinks,
                       .sink_stride = b->sink_stride,
                       .beta = b->betas};
}

static double sink_of(const batch *b, size_t row) {
    return b->sinks ? (double)b->sinks[row * b->sink_stride] : -(double)INFINITY;
}

/* Every row's result and statistics against the reference. */
static void compare_batch(const char *what, const batch *b, const whet_policy *policy) {
    for (size_t r = 0; r < b->in.rows; r++) {
        char row_name[300];
        double beta = b->betas ? (double)b->betas[r] : 1;
        full_row row = {exact, b->in.n, sink_of(b, r), b->betas ? &beta : NULL, 0};
        for (size_t i = 0; i < b->in.n; i++) {
            exact[i] = array_get(&b->in, r, i);
            shown[i] = array_get(&b->out, r, i);
        }
        snprintf(row_name, sizeof row_name, "%s, n = %zu, row %zu, sink %g, beta %g", what, b->in.n,
                 r, row.sink, b->betas ? beta : (double)NAN);
        compare_full_row(row_name, &row, policy, shown, b->out.type, &b->stats[r]);
    }
}

/* The same request without statistics gives what it gave with them, up to what beta may be off; the
 * same rows one by one give the same bits; and whet_entropy gives the same statistics. */
static void compare_paths(const char *what, const batch *b, const whet_policy *policy) {
    whet_rows rows = request(b);
    size_t rounded = b->out.type != WHET_F32;
    array again = array_new(b->out.type, b->in.rows, b->in.n, 2, false);
    array one = array_new(b->out.type, 1, b->in.n, 0, false);
    rows.out = again.first;
    rows.stats = NULL;
    whet_softmax(&rows, policy, NULL);
    for (size_t r = 0; r < b->in.rows; r++) {
        const whet_stats *stats = &b->stats[r];
        double beta_error = beta_depends_on_logits(policy) ? 2 * BETA_LIMIT * stats->beta : 0;
        size_t wrong = 0;
        for (size_t i = 0; i < b->in.n; i++) {
            double e = array_get(&b->in, r, i), x = array_get(&again, r, i);
            double y = array_get(&b->out, r, i);
            double reach = y > 0 ? fabs(e - stats->max) + fabs(stats->max) + 1 : 0;
            double limit =
                (2 * PROBABILITY_LIMIT + beta_error * reach + (rounded ? 0x1p-7 : 0)) * y;
            wrong +=
                !(fabs(x - y) <= limit + (rounded ? 0x1p-24 : 1e-9)) && !(isnan(x) && isnan(y));
        }
        CHECK_MSG(wrong == 0, "%s, n = %zu, row %zu without statistics", what, b->in.n, r);
        whet_rows alone = rows;
        alone.rows = 1;
        alone.in = array_at(&b->in, r, 0);
        alone.out = one.first;
        alone.sink = b->sinks ? b->sinks + r * b->sink_stride : NULL;
        alone.beta = b->betas ? b->betas + r : NULL;
        whet_softmax(&alone, policy, NULL);
        CHECK_MSG(same_bytes(one.first, array_at(&again, r, 0), b->in.n * reference_size(one.type)),
                  "%s, n = %zu, row %zu alone", what, b->in.n, r);
    }
    whet_stats *stats = guarded_new(b->in.rows * sizeof *stats);
    rows.out = NULL;
    rows.stats = stats;
    whet_entropy(&rows, policy, NULL);
    for (size_t r = 0; r < b->in.rows; r++) {
        CHECK_MSG(same_stats(&stats[r], &b->stats[r]), "%s, n = %zu, row %zu by whet_entropy", what,
                  b->in.n, r);
    }
    guarded_free(stats);
    guarded_free(again.memory);
    guarded_free(one.memory);
}

static void check_batch(const char *what, const batch *b, const whet_policy *policy) {
    whet_rows rows = request(b);
    CHECK_INT(whet_softmax(&rows, policy, NULL), WHET_OK);
    compare_batch(what, b, policy);
    compare_paths(what, b, policy);
}

static float *sinks_new(const float *values, size_t count, size_t rows, size_t stride) {
    float *sinks = guarded_new(((rows - 1) * stride + 1) * sizeof *sinks);
    for (size_t r = 0; r < rows; r++) {
        sinks[r * stride] = values[r % count];
    }
    return sinks;
}

/* ---- sinks ---- */

static const float sink_values[] = {0, -INFINITY, 3.5f, -3, 12, -40, 100, -1e4f, 1e4f, -0.0f};

TEST(a_sink_for_each_row_takes_part_as_one_more_logit) {
    const size_t sizes[] = {1, 2, 5, 16, 17, 33, 56, 57, 64, 257, 1000, 4096, 4097};
    struct rng rng = rng_seeded(1);
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            size_t rows = sizes[i] > 300 ? 3 : COUNT(sink_values) + 1;
            batch b = batch_new(WHET_F32, WHET_F32, rows, sizes[i], &rng);
            b.sink_stride = 1 + i % 3;
            b.sinks = sinks_new(sink_values + (rows == 3 ? 2 * (k % 4) : 0),
                                rows == 3 ? 3 : COUNT(sink_values), rows, b.sink_stride);
            check_batch(names[k], &b, &policy);
            batch_free(&b);
        }
    }
    print_worst();
}

TEST(one_sink_may_serve_all_rows) {
    struct rng rng = rng_seeded(2);
    const size_t sizes[] = {3, 50, 300, N_MAX};
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            batch b = batch_new(WHET_F32, WHET_F32, i == 3 ? 2 : MANY, sizes[i], &rng);
            b.sinks = sinks_new(&sink_values[2 + k % 3], 1, 1, 0);
            check_batch(names[k], &b, &policy);
            batch_free(&b);
        }
    }
}

TEST(rows_of_all_types_have_sinks) {
    struct rng rng = rng_seeded(3);
    for (int type = 1; type < 9; type++) {
        for (size_t k = 0; k < COUNT(names); k++) {
            whet_policy policy = policy_named(names[k]);
            size_t n = type == 5 ? 4200 : 7 + 10 * (size_t)type;
            batch b = batch_new((whet_type)(type % 3), (whet_type)(type / 3), n > 300 ? 2 : MANY, n,
                                &rng);
            b.sink_stride = 1;
            b.sinks = sinks_new(sink_values, COUNT(sink_values), b.in.rows, 1);
            check_batch(names[k], &b, &policy);
            batch_free(&b);
        }
    }
}

TEST(a_sink_of_minus_infinity_is_none) {
    struct rng rng = rng_seeded(4);
    const size_t sizes[] = {5, 57, 300, 5000};
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            batch b = batch_new(WHET_F32, WHET_F32, 1, sizes[i], &rng);
            float none = -INFINITY;
            float *plain = guarded_new(sizes[i] * sizeof *plain);
            whet_stats stats;
            whet_rows rows = request(&b);
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            rows.sink = &none;
            rows.out = plain;
            rows.stats = &stats;
            CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
            CHECK_MSG(same_bytes(plain, b.out.first, sizes[i] * sizeof *plain), "%s, n = %zu",
                      names[k], sizes[i]);
            CHECK_MSG(same_stats(&stats, b.stats), "%s, n = %zu", names[k], sizes[i]);
            guarded_free(plain);
            batch_free(&b);
        }
    }
}

TEST(sinks_that_are_not_finite_spoil_their_own_rows) {
    const float bad[] = {NAN, INFINITY};
    const size_t sizes[] = {1, 5, 57, 300, 5000};
    struct rng rng = rng_seeded(5);
    for (size_t k = 0; k < 2 * COUNT(names) * COUNT(sizes); k++) {
        const char *name = names[k / 2 % COUNT(names)];
        whet_policy policy = policy_named(name);
        batch b = batch_new(k % 3 ? WHET_F32 : WHET_F16, k % 5 ? WHET_F32 : WHET_BF16, 4,
                            sizes[k / 2 / COUNT(names)], &rng);
        b.sink_stride = 1;
        b.sinks = sinks_new(sink_values, 3, 4, 1);
        b.sinks[1] = b.sinks[3] = bad[k % 2];
        for (int quiet = 0; quiet < 2; quiet++) {
            size_t first_bad = 99;
            whet_rows rows = request(&b);
            rows.stats = quiet ? NULL : b.stats;
            CHECK_INT(whet_softmax(&rows, &policy, &first_bad), WHET_NOT_FINITE);
            CHECK_INT(first_bad, 1);
            compare_batch(name, &b, &policy);
        }
        compare_paths(name, &b, &policy);
        batch_free(&b);
    }
}

TEST(rows_of_masked_entries_with_a_sink_are_empty) {
    struct rng rng = rng_seeded(6);
    const size_t sizes[] = {1, 40, 300, 5000};
    for (size_t k = 0; k < COUNT(names) * COUNT(sizes); k++) {
        const char *name = names[k % COUNT(names)];
        whet_policy policy = policy_named(name);
        batch b = batch_new(WHET_F32, WHET_F32, 4, sizes[k / COUNT(names)], &rng);
        b.sink_stride = 1;
        b.sinks = sinks_new(sink_values, 3, 4, 1);
        for (size_t i = 0; i < b.in.n; i++) {
            array_set(&b.in, 0, i, -INFINITY);
            array_set(&b.in, 1, i, -INFINITY);
        }
        check_batch(name, &b, &policy);
        CHECK_INT(b.stats[0].flags, WHET_ROW_EMPTY);
        batch_free(&b);
    }
}

/* Results that go past the caches lie in the last row's place until the next row is read. */
TEST(the_last_row_of_many_long_ones_may_be_spoilt) {
    enum { ROWS = 260, N = 8192 };
    float *in = aligned_alloc(64, sizeof(float[ROWS][N])), *expected = malloc(sizeof(float[N]));
    float *out = aligned_alloc(64, sizeof(float[ROWS][N]));
    REQUIRE(in && out && expected);
    struct rng rng = rng_seeded(7);
    rng_fill_uniform(&rng, in, (size_t)ROWS * N, -2, 2);
    for (int by_beta = 0; by_beta < 2; by_beta++) {
        float extras[ROWS];
        for (size_t r = 0; r < ROWS; r++) {
            extras[r] = r == ROWS - 1 ? NAN : by_beta ? 1.5f : 0;
        }
        whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = N, .in = in, .out = out};
        rows.sink = by_beta ? NULL : extras;
        rows.sink_stride = 1;
        rows.beta = by_beta ? extras : NULL;
        size_t first_bad = 0;
        CHECK_INT(whet_softmax(&rows, NULL, &first_bad), WHET_NOT_FINITE);
        CHECK_INT(first_bad, ROWS - 1);
        rows.rows = 1;
        rows.out = expected;
        for (size_t r = ROWS - 3; r < ROWS - 1; r++) {
            rows.in = in + r * N;
            CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
            CHECK_MSG(same_bytes(expected, out + r * N, sizeof(float[N])), "row %zu, %d", r,
                      by_beta);
        }
        CHECK(isnan(out[(size_t)ROWS * N - 1]) && isnan(out[(size_t)(ROWS - 1) * N]));
    }
    free(in);
    free(out);
    free(expected);
}

/* ---- betas ---- */

static const char *const map_names[] = {"softmax",     "topk:3",        "hardmax", "sparsemax",
                                        "entmax15",    "softmax1",      "sigmoid", "sigmoid:0.5",
                                        "entmax:1.25", "stick-breaking"};
static const float beta_values[] = {1,  0.25f, 0,      3,     -1,       1e-20f,
                                    17, -0.0f, 1e-42f, 1e20f, INFINITY, -INFINITY};

TEST(a_given_beta_takes_the_place_of_the_policys) {
    const size_t sizes[] = {1, 5, 56, 57, 300, 4097};
    struct rng rng = rng_seeded(8);
    for (size_t k = 0; k < COUNT(map_names) * COUNT(sizes); k++) {
        const char *name = map_names[k % COUNT(map_names)];
        whet_policy policy = policy_named(name);
        batch b = batch_new(k % 3 ? WHET_F32 : WHET_BF16, k % 4 ? WHET_F32 : WHET_F16,
                            COUNT(beta_values), sizes[k / COUNT(map_names)], &rng);
        b.betas = sinks_new(beta_values, COUNT(beta_values), COUNT(beta_values), 1);
        check_batch(name, &b, &policy);
        b.sinks = sinks_new(&sink_values[2], 1, 1, 0); /* and with a sink */
        check_batch(name, &b, &policy);
        batch_free(&b);
    }
    print_worst();
}

TEST(a_given_beta_is_fixed_to_the_bit) {
    const size_t sizes[] = {1, 5, 40, 57, 300, 4096, 5000};
    const float betas[] = {1, 0.25f, 3, 0.1f, 1e-20f, 1e20f};
    struct rng rng = rng_seeded(9);
    for (size_t k = 0; k < COUNT(map_names) * COUNT(sizes) * COUNT(betas); k++) {
        size_t n = sizes[k / COUNT(map_names) % COUNT(sizes)];
        float beta = betas[k / COUNT(map_names) / COUNT(sizes)];
        whet_policy map = policy_named(map_names[k % COUNT(map_names)]);
        whet_policy fixed = whet_policy_compose(whet_policy_fixed((double)beta), map);
        batch b = batch_new(k % 3 ? WHET_F32 : WHET_F16, k % 4 ? WHET_F32 : WHET_BF16,
                            n > 300 ? 2 : MANY, n, &rng);
        array other = array_new(b.out.type, b.in.rows, n, 2, false);
        for (int with_stats = 0; with_stats < 2; with_stats++) {
            whet_stats own[MANY];
            whet_rows rows = request(&b);
            rows.stats = with_stats ? b.stats : NULL;
            CHECK_INT(whet_softmax(&rows, &fixed, NULL), WHET_OK);
            float given[MANY];
            for (size_t r = 0; r < MANY; r++) {
                given[r] = beta;
            }
            rows.beta = given;
            rows.out = other.first;
            rows.stats = with_stats ? own : NULL;
            CHECK_INT(whet_softmax(&rows, &map, NULL), WHET_OK);
            for (size_t r = 0; r < b.in.rows; r++) {
                CHECK_MSG(same_bytes(array_at(&other, r, 0), array_at(&b.out, r, 0),
                                     n * reference_size(other.type)),
                          "%s at %g, n = %zu, row %zu, %d", map_names[k % COUNT(map_names)],
                          (double)beta, n, r, with_stats);
                CHECK(!with_stats || same_stats(&own[r], &b.stats[r]));
            }
        }
        guarded_free(other.memory);
        batch_free(&b);
    }
}

TEST(a_beta_of_nan_spoils_its_own_row_unless_that_is_empty) {
    const size_t sizes[] = {1, 40, 300, 5000};
    struct rng rng = rng_seeded(10);
    for (size_t k = 0; k < COUNT(map_names) * COUNT(sizes); k++) {
        const char *name = map_names[k % COUNT(map_names)];
        whet_policy policy = policy_named(name);
        batch b = batch_new(WHET_F32, WHET_F32, 4, sizes[k / COUNT(map_names)], &rng);
        b.betas = sinks_new(beta_values, 2, 4, 1);
        b.betas[0] = b.betas[2] = NAN;
        for (size_t i = 0; i < b.in.n; i++) {
            array_set(&b.in, 0, i, -INFINITY);
        }
        for (int quiet = 0; quiet < 2; quiet++) {
            size_t first_bad = 99;
            whet_rows rows = request(&b);
            rows.stats = quiet ? NULL : b.stats;
            CHECK_INT(whet_softmax(&rows, &policy, &first_bad), WHET_NOT_FINITE);
            CHECK_INT(first_bad, 2);
            compare_batch(name, &b, &policy);
        }
        compare_paths(name, &b, &policy);
        batch_free(&b);
    }
}

/* ---- positions ---- */

TEST(positions_are_reported_for_rows_of_every_kind) {
    struct rng rng = rng_seeded(11);
    for (size_t k = 0; k < COUNT(names); k++) {
        whet_policy policy = policy_named(names[k]);
        batch b = batch_new(WHET_F32, WHET_F32, 4, 20, &rng);
        whet_rows rows = request(&b);
        for (size_t i = 0; i < 20; i++) {
            array_set(&b.in, 1, i, -INFINITY);
        }
        array_set(&b.in, 2, 3, NAN);
        rows.position = -1000;
        rows.position_stride = 300;
        for (int i = 0; i < 2; i++) {
            CHECK_INT(i ? whet_entropy(&rows, &policy, NULL) : whet_softmax(&rows, &policy, NULL),
                      WHET_NOT_FINITE);
            for (int64_t r = 0; r < 4; r++) {
                CHECK_INT(b.stats[r].position, -1000 + 300 * r);
            }
        }
        batch_free(&b);
    }
}

TEST(rows_of_nothing_have_positions_and_sinks_too) {
    whet_stats stats[3];
    const float sinks[3] = {2, -INFINITY, NAN};
    whet_rows rows = {.size = sizeof rows, .rows = 3, .n = 0, .stats = stats};
    rows.sink = sinks;
    rows.sink_stride = 1;
    rows.position = 5;
    rows.position_stride = 1;
    for (int i = 0; i < 2; i++) {
        size_t first_bad = 99;
        CHECK_INT(i ? whet_entropy(&rows, NULL, &first_bad) : whet_softmax(&rows, NULL, &first_bad),
                  WHET_NOT_FINITE);
        CHECK_INT(first_bad, 2);
        whet_policy plain = whet_policy_softmax();
        for (size_t r = 0; r < 3; r++) {
            full_row row = {NULL, 0, (double)sinks[r], NULL, 5 + (int64_t)r};
            compare_full_row("nothing", &row, &plain, NULL, WHET_F32, &stats[r]);
        }
    }
}

TEST(rows_of_nothing_have_bad_sinks_without_statistics_too) {
    const float sinks[3] = {2, -INFINITY, NAN};
    size_t first_bad = 99;
    whet_rows rows = {.size = sizeof rows, .rows = 3, .n = 0, .sink = sinks, .sink_stride = 1};
    CHECK_INT(whet_softmax(&rows, NULL, &first_bad), WHET_NOT_FINITE);
    CHECK_INT(first_bad, 2);
    rows.sink = &sinks[2];
    rows.sink_stride = 0;
    rows.rows = PTRDIFF_MAX;
    CHECK_INT(whet_softmax(&rows, NULL, &first_bad), WHET_NOT_FINITE);
    CHECK_INT(first_bad, 0);
    rows.sink = sinks;
    CHECK_INT(whet_softmax(&rows, NULL, &first_bad), WHET_OK);
    rows.rows = 0;
    rows.sink = &sinks[2];
    CHECK_INT(whet_softmax(&rows, NULL, &first_bad), WHET_OK);
}

TEST(positions_may_be_any_numbers) {
    enum { ROWS = 40, N = 4 };
    const int64_t ends[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2};
    static float in[ROWS * N], out[ROWS * N];
    static whet_stats stats[ROWS];
    whet_policy adaptive = whet_policy_adaptive();
    for (size_t k = 0; k < 9; k++) {
        whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = N, .in = in, .out = out};
        rows.position = ends[k % 3];
        rows.position_stride = ends[k / 3];
        CHECK_INT(whet_softmax(&rows, &adaptive, NULL), WHET_OK);
        rows.stats = stats;
        CHECK_INT(whet_softmax(&rows, &adaptive, NULL), WHET_OK);
        CHECK(stats[0].position == ends[k % 3]);
        rows.in_type = WHET_F16;
        rows.stats = NULL;
        CHECK_INT(whet_softmax(&rows, &adaptive, NULL), WHET_OK);
    }
}
