/*
 * The kernels over one row, each against a plain loop in double: awkward
 * lengths, every alignment, masked entries, NaN, the smallest and the largest scale.
 * Rows lie in guarded memory, so that an access past an end crashes.
 */
#include "isa/kernels.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t sizes[] = {0,  1,  2,  3,  7,   8,    9,    15,   16,   17,  31,
                               33, 63, 64, 65, 127, 1000, 1023, 1024, 1025, 4097};
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])
#define SLACKS 4 /* floats left over at the end of the memory: as many alignments */

#define LOG2_E 1.4426950408889634
static const float factors[] = {
    (float)LOG2_E, (float)(2.42 * LOG2_E), 1e-3f, 1.0f, (float)(30 * LOG2_E), 1e-30f, 1e30f};
#define FACTOR_COUNT (sizeof factors / sizeof factors[0])

/* What an f32 sum of a block may be off by. */
#define SUM_TOLERANCE 1.5e-6

typedef struct row {
    float *x;
    size_t n;
    size_t slack;
} row;

static row row_new(size_t n, size_t slack) {
    return (row){guarded_new((n + slack) * sizeof(float)), n, slack};
}

/* Whether the memory beyond the row's end is as it was. */
static bool slack_is_untouched(const row *r) {
    for (size_t i = 0; i < r->slack * sizeof(float); i++) {
        if (((const unsigned char *)(r->x + r->n))[i] != 0xff) {
            return false;
        }
    }
    return true;
}

static void row_free(row *r) {
    CHECK_MSG(slack_is_untouched(r), "written past the end of %zu floats", r->n);
    guarded_free(r->x);
}

/* What the rows of these tests are made of. */
typedef enum content { NORMAL, WIDE, FAR, EQUAL, MASKED, CONTENTS } content;

static void fill(row *r, content kind, struct rng *rng) {
    static const double deviation[CONTENTS] = {1, 30, 2, 0, 3};
    static const double mean[CONTENTS] = {0, 0, 1e4, -2.5, 0};
    rng_fill_normal(rng, r->x, r->n, mean[kind], deviation[kind]);
    for (size_t i = 0; kind == MASKED && i < r->n; i++) {
        if (rng_bits(rng) % 3 == 0) {
            r->x[i] = -INFINITY;
        }
    }
}

static float plain_max(const row *r) {
    float max = -INFINITY;
    for (size_t i = 0; i < r->n; i++) {
        max = r->x[i] > max ? r->x[i] : max;
    }
    return max;
}

/* What a kernel is given to subtract. */
static float finite_max(const row *r) {
    float max = plain_max(r);
    return max == -INFINITY ? 0 : max;
}

typedef void each_row(row *r, struct rng *rng);

static void for_each_row(uint64_t seed, each_row *check) {
    struct rng rng = rng_seeded(seed);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        for (size_t slack = 0; slack < SLACKS; slack++) {
            for (content kind = 0; kind < CONTENTS; kind++) {
                row r = row_new(sizes[i], slack);
                fill(&r, kind, &rng);
                check(&r, &rng);
                row_free(&r);
            }
        }
    }
}

/* ---- maximum and count ---- */

static void check_max(row *r, struct rng *rng) {
    const kernels *k = whet_kernels_get();
    float expected = plain_max(r);
    CHECK_MSG(k->max(r->x, r->n) == expected, "n = %zu", r->n);
    if (r->n > 0) {
        size_t at = (size_t)rng_integer(rng, 0, (int64_t)r->n - 1);
        r->x[at] = NAN;
        expected = plain_max(r); /* comparisons with NaN are false */
        CHECK_MSG(k->max(r->x, r->n) == expected, "n = %zu, NaN at %zu", r->n, at);
        r->x[at] = INFINITY;
        CHECK_MSG(k->max(r->x, r->n) == INFINITY, "n = %zu, inf at %zu", r->n, at);
    }
}

TEST(the_largest_entry_is_found_and_nan_passed_over) { for_each_row(1, check_max); }

TEST(the_maximum_is_found_wherever_it_is) {
    for (size_t n = 1; n <= 70; n++) {
        row r = row_new(n, 0);
        for (size_t i = 0; i < n; i++) {
            r.x[i] = -1;
        }
        for (size_t i = 0; i < n; i++) {
            r.x[i] = 1;
            CHECK_MSG(whet_kernels_get()->max(r.x, n) == 1, "at %zu of %zu", i, n);
            r.x[i] = -1;
        }
        row_free(&r);
    }
}

static void check_min(row *r, struct rng *rng) {
    float expected = INFINITY;
    for (size_t i = 0; i < r->n; i++) {
        if (rng_bits(rng) % 8 == 0) {
            r->x[i] = rng_bits(rng) % 2 ? -INFINITY : NAN;
        }
        expected = r->x[i] < expected && r->x[i] != -INFINITY ? r->x[i] : expected;
    }
    CHECK_MSG(whet_kernels_get()->min(r->x, r->n) == expected, "n = %zu", r->n);
}

TEST(the_smallest_entry_that_is_not_masked_is_found) {
    for_each_row(7, check_min);
    const float zero = 0, masked[3] = {-INFINITY, -INFINITY, -INFINITY};
    CHECK(!signbit(whet_kernels_get()->min(&zero, 1)));
    CHECK(whet_kernels_get()->min(masked, 3) == INFINITY);
}

static void check_count(row *r, struct rng *rng) {
    size_t expected = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (rng_bits(rng) % 16 == 0) {
            r->x[i] = rng_bits(rng) % 2 ? NAN : INFINITY;
        }
        expected += r->x[i] != -INFINITY;
    }
    CHECK_INT(whet_kernels_get()->count(r->x, r->n), expected);
}

TEST(everything_but_masked_entries_is_counted) { for_each_row(2, check_count); }

/* ---- exponentials ---- */

static double worst_exponential;
static double worst_sum;

static double distance(const row *r, size_t i, float max) { return (double)r->x[i] - (double)max; }

/* Of an exponent: x - max, and where nothing fuses the product with exp2_scale, that too. */
#if defined(__wasm__)
enum { ROUNDINGS = 2 };
#else
enum { ROUNDINGS = 1 };
#endif

/* 2^(exp2_scale (x - max)), and how far off its f32 version may be. */
static double exponential(double d, float exp2_scale, double *bound) {
    double e = d == -(double)INFINITY ? 0 : exp2((double)exp2_scale * d);
    /* the polynomial and its rounding, and the rounding of x - max; the smallest are dropped */
    *bound = e * 7e-7 + 0x1p-126;
    if (e > 0) {
        *bound += e * log(2) * (double)exp2_scale * fabs(d) * 0x1p-24 * ROUNDINGS;
    }
    return e;
}

static void check_exponentials(row *r, struct rng *rng) {
    (void)rng;
    const kernels *k = whet_kernels_get();
    float max = finite_max(r);
    for (size_t f = 0; f < FACTOR_COUNT; f++) {
        row y = row_new(r->n, r->slack);
        double z = k->exp_store(r->x, r->n, max, factors[f], y.x);
        double expected_z = 0;
        size_t wrong = 0;
        for (size_t i = 0; i < r->n; i++) {
            double bound;
            double e = exponential(distance(r, i, max), factors[f], &bound);
            double error = fabs((double)y.x[i] - e);
            bool masked_is_zero = r->x[i] != -INFINITY || y.x[i] == 0;
            wrong += !(error <= bound) || !masked_is_zero;
            worst_exponential = e > 1e-9 ? fmax(worst_exponential, error / e) : worst_exponential;
            expected_z += e;
        }
        CHECK_MSG(wrong == 0, "%zu of %zu wrong, scale %g", wrong, r->n, (double)factors[f]);
        CHECK_NEAR(z, expected_z, SUM_TOLERANCE * expected_z);
        row in_place = row_new(r->n, r->slack);
        memcpy(in_place.x, r->x, r->n * sizeof(float));
        double same_z = k->exp_store(in_place.x, r->n, max, factors[f], in_place.x);
        CHECK(same_z == z && same_bytes(in_place.x, y.x, r->n * sizeof(float)));
        row_free(&in_place);
        row_free(&y);
    }
}

TEST(exponentials_are_right_and_masked_entries_exactly_zero) {
    for_each_row(3, check_exponentials);
    printf("     worst exponential above 1e-9: %.2g relative\n", worst_exponential);
}

/* A sum and how far off its f32 version may be, from the terms' own bounds. */
typedef struct expected_sum {
    double sum;
    double bound;
} expected_sum;

static void add_term(expected_sum *sum, double factor, double e, double bound) {
    sum->sum += e > 0 ? factor * e : 0;
    sum->bound += e > 0 ? fabs(factor) * bound : 0;
}

static bool is_near(double actual, expected_sum expected) {
    double error = fabs(actual - expected.sum);
    return error <= 1e-6 * fabs(expected.sum) + expected.bound;
}

static void check_sums(row *r, struct rng *rng) {
    (void)rng;
    const kernels *k = whet_kernels_get();
    float max = finite_max(r);
    for (size_t f = 0; f < FACTOR_COUNT; f++) {
        expected_sum z = {0, 0};
        expected_sum s = {0, 0};
        expected_sum q = {0, 0};
        for (size_t i = 0; i < r->n; i++) {
            double d = distance(r, i, max);
            double bound;
            double e = exponential(d, factors[f], &bound);
            add_term(&z, 1, e, bound);
            add_term(&s, d, e, bound);
            add_term(&q, d * d, e, bound);
        }
        row_sums sums = {0, 0, 0};
        k->sums(r->x, r->n, max, factors[f], &sums);
        CHECK_MSG(is_near(sums.z, z) && is_near(sums.s, s), "n = %zu, scale %g: z %g %g, s %g %g",
                  r->n, (double)factors[f], sums.z, z.sum, sums.s, s.sum);
        CHECK(sums.q == 0);
        sums = (row_sums){0, 0, 0};
        k->moments(r->x, r->n, max, factors[f], &sums);
        CHECK_MSG(is_near(sums.z, z) && is_near(sums.s, s) && is_near(sums.q, q),
                  "n = %zu, scale %g: z %g %g, s %g %g, q %g %g", r->n, (double)factors[f], sums.z,
                  z.sum, sums.s, s.sum, sums.q, q.sum);
        if (z.sum > 0) {
            worst_sum = fmax(worst_sum, fabs(sums.z - z.sum) / z.sum);
        }
    }
}

TEST(sums_and_moments_are_right) {
    for_each_row(4, check_sums);
    printf("     worst Z: %.2g relative\n", worst_sum);
}

TEST(sums_are_added_to_what_is_there) {
    const float x[3] = {0, -1, -INFINITY};
    row_sums fresh = {0, 0, 0};
    row_sums more = {100, -200, 300};
    whet_kernels_get()->moments(x, 3, 0, 1, &fresh);
    whet_kernels_get()->moments(x, 3, 0, 1, &more);
    CHECK_NEAR(more.z, fresh.z + 100, 1e-12);
    CHECK_NEAR(more.s, fresh.s - 200, 1e-12);
    CHECK_NEAR(more.q, fresh.q + 300, 1e-12);
    whet_kernels_get()->sums(x, 3, 0, 1, &more);
    CHECK_NEAR(more.z, 2 * fresh.z + 100, 1e-12);
    CHECK_NEAR(more.s, 2 * fresh.s - 200, 1e-12);
    CHECK_NEAR(more.q, fresh.q + 300, 1e-12);
}

static void check_nan(row *r, struct rng *rng) {
    const kernels *k = whet_kernels_get();
    if (r->n == 0) {
        return;
    }
    float max = finite_max(r);
    size_t at = (size_t)rng_integer(rng, 0, (int64_t)r->n - 1);
    r->x[at] = NAN;
    row_sums sums = {0, 0, 0};
    row_sums moments = {0, 0, 0};
    k->sums(r->x, r->n, max, 1, &sums);
    k->moments(r->x, r->n, max, 1, &moments);
    CHECK_MSG(isnan(sums.z) && isnan(moments.z), "NaN at %zu of %zu", at, r->n);
    CHECK_MSG(isnan(k->exp_store(r->x, r->n, max, 1, r->x)), "NaN at %zu of %zu", at, r->n);
    CHECK(isnan(r->x[at]));
}

TEST(nan_anywhere_makes_the_sums_nan) { for_each_row(5, check_nan); }

/* Every distance from none to where nothing is left, step by step. */
TEST(exponentials_fall_from_one_to_zero_without_a_jump) {
    enum { STEPS = 200000 };
    static float x[STEPS];
    static float y[STEPS];
    for (size_t i = 0; i < STEPS; i++) {
        x[i] = -140.0f * (float)i / STEPS;
    }
    whet_kernels_get()->exp_store(x, STEPS, 0, 1, y);
    CHECK(y[0] == 1);
    CHECK(y[STEPS - 1] == 0);
    double worst = 0;
    size_t rising = 0;
    for (size_t i = 0; i < STEPS; i++) {
        double e = exp2((double)x[i]);
        if (e > 0x1p-125) {
            worst = fmax(worst, fabs((double)y[i] - e) / e);
        } else {
            CHECK(y[i] >= 0 && y[i] <= 0x1p-124f);
        }
        rising += i > 0 && (double)y[i] > (double)y[i - 1] * (1 + 1e-6);
    }
    CHECK_MSG(worst < 6e-7, "%g", worst);
    CHECK_INT(rising, 0);
    printf("     worst 2^x: %.2g relative\n", worst);
}

/* ---- scaling ---- */

static void check_scale(row *r, struct rng *rng) {
    const kernels *k = whet_kernels_get();
    float factor = (float)rng_uniform(rng, 1e-6, 2);
    row y = row_new(r->n, r->slack);
    k->scale(r->x, r->n, factor, y.x);
    size_t wrong = 0;
    for (size_t i = 0; i < r->n; i++) {
        wrong += y.x[i] != r->x[i] * factor;
    }
    CHECK_MSG(wrong == 0, "%zu of %zu wrong", wrong, r->n);
    k->scale(r->x, r->n, factor, r->x);
    CHECK_MSG(same_bytes(r->x, y.x, r->n * sizeof(float)), "n = %zu in place", r->n);
    row_free(&y);
}

static void check_add(row *r, struct rng *rng) {
    row y = row_new(r->n, r->slack);
    row before = row_new(r->n, r->slack);
    rng_fill_uniform(rng, before.x, r->n, -1, 1);
    memcpy(y.x, before.x, r->n * sizeof(float));
    whet_kernels_get()->add(r->x, r->n, y.x);
    size_t wrong = 0;
    for (size_t i = 0; i < r->n; i++) {
        wrong += y.x[i] != before.x[i] + r->x[i];
    }
    CHECK_MSG(wrong == 0, "%zu of %zu wrong", wrong, r->n);
    row_free(&y);
    row_free(&before);
}

TEST(adding_is_exact) { for_each_row(9, check_add); }

/* Every third entry is hidden, whatever the logit. */
static void check_add_mask(row *r, struct rng *rng) {
    const float non_finite[] = {NAN, INFINITY, -INFINITY, 1.0f};
    row x = row_new(r->n, r->slack), before = row_new(r->n, r->slack);
    rng_fill_uniform(rng, before.x, r->n, -1, 1);
    for (size_t i = 0; i < r->n; i++) {
        r->x[i] = i % 3 == 0 ? -INFINITY : r->x[i];
        before.x[i] = i % 6 == 0 ? non_finite[i / 6 % 4] : before.x[i];
    }
    memcpy(x.x, before.x, r->n * sizeof(float));
    whet_kernels_get()->add_mask(r->x, r->n, x.x);
    size_t wrong = 0;
    for (size_t i = 0; i < r->n; i++) {
        wrong += x.x[i] != (i % 3 == 0 ? -INFINITY : before.x[i] + r->x[i]);
    }
    CHECK_MSG(wrong == 0, "%zu of %zu wrong", wrong, r->n);
    row_free(&x);
    row_free(&before);
}

static void check_mark(row *r, struct rng *rng) {
    uint16_t *mask = guarded_new(r->n * sizeof *mask);
    uint64_t marks[200];
    unsigned kind = (unsigned)(rng_bits(rng) % 4); /* all, none, or some; 3: with values */
    bool is_plain = true;
    REQUIRE(r->n <= 64 * 200);
    for (size_t j = 0; j < r->n; j++) {
        bool is_hidden = kind == 1 || (kind > 1 && (rng_bits(rng) & 1));
        mask[j] = is_hidden ? 0xfc00 : kind == 3 ? (uint16_t)(rng_bits(rng) & 0x83ff) : 0;
        is_plain = is_plain && (is_hidden || !(mask[j] & 0x7fff));
    }
    CHECK((whet_kernels_get()->mark_f16(mask, r->n, marks) != 0) == is_plain);
    for (size_t j = 0; j < (r->n + 63) / 64 * 64; j++) {
        bool is_seen = j < r->n && mask[j] != 0xfc00;
        CHECK((marks[j / 64] >> j % 64 & 1) == is_seen);
    }
    guarded_free(mask);
}

TEST(entries_that_a_mask_does_not_hide_are_marked) { for_each_row(3, check_mark); }

TEST(what_a_mask_hides_stays_hidden) { for_each_row(10, check_add_mask); }

TEST(scaling_is_exact_also_in_place) { for_each_row(6, check_scale); }

/* ---- steps of the row pipeline ---- */

/* What a pass is asked for beside the sums of its row. */
enum { STORES = 1, LOOKS_AHEAD = 2, HAS_LAST = 4, STREAMS = 8, STEP_KINDS = 16 };

static void check_step_kind(const row *r, const row *next, const row *last, unsigned kind) {
    const kernels *k = whet_kernels_get();
    float max = finite_max(r);
    row y = row_new(r->n, r->slack);
    row out = row_new(r->n, r->slack);
    row_pass pass = {.row_count = 1, .n = r->n, .x = r->x, .next_row_count = 1};
    pass.max[0] = max;
    pass.exp2_scale[0] = 1.25f;
    pass.factor[0] = 0.3f;
    pass.y = kind & STORES ? y.x : NULL;
    pass.next = kind & LOOKS_AHEAD ? next->x : NULL;
    pass.last = kind & HAS_LAST ? last->x : NULL;
    pass.out = kind & HAS_LAST ? out.x : NULL;
    pass.nontemporal = kind & STREAMS && (uintptr_t)out.x % 64 == 0;
    k->rows_pass(&pass);
    k->nontemporal_end();
    expected_sum z = {0, 0};
    expected_sum s = {0, 0};
    size_t wrong = 0;
    for (size_t i = 0; i < r->n; i++) {
        double d = distance(r, i, max);
        double bound;
        double e = exponential(d, 1.25f, &bound);
        add_term(&z, 1, e, bound);
        add_term(&s, d, e, bound);
        wrong += kind & STORES && !(fabs((double)y.x[i] / (double)pass.unit[0] - e) <= 2 * bound);
        wrong += kind & STORES && r->x[i] == -INFINITY && y.x[i] != 0;
        wrong += kind & HAS_LAST && out.x[i] != last->x[i] * 0.3f;
    }
    CHECK_MSG(wrong == 0, "kind %u, n = %zu: %zu wrong", kind, r->n, wrong);
    CHECK_MSG(is_near((double)pass.z[0], z), "kind %u, n = %zu: z %g, not %g", kind, r->n,
              (double)pass.z[0], z.sum);
    CHECK_MSG(kind & STORES || is_near((double)pass.s[0], s), "kind %u, n = %zu: s %g, not %g",
              kind, r->n, (double)pass.s[0], s.sum);
    CHECK_MSG(!(kind & LOOKS_AHEAD) || pass.next_max[0] == plain_max(next), "kind %u, n = %zu",
              kind, r->n);
    row_free(&y);
    row_free(&out);
}

static void check_step(row *r, struct rng *rng) {
    row next = row_new(r->n, r->slack);
    row last = row_new(r->n, r->slack);
    fill(&next, MASKED, rng);
    rng_fill_uniform(rng, last.x, r->n, 0, 1);
    if (r->n > 0) {
        next.x[r->n / 2] = NAN; /* passed over, like everywhere */
    }
    for (unsigned kind = 0; kind < STEP_KINDS; kind++) {
        check_step_kind(r, &next, &last, kind);
    }
    for (size_t i = 0; i < r->n; i++) {
        r->x[i] = r->x[i] * 1000 - 1e6f; /* exponents too large to count them from zero */
    }
    check_step_kind(r, &next, &last, LOOKS_AHEAD | HAS_LAST);
    check_step_kind(r, &next, &last, LOOKS_AHEAD | HAS_LAST | STORES);
    row_free(&next);
    row_free(&last);
}

TEST(steps_do_their_work_on_three_rows_at_once) { for_each_row(8, check_step); }

/* What one row of a pass has to agree in, to the last bit. */
static void check_row_of_step(const row_pass *many, size_t i) {
    const kernels *k = whet_kernels_get();
    float y[80] = {0}, out[80] = {0};
    bool looks_ahead = many->next && i < many->next_row_count;
    row_pass one = {.row_count = 1, .n = many->n, .next_row_count = 1, .whole = many->whole};
    one.x = many->x + (ptrdiff_t)i * many->stride;
    one.max[0] = many->max[i];
    one.exp2_scale[0] = many->exp2_scale[i];
    for (size_t lane = 1; lane < PASS_ROWS; lane++) { /* what rows before may have left */
        one.max[lane] = 1e8F;
        one.exp2_scale[lane] = 1;
    }
    one.y = many->y ? y : NULL;
    one.next = looks_ahead ? many->next + (ptrdiff_t)i * many->stride : NULL;
    k->rows_pass(&one);
    CHECK(one.z[0] == many->z[i] && one.total[0] == many->total[i] && one.unit[0] == many->unit[i]);
    CHECK(many->y || one.s[0] == many->s[i]);
    CHECK(!looks_ahead || one.next_max[0] == many->next_max[i]);
    CHECK(!many->y || memcmp(y, many->y + i * many->y_stride, many->n * sizeof(float)) == 0);
    for (size_t j = 0; many->last && j < many->n; j++) {
        out[j] = (float)(i + j) * many->factor[i]; /* what check_step_rows puts there */
    }
    CHECK(!many->last ||
          memcmp(out, many->out + (ptrdiff_t)i * many->out_stride, many->n * sizeof(float)) == 0);
}

/* Rows backwards and with gaps; one has exponents too large to be counted from zero, one an entry
 * with all the weight. Results of the rows before lie where the exponentials go. */
static void check_step_rows(size_t rows, size_t n, bool stores, struct rng *rng) {
    enum { GAP = 83, FLOATS = PASS_ROWS * GAP };
    static float x[FLOATS], next[FLOATS], buffer[FLOATS], out[FLOATS];
    rng_fill_normal(rng, x, FLOATS, 1, 3);
    rng_fill_normal(rng, next, FLOATS, 1, 3);
    row_pass pass = {.row_count = rows, .n = n, .stride = -GAP, .y_stride = GAP, .out_stride = GAP};
    pass.x = x + (rows - 1) * GAP;
    pass.next = next + (rows - 1) * GAP;
    pass.next_row_count = rows - rows / 4;
    pass.last = buffer;
    pass.y = stores ? buffer : NULL;
    pass.out = out;
    pass.whole = 1;
    x[(rows / 2) * GAP] = 100;
    x[(rows / 3) * GAP] = 1e7f;
    for (size_t i = 0; i < rows; i++) {
        row r = {x + (rows - 1 - i) * GAP, n, 0};
        pass.max[i] = plain_max(&r);
        pass.exp2_scale[i] = 1 + 0.1f * (float)i;
        pass.factor[i] = 0.7f * (float)i;
        for (size_t j = 0; j < n; j++) {
            buffer[i * GAP + j] = (float)(i + j);
        }
    }
    whet_kernels_get()->rows_pass(&pass);
    for (size_t i = 0; i < rows; i++) {
        check_row_of_step(&pass, i);
    }
}

TEST(a_step_over_many_rows_is_a_step_over_each) {
    struct rng rng = rng_seeded(11);
    for (size_t rows = 1; rows <= PASS_ROWS; rows++) {
        for (size_t n = 1; n <= 80; n += rows) {
            check_step_rows(rows, n, true, &rng);
            check_step_rows(rows, n, false, &rng);
        }
    }
}

TEST(entropies_agree_with_the_logarithm) {
    struct rng rng = rng_seeded(12);
    float z[2 * ROW_PAD], s[2 * ROW_PAD];
    double entropy[2 * ROW_PAD];
    for (int round = 0; round < 1000; round++) {
        for (size_t i = 0; i < 2 * ROW_PAD; i++) {
            double span = (double)(round % 30);
            z[i] = (float)exp2(rng_uniform(&rng, 0, span));
            s[i] = (float)((double)z[i] * rng_uniform(&rng, -5, 0));
        }
        z[0] = 1;
        s[0] = 0;
        s[1] = z[1] * 1000; /* rounding may take an entropy below zero */
        whet_kernels_get()->entropies(z, s, 2 * ROW_PAD, entropy);
        for (size_t i = 0; i < 2 * ROW_PAD; i++) {
            double expected = fmax(0, log((double)z[i]) - (double)s[i] / (double)z[i]);
            CHECK_MSG(fabs(entropy[i] - expected) <= 2e-14, "z %g, s %g: %g, not %g", (double)z[i],
                      (double)s[i], entropy[i], expected);
        }
        CHECK(entropy[0] == 0 && entropy[1] == 0);
    }
}

TEST(nan_makes_the_sums_of_a_step_nan) {
    for (size_t n = 1; n < 100; n++) {
        row r = row_new(n, 0);
        row y = row_new(n, 0);
        for (size_t at = 0; at < n; at++) {
            memset(r.x, 0, n * sizeof(float));
            r.x[at] = NAN;
            row_pass pass = {.row_count = 1, .n = n, .x = r.x, .exp2_scale = {1}};
            whet_kernels_get()->rows_pass(&pass);
            CHECK_MSG(isnan(pass.z[0]), "NaN at %zu of %zu", at, n);
            pass.y = y.x;
            whet_kernels_get()->rows_pass(&pass);
            CHECK_MSG(isnan(pass.z[0]), "NaN at %zu of %zu, stored", at, n);
        }
        row_free(&r);
        row_free(&y);
    }
}

TEST(what_is_not_finite_is_found_wherever_it_is) {
    static const float non_finite[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < 100; n++) {
        row r = row_new(n, n % SLACKS);
        for (size_t i = 0; i < n; i++) {
            r.x[i] = i % 2 ? FLT_MAX : -FLT_MAX;
        }
        CHECK_MSG(whet_kernels_get()->finite(r.x, n), "%zu finite floats", n);
        for (size_t i = 0; i < n; i++) {
            float before = r.x[i];
            r.x[i] = non_finite[(i + n) % 3];
            CHECK_MSG(!whet_kernels_get()->finite(r.x, n), "at %zu of %zu", i, n);
            r.x[i] = before;
        }
        row_free(&r);
    }
}

/* ---- soft cap ---- */

static double worst_softcap;

/* Relative: what rounding does to an exponent 2 y, and a few roundings; 1e-37 is next to none. */
static double softcap_slope_bound(double y, double slope) {
    return slope > 0 ? (4e-7 + 3e-7 * fabs(y)) * slope + 1e-37 : 1e-37;
}

static void check_softcap(row *r, struct rng *rng) {
    static const float caps[] = {0.5f, 5, 50, 1e4f};
    (void)rng;
    for (size_t c = 0; c < 4; c++) {
        row y = row_new(r->n, r->slack);
        memcpy(y.x, r->x, r->n * sizeof(float));
        whet_kernels_get()->softcap(y.x, r->n, caps[c]);
        row derivative = row_new(r->n, r->slack);
        whet_kernels_get()->softcap_derivative(r->x, r->n, caps[c], derivative.x);
        size_t wrong = 0;
        for (size_t i = 0; i < r->n; i++) {
            double cap = (double)caps[c];
            double y_i = (double)r->x[i] / cap;
            double expected = cap * tanh(y_i);
            double steepness = 1 / (cosh(y_i) * cosh(y_i));
            double error = fabs((double)y.x[i] - expected);
            wrong += !(error <= 4e-7 * fabs(expected));
            wrong +=
                !(fabs((double)derivative.x[i] - steepness) <= softcap_slope_bound(y_i, steepness));
            if (expected != 0) {
                worst_softcap = fmax(worst_softcap, error / fabs(expected));
            }
        }
        CHECK_MSG(wrong == 0, "%zu of %zu wrong, cap %g", wrong, r->n, (double)caps[c]);
        row_free(&derivative);
        row_free(&y);
    }
}

TEST(soft_caps_follow_tanh) {
    for_each_row(7, check_softcap);
    printf("     worst soft cap: %.2g relative\n", worst_softcap);
}

TEST(soft_caps_follow_tanh_at_every_size) {
    float worst_at = 0;
    double worst = 0;
    for (int step = -6000; step < 6000; step++) {
        float x = (float)exp(0.0115 * step);
        float pair[2] = {x, -x};
        whet_kernels_get()->softcap(pair, 2, 1);
        double expected = tanh((double)x);
        double error = fabs((double)pair[0] - expected) / expected;
        if (!(error <= worst)) {
            worst = error;
            worst_at = x;
        }
        CHECK(pair[1] == -pair[0]);
    }
    CHECK_MSG(worst < 4e-7, "%g at %g", worst, (double)worst_at);
}

TEST(soft_caps_keep_infinities_apart_and_nan) {
    float x[5] = {INFINITY, -INFINITY, NAN, 0.0f, FLT_MAX};
    float slope[5];
    whet_kernels_get()->softcap_derivative(x, 5, 30, slope);
    whet_kernels_get()->softcap(x, 5, 30);
    CHECK_NEAR(x[0], 30, 1e-5);
    CHECK_NEAR(x[1], -30, 1e-5);
    CHECK(isnan(x[2]));
    CHECK(x[3] == 0);
    CHECK_NEAR(x[4], 30, 1e-5);
    CHECK(slope[0] == 0);
    CHECK(slope[1] == 0);
    CHECK(isnan(slope[2]));
    CHECK(slope[3] == 1);
    CHECK(slope[4] == 0);
}

/* ---- tables ---- */

/* ---- the backward pass ---- */

static void check_find(row *r, struct rng *rng) {
    const kernels *k = whet_kernels_get();
    CHECK_INT(k->find(r->x, r->n, 4711), r->n);
    for (size_t i = 0; i < 3 && r->n > 0; i++) {
        float value = r->x[rng_integer(rng, 0, (int64_t)r->n - 1)];
        size_t first = 0;
        while (r->x[first] != value) {
            first++;
        }
        CHECK_INT(k->find(r->x, r->n, value), first);
    }
}

TEST(an_entry_is_found_where_it_comes_first) { for_each_row(9, check_find); }

/* A gradient for a row, with anything at all where that is masked. */
static row gradient_for(const row *r, struct rng *rng) {
    row g = row_new(r->n, r->slack);
    rng_fill_normal(rng, g.x, g.n, 0.5, 1);
    for (size_t i = 0; i < r->n; i++) {
        if (r->x[i] == -INFINITY) {
            g.x[i] = i % 2 ? NAN : INFINITY;
        }
    }
    return g;
}

static void check_gradient_sums(row *r, struct rng *rng) {
    const kernels *k = whet_kernels_get();
    const float max = finite_max(r), base = 0.25f;
    row g = gradient_for(r, rng), y = row_new(r->n, r->slack), expected = row_new(r->n, r->slack);
    for (size_t f = 0; f < 5; f++) { /* not for a scale next to zero or infinite */
        row_sums plain = {1, 2, 3}, weighted = {4, 5, 6}, sums = {1, 2, 3};
        double u = 4, v = 5, size = 0;
        k->gradient_sums(r->x, g.x, r->n, max, factors[f], base, y.x, &plain, &weighted);
        k->sums(r->x, r->n, max, factors[f], &sums);
        k->exp_store(r->x, r->n, max, factors[f], expected.x);
        for (size_t i = 0; i < r->n; i++) {
            if (r->x[i] != -INFINITY) {
                double t = (double)expected.x[i] * ((double)g.x[i] - (double)base);
                double d = (double)r->x[i] - (double)max;
                u += t;
                v += t == 0 ? 0 : t * d;
                size += fabs(t) * (1 + fabs(d));
            }
        }
        CHECK_MSG(same_bytes(y.x, expected.x, r->n * sizeof(float)), "n = %zu", r->n);
        CHECK_NEAR(plain.z, sums.z, SUM_TOLERANCE * sums.z);
        CHECK_NEAR(plain.s, sums.s, SUM_TOLERANCE * (1 + fabs(sums.s)));
        CHECK_NEAR(weighted.z, u, SUM_TOLERANCE * (1 + size));
        CHECK_NEAR(weighted.s, v, SUM_TOLERANCE * (1 + size));
    }
    row_free(&g);
    row_free(&y);
    row_free(&expected);
}

TEST(sums_of_the_backward_pass_are_right_and_pass_over_masked_entries) {
    for_each_row(10, check_gradient_sums);
}

static void check_gradient_store(row *r, struct rng *rng) {
    const kernels *k = whet_kernels_get();
    row g = gradient_for(r, rng), pw[2] = {row_new(r->n, r->slack), row_new(r->n, r->slack)};
    row y = row_new(r->n, r->slack);
    for (size_t i = 0; i < 2; i++) {
        k->exp_store(r->x, r->n, finite_max(r), factors[i], pw[i].x);
    }
    for (int moves = 0; moves < 2; moves++) {
        row_gradient request = {r->x,    g.x,           pw[0].x, moves ? pw[1].x : NULL,
                                r->n,    finite_max(r), 0.75f,   0.5f,
                                -0.125f, -1.5f,         -2,      y.x};
        k->gradient_store(&request);
        size_t wrong = 0;
        for (size_t i = 0; i < r->n; i++) {
            double first = 0.75 * (double)pw[0].x[i] * ((double)g.x[i] - 0.375);
            double d = (double)r->x[i] - (double)request.max;
            double second = moves ? -1.5 * (double)pw[1].x[i] * (d + 2) : 0;
            double size = (double)pw[0].x[i] * (1 + fabs((double)g.x[i])) +
                          (double)pw[1].x[i] * (2 + (pw[1].x[i] > 0 ? fabs(d) : 0));
            double limit = 4e-7 * size + 1e-37; /* the least that keeps all its digits */
            wrong += r->x[i] == -INFINITY ? y.x[i] != 0 || signbit(y.x[i])
                                          : !(fabs((double)y.x[i] - first - second) <= limit);
        }
        CHECK_MSG(wrong == 0, "%zu of %zu", wrong, r->n);
        request.y = g.x; /* in place */
        k->gradient_store(&request);
        CHECK(same_bytes(g.x, y.x, r->n * sizeof(float)));
        row_free(&g);
        g = gradient_for(r, rng);
    }
    row_free(&g);
    row_free(&pw[0]);
    row_free(&pw[1]);
    row_free(&y);
}

TEST(gradients_are_stored_right_and_zero_where_masked) { for_each_row(11, check_gradient_store); }

TEST(tables_are_found_by_name_and_tell_their_shape) {
    static const char *const names[] = {
#define WHET_SET(name, target, flags, condition) #name,
#include "isa/sets.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const kernels *k = whet_kernels_named(names[i]);
        if (!k) {
            continue;
        }
        CHECK_STR(k->name, names[i]);
        CHECK(k->lanes > 0 && k->lanes <= LANES_MAX);
        CHECK(k->strip > 0 && k->strip <= STRIP_MAX);
    }
    CHECK(whet_kernels_named("scalar") != NULL);
    CHECK(whet_kernels_named("none") == NULL);
    CHECK_STR(whet_kernels_get()->name, whet_isa());
}
