/*
 * The kernels over panels, the lane last everywhere, each against plain loops
 * in double. Operands lie in guarded memory and have exactly the size that
 * kernels.h tells.
 */
#include "isa/kernels.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"

#include <math.h>
#include <string.h>

static const size_t key_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 127, 128};
#define KEY_COUNTS (sizeof key_counts / sizeof key_counts[0])

static float *new_floats(size_t n) { return guarded_new(n * sizeof(float)); }

static float *new_normal(struct rng *rng, size_t n, double deviation) {
    float *x = new_floats(n);
    rng_fill_normal(rng, x, n, 0, deviation);
    return x;
}

/* What a sum of n products in f32 may be off by, given the sum of their sizes. */
static double product_bound(size_t n, double sizes) { return (double)(n + 2) * 0x1p-24 * sizes; }

/* ---- the two products ---- */

static void check_scores(struct rng *rng, size_t strips, size_t depth) {
    const kernels *k = whet_kernels_get();
    size_t lanes = k->lanes;
    size_t strip = k->strip;
    float *keys = new_normal(rng, strips * depth * strip, 1); /* [strips][depth][strip] */
    float *queries = new_normal(rng, depth * lanes, 1);       /* [depth][lanes] */
    float *tile = new_floats(strips * strip * lanes);
    k->scores(keys, strips, queries, depth, tile);
    size_t wrong = 0;
    for (size_t j = 0; j < strips * strip; j++) {
        for (size_t lane = 0; lane < lanes; lane++) {
            double sum = 0;
            double sizes = 0;
            for (size_t i = 0; i < depth; i++) {
                double a = (double)keys[(j / strip * depth + i) * strip + j % strip];
                double b = (double)queries[i * lanes + lane];
                sum += a * b;
                sizes += fabs(a * b);
            }
            double error = fabs((double)tile[j * lanes + lane] - sum);
            wrong += !(error <= product_bound(depth, sizes));
        }
    }
    CHECK_MSG(wrong == 0, "%zu wrong: %zu strips, depth %zu", wrong, strips, depth);
    guarded_free(keys);
    guarded_free(queries);
    guarded_free(tile);
}

TEST(scores_are_products_of_keys_and_queries) {
    struct rng rng = rng_seeded(1);
    for (size_t depth = 1; depth <= 80; depth++) {
        check_scores(&rng, 1 + depth % 3, depth);
    }
    for (size_t strips = 0; strips <= 17; strips++) {
        check_scores(&rng, strips, 33);
    }
    check_scores(&rng, 3, 576);
}

static void check_accumulate(struct rng *rng, size_t strips, size_t keys, size_t padding) {
    const kernels *k = whet_kernels_get();
    size_t lanes = k->lanes;
    size_t strip = k->strip;
    size_t stride = keys * strip + padding;
    size_t columns = strips * strip;
    size_t size = strips ? (strips - 1) * stride + keys * strip : 0;
    float *values = new_normal(rng, size, 1);
    float *weights = new_normal(rng, keys * lanes, 1);
    float *rescale = new_floats(lanes);
    rng_fill_uniform(rng, rescale, lanes, 0, 1);
    float *out = new_normal(rng, columns * lanes, 1);
    float *before = new_floats(columns * lanes);
    memcpy(before, out, columns * lanes * sizeof(float));
    k->accumulate(values, strips, stride, weights, keys, rescale, out);
    size_t wrong = 0;
    for (size_t c = 0; c < columns; c++) {
        for (size_t lane = 0; lane < lanes; lane++) {
            double sum = (double)before[c * lanes + lane] * (double)rescale[lane];
            double sizes = fabs(sum);
            for (size_t j = 0; j < keys; j++) {
                double v = (double)values[c / strip * stride + j * strip + c % strip];
                double w = (double)weights[j * lanes + lane];
                sum += v * w;
                sizes += fabs(v * w);
            }
            double error = fabs((double)out[c * lanes + lane] - sum);
            wrong += !(error <= product_bound(keys, sizes));
        }
    }
    CHECK_MSG(wrong == 0, "%zu wrong: %zu strips, %zu keys", wrong, strips, keys);
    guarded_free(values);
    guarded_free(weights);
    guarded_free(rescale);
    guarded_free(out);
    guarded_free(before);
}

TEST(outputs_are_rescaled_and_values_added_by_weight) {
    struct rng rng = rng_seeded(2);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        for (size_t strips = 0; strips <= 5; strips++) {
            check_accumulate(&rng, strips, key_counts[i], strips * whet_kernels_get()->strip);
        }
    }
    check_accumulate(&rng, 144, 128, 0);
}

/* ---- layout ---- */

TEST(folding_adds_outputs_to_totals_and_clears_them) {
    struct rng rng = rng_seeded(13);
    const kernels *k = whet_kernels_get();
    for (size_t columns = 0; columns <= 17; columns++) {
        size_t count = columns * k->lanes, wrong = 0;
        float *out = new_normal(&rng, count, 1);
        double *total = guarded_new(count * sizeof *total);
        double *expected = guarded_new(count * sizeof *expected);
        double *factor = guarded_new(k->lanes * sizeof *factor);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            factor[lane] = lane % 5 ? rng_uniform(&rng, 0, 1) : 0;
        }
        for (size_t i = 0; i < count; i++) {
            total[i] = rng_normal(&rng, 0, 1);
            expected[i] = total[i] * factor[i % k->lanes] + (double)out[i];
        }
        k->add_to_totals(out, columns, factor, total);
        for (size_t i = 0; i < count; i++) {
            wrong += total[i] != expected[i] || out[i] != 0;
        }
        CHECK_MSG(wrong == 0, "%zu wrong of %zu columns", wrong, columns);
        guarded_free(out);
        guarded_free(total);
        guarded_free(expected);
        guarded_free(factor);
    }
}

TEST(interleaving_puts_rows_side_by_side) {
    struct rng rng = rng_seeded(3);
    const kernels *k = whet_kernels_get();
    for (size_t depth = 1; depth <= 100; depth++) {
        float *rows[STRIP_MAX];
        for (size_t i = 0; i < k->strip; i++) {
            rows[i] = new_normal(&rng, depth, 1);
        }
        float *result = new_floats(depth * k->strip);
        k->interleave((const float *const *)rows, depth, result);
        size_t wrong = 0;
        for (size_t at = 0; at < depth * k->strip; at++) {
            wrong += result[at] != rows[at % k->strip][at / k->strip];
        }
        CHECK_MSG(wrong == 0, "depth %zu: %zu wrong", depth, wrong);
        for (size_t i = 0; i < k->strip; i++) {
            guarded_free(rows[i]);
        }
        guarded_free(result);
    }
}

TEST(gathering_turns_rows_into_lanes_and_spreading_back) {
    struct rng rng = rng_seeded(31);
    const kernels *k = whet_kernels_get();
    for (size_t n = 0; n <= 40; n++) {
        float *rows[LANES_MAX], *back[LANES_MAX], *factor = new_normal(&rng, k->lanes, 1);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            rows[lane] = new_normal(&rng, n, 1);
            back[lane] = new_floats(n);
        }
        float *tile = new_floats(n * k->lanes);
        k->panel_transpose((const float *const *)rows, n, tile);
        k->panel_transpose_back(tile, n, factor, back);
        size_t wrong = 0;
        for (size_t at = 0; at < n * k->lanes; at++) {
            size_t lane = at % k->lanes, i = at / k->lanes;
            wrong += tile[at] != rows[lane][i];
            wrong += back[lane][i] != rows[lane][i] * factor[lane];
        }
        CHECK_MSG(wrong == 0, "n = %zu: %zu wrong", n, wrong);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            guarded_free(rows[lane]);
            guarded_free(back[lane]);
        }
        guarded_free(tile);
        guarded_free(factor);
    }
}

TEST(scattering_puts_strips_of_a_row_apart) {
    struct rng rng = rng_seeded(4);
    const kernels *k = whet_kernels_get();
    for (size_t strips = 0; strips <= 20; strips++) {
        for (size_t gap = 0; gap < 20; gap += 5) {
            size_t stride = k->strip + gap;
            size_t size = strips ? (strips - 1) * stride + k->strip : 0;
            float *row = new_normal(&rng, strips * k->strip, 1);
            float *result = new_floats(size);
            k->scatter(row, strips, result, stride);
            size_t wrong = 0;
            for (size_t at = 0; at < size; at++) {
                size_t from = at / stride * k->strip + at % stride;
                bool in_gap = at % stride >= k->strip;
                bool right = in_gap ? isnan(result[at]) != 0 : result[at] == row[from];
                wrong += !right;
            }
            CHECK_MSG(wrong == 0, "%zu strips, stride %zu: %zu wrong", strips, stride, wrong);
            guarded_free(row);
            guarded_free(result);
        }
    }
}

/* ---- logits of a tile ---- */

/* A tile of logits with masked entries, and what a lane subtracts and multiplies with. */
typedef struct tile {
    size_t keys;
    float *x; /* [keys][lanes] */
    float *max;
    float *exp2_scale;
} tile;

static tile tile_new(struct rng *rng, size_t keys) {
    size_t lanes = whet_kernels_get()->lanes;
    tile t = {keys, new_normal(rng, keys * lanes, 4), new_floats(lanes), new_floats(lanes)};
    for (size_t i = 0; i < keys * lanes; i++) {
        if (rng_bits(rng) % 5 == 0) {
            t.x[i] = -INFINITY;
        }
    }
    for (size_t lane = 0; lane < lanes; lane++) {
        t.max[lane] = 0;
        t.exp2_scale[lane] = (float)exp(rng_uniform(rng, -3, 3));
        for (size_t j = 0; lane % 7 == 3 && j < keys; j++) {
            t.x[j * lanes + lane] = -INFINITY; /* nothing to see */
        }
        for (size_t j = 0; j < keys; j++) {
            float x = t.x[j * lanes + lane];
            t.max[lane] = x > t.max[lane] ? x : t.max[lane];
        }
    }
    return t;
}

static void tile_free(tile *t) {
    guarded_free(t->x);
    guarded_free(t->max);
    guarded_free(t->exp2_scale);
}

/* The sums of one lane in double, and how far off those in f32 may be. */
typedef struct lane_sums {
    double z, s, q;
    double z_bound, s_bound, q_bound;
} lane_sums;

static double exponential_at(const tile *t, size_t j, size_t lane, double *d) {
    double x = (double)t->x[j * whet_kernels_get()->lanes + lane];
    *d = x - (double)t->max[lane];
    return x == -(double)INFINITY ? 0 : exp2((double)t->exp2_scale[lane] * *d);
}

/* Relative, of one exponential and of a sum of as many as there are keys. */
static double exponential_bound(const tile *t, size_t lane, double d) {
    return 5e-7 + 0x1p-24 * ((double)t->exp2_scale[lane] * fabs(d) + (double)t->keys);
}

static lane_sums sums_of(const tile *t, size_t lane) {
    lane_sums sums = {.z_bound = 1e-35, .s_bound = 1e-33, .q_bound = 1e-31};
    for (size_t j = 0; j < t->keys; j++) {
        double d;
        double e = exponential_at(t, j, lane, &d);
        if (e > 0) {
            double bound = exponential_bound(t, lane, d);
            sums.z += e;
            sums.s += d * e;
            sums.q += d * d * e;
            sums.z_bound += e * bound;
            sums.s_bound += fabs(d) * e * bound;
            sums.q_bound += d * d * e * bound;
        }
    }
    return sums;
}

static void check_sum(const char *name, float actual, double expected, double bound) {
    CHECK_MSG(fabs((double)actual - expected) <= bound, "%s is %g, not %g", name, (double)actual,
              expected);
}

/* The weights a kernel left in the tile, against those of the tile as it was. */
static void check_weights(const tile *before, const float *after) {
    size_t lanes = whet_kernels_get()->lanes;
    size_t wrong = 0;
    for (size_t at = 0; at < before->keys * lanes; at++) {
        double d;
        double e = exponential_at(before, at / lanes, at % lanes, &d);
        double bound = 5e-7 + 0x1p-24 * (double)before->exp2_scale[at % lanes] * fabs(d);
        bool masked = before->x[at] == -INFINITY;
        wrong += masked ? after[at] != 0 : !(fabs((double)after[at] - e) <= e * bound + 0x1p-126);
    }
    CHECK_MSG(wrong == 0, "%zu weights of %zu keys are wrong", wrong, before->keys);
}

static void check_tile_sums(const tile *t, const float *z, const float *s, const float *q) {
    for (size_t lane = 0; lane < whet_kernels_get()->lanes; lane++) {
        lane_sums sums = sums_of(t, lane);
        check_sum("z", z[lane], sums.z, sums.z_bound);
        if (s) {
            check_sum("s", s[lane], sums.s, sums.s_bound);
        }
        if (q) {
            check_sum("q", q[lane], sums.q, sums.q_bound);
        }
    }
}

TEST(weights_and_sums_are_taken_lane_by_lane) {
    struct rng rng = rng_seeded(5);
    const kernels *k = whet_kernels_get();
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        tile t = tile_new(&rng, key_counts[i]);
        size_t bytes = t.keys * k->lanes * sizeof(float);
        float *work = guarded_new(bytes);
        float *z = new_floats(k->lanes);
        float *s = new_floats(k->lanes);
        float *q = new_floats(k->lanes);
        memcpy(work, t.x, bytes);
        k->panel_sums(work, t.keys, t.max, t.exp2_scale, z, s);
        CHECK(same_bytes(work, t.x, bytes));
        check_tile_sums(&t, z, s, NULL);
        k->panel_moments(work, t.keys, t.max, t.exp2_scale, z, s, q);
        CHECK(same_bytes(work, t.x, bytes));
        check_tile_sums(&t, z, s, q);
        k->panel_weights(work, t.keys, t.max, t.exp2_scale, z);
        check_weights(&t, work);
        check_tile_sums(&t, z, NULL, NULL);
        memcpy(work, t.x, bytes);
        k->panel_weights_sums(work, t.keys, t.max, t.exp2_scale, z, s);
        check_weights(&t, work);
        check_tile_sums(&t, z, s, NULL);
        guarded_free(work);
        guarded_free(z);
        guarded_free(s);
        guarded_free(q);
        tile_free(&t);
    }
}

TEST(nan_in_one_lane_stays_there) {
    struct rng rng = rng_seeded(6);
    const kernels *k = whet_kernels_get();
    for (size_t bad = 0; bad < k->lanes; bad++) {
        tile t = tile_new(&rng, 33);
        t.x[(bad % 33) * k->lanes + bad] = NAN;
        float z[LANES_MAX];
        float s[LANES_MAX];
        float max[LANES_MAX];
        memcpy(max, t.max, k->lanes * sizeof(float));
        k->panel_max(t.x, 33, max);
        k->panel_sums(t.x, 33, t.max, t.exp2_scale, z, s);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            CHECK(isnan(z[lane]) == (lane == bad));
            CHECK(!isnan(max[lane]));
        }
        tile_free(&t);
    }
}

TEST(maxima_are_raised_and_entries_counted_lane_by_lane) {
    struct rng rng = rng_seeded(7);
    const kernels *k = whet_kernels_get();
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        tile t = tile_new(&rng, key_counts[i]);
        float *max = new_floats(k->lanes);
        float *count = new_floats(k->lanes);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            max[lane] = lane % 3 ? -INFINITY : 3;
        }
        k->panel_max(t.x, t.keys, max);
        k->panel_count(t.x, t.keys, count);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            float expected = lane % 3 ? -INFINITY : 3;
            float expected_count = 0;
            for (size_t j = 0; j < t.keys; j++) {
                float x = t.x[j * k->lanes + lane];
                expected = x > expected ? x : expected;
                expected_count += x != -INFINITY;
            }
            CHECK(max[lane] == expected);
            CHECK(count[lane] == expected_count);
        }
        guarded_free(max);
        guarded_free(count);
        tile_free(&t);
    }
}

/* The first of equal entries counts; NaN shows in the largest. */
static void check_extremes(const tile *t, size_t lane, const panel_extremes *found) {
    size_t lanes = whet_kernels_get()->lanes, place = 0;
    float least = INFINITY, most = -INFINITY;
    bool is_nan = false;
    for (size_t j = 0; j < t->keys; j++) {
        float x = t->x[j * lanes + lane];
        least = x != -INFINITY && x < least ? x : least;
        place = x > most ? j : place;
        most = x > most ? x : most;
        is_nan = is_nan || isnan(x);
    }
    if (is_nan) {
        CHECK(isnan(found->most[lane]));
        return;
    }
    CHECK(found->least[lane] == least && found->most[lane] == most);
    CHECK(most == -INFINITY || found->place[lane] == (float)place);
}

TEST(extremes_are_found_lane_by_lane) {
    struct rng rng = rng_seeded(17);
    const kernels *k = whet_kernels_get();
    const size_t lanes = k->lanes;
    REQUIRE(lanes > 0);
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        tile t = tile_new(&rng, key_counts[i]);
        for (size_t at = 0; at < t.keys * lanes; at++) {
            size_t lane = at % lanes;
            t.x[at] = rng_bits(&rng) % 4 == 0 || lane == 1 ? -INFINITY : nearbyintf(3 * t.x[at]);
            t.x[at] = lane == 2 && at / lanes == t.keys / 2 ? NAN : t.x[at];
            t.x[at] = lane == 0 && at / lanes == t.keys / 3 ? INFINITY : t.x[at];
        }
        panel_extremes found;
        k->panel_extremes(t.x, t.keys, &found);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            check_extremes(&t, lane, &found);
        }
        tile_free(&t);
    }
}

TEST(limits_mask_keys_on_both_sides) {
    struct rng rng = rng_seeded(8);
    const kernels *k = whet_kernels_get();
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        size_t keys = key_counts[i];
        float *x = new_normal(&rng, keys * k->lanes, 1);
        float *before = new_floats(keys * k->lanes);
        float *low = new_floats(k->lanes);
        float *high = new_floats(k->lanes);
        x[0] = NAN; /* what is masked may be anything */
        memcpy(before, x, keys * k->lanes * sizeof(float));
        for (size_t lane = 0; lane < k->lanes; lane++) {
            low[lane] = (float)rng_integer(&rng, 0, (int64_t)keys);
            high[lane] = (float)rng_integer(&rng, 0, (int64_t)keys);
        }
        k->panel_limit(x, keys, low, high);
        size_t wrong = 0;
        for (size_t at = 0; at < keys * k->lanes; at++) {
            size_t key = at / k->lanes;
            float j = (float)key;
            bool inside = low[at % k->lanes] <= j && j < high[at % k->lanes];
            bool same = same_bytes(&x[at], &before[at], sizeof(float));
            wrong += inside ? !same : x[at] != -INFINITY;
        }
        CHECK_MSG(wrong == 0, "%zu of %zu keys", wrong, keys);
        guarded_free(x);
        guarded_free(before);
        guarded_free(low);
        guarded_free(high);
    }
}

TEST(alibi_subtracts_slope_times_distance) {
    struct rng rng = rng_seeded(9);
    const kernels *k = whet_kernels_get();
    for (size_t i = 0; i < KEY_COUNTS; i++) {
        size_t keys = key_counts[i];
        float *x = new_normal(&rng, keys * k->lanes, 1);
        float *before = new_floats(keys * k->lanes);
        float *slope = new_floats(k->lanes);
        float *position = new_floats(k->lanes);
        memcpy(before, x, keys * k->lanes * sizeof(float));
        rng_fill_uniform(&rng, slope, k->lanes, 0, 1);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            position[lane] = (float)rng_integer(&rng, -200, 200);
        }
        k->panel_alibi(x, keys, slope, position);
        size_t wrong = 0;
        for (size_t at = 0; at < keys * k->lanes; at++) {
            size_t key = at / k->lanes;
            double distance = fabs((double)position[at % k->lanes] - (double)key);
            double term = (double)slope[at % k->lanes] * distance;
            double expected = (double)before[at] - term;
            double bound = 2 * 0x1p-24 * (fabs(expected) + term);
            wrong += !(fabs((double)x[at] - expected) <= bound);
        }
        CHECK_MSG(wrong == 0, "%zu of %zu keys", wrong, keys);
        guarded_free(x);
        guarded_free(before);
        guarded_free(slope);
        guarded_free(position);
    }
}

/* ---- the backward pass ---- */

static void check_outer(struct rng *rng, size_t panels, size_t strips, size_t padding) {
    const kernels *k = whet_kernels_get();
    size_t lanes = k->lanes, columns = k->outer_columns, keys = strips * k->outer_keys;
    size_t stride = keys * lanes + padding;
    size_t size = panels && strips ? (panels - 1) * stride + keys * lanes : 0;
    float *weights = new_normal(rng, size, 1);
    float *rows = new_normal(rng, panels * lanes * columns, 1);
    float *sums = new_normal(rng, keys * columns, 1);
    float *before = new_floats(keys * columns);
    memcpy(before, sums, keys * columns * sizeof *sums);
    k->outer(weights, stride, panels, strips, rows, sums);
    size_t wrong = 0;
    for (size_t i = 0; i < keys * columns; i++) {
        double sum = (double)before[i];
        double sizes = fabs(sum);
        for (size_t row = 0; row < panels * lanes; row++) {
            double a = (double)weights[row / lanes * stride + i / columns * lanes + row % lanes];
            double b = (double)rows[row * columns + i % columns];
            sum += a * b;
            sizes += fabs(a * b);
        }
        wrong += !(fabs((double)sums[i] - sum) <= product_bound(panels * lanes, sizes));
    }
    CHECK_MSG(wrong == 0, "%zu wrong: %zu panels, %zu strips", wrong, panels, strips);
    guarded_free(weights);
    guarded_free(rows);
    guarded_free(sums);
    guarded_free(before);
}

TEST(outer_adds_products_over_the_rows_of_all_panels) {
    struct rng rng = rng_seeded(21);
    CHECK(192 % whet_kernels_get()->outer_keys == 0); /* the keys of a block */
    CHECK(whet_kernels_get()->outer_columns <= OUTER_COLUMNS_MAX);
    for (size_t panels = 0; panels <= 10; panels++) {
        for (size_t strips = 0; strips <= 3; strips++) {
            check_outer(&rng, panels, strips, panels % 2 * 5);
        }
    }
    check_outer(&rng, 40, 2, 0);
}

TEST(gradient_sums_weigh_gradients_and_pass_over_masked_ones) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(22);
    for (size_t n = 0; n < KEY_COUNTS; n++) {
        size_t keys = key_counts[n];
        tile t = tile_new(&rng, keys);
        float *g = new_normal(&rng, keys * k->lanes, 1);
        float *base = new_normal(&rng, k->lanes, 3);
        float *sums[4];
        for (size_t i = 0; i < 4; i++) {
            sums[i] = new_floats(k->lanes);
        }
        for (size_t i = 0; i < keys * k->lanes; i++) {
            g[i] = t.x[i] == -INFINITY ? NAN : g[i];
        }
        k->panel_gradient_sums(t.x, g, keys, t.max, t.exp2_scale, base, sums[0], sums[1], sums[2],
                               sums[3]);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            double right[4] = {0}, sizes[4] = {0};
            for (size_t j = 0; j < keys; j++) {
                double d;
                double e = exponential_at(&t, j, lane, &d);
                double grad = (double)g[j * k->lanes + lane] - (double)base[lane];
                double bound = exponential_bound(&t, lane, d);
                double terms[4] = {e, e * d, e * grad, e * d * grad};
                for (size_t i = 0; e > 0 && i < 4; i++) {
                    right[i] += terms[i];
                    sizes[i] += fabs(terms[i]) * bound;
                }
            }
            for (size_t i = 0; i < 4; i++) {
                check_sum("gradient sum", sums[i][lane], right[i], sizes[i] + 1e-30);
            }
        }
        for (size_t i = 0; i < 4; i++) {
            guarded_free(sums[i]);
        }
        guarded_free(g);
        guarded_free(base);
        tile_free(&t);
    }
}

TEST(peaks_are_the_first_largest_logits_with_their_gradients) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(25);
    for (size_t n = 0; n < KEY_COUNTS; n++) {
        size_t keys = key_counts[n], wrong = 0;
        tile t = tile_new(&rng, keys);
        float *g = new_normal(&rng, keys * k->lanes, 1);
        float *max = new_floats(k->lanes), *grad = new_floats(k->lanes);
        for (size_t i = 0; i < keys * k->lanes; i++) {
            g[i] = t.x[i] == -INFINITY ? NAN : g[i];
            t.x[i] = i % 29 == 3 ? NAN : roundf(t.x[i]); /* so that some are equal */
        }
        for (size_t lane = 0; lane < k->lanes; lane++) {
            max[lane] = lane % 3 ? -INFINITY : 0;
            grad[lane] = (float)lane;
        }
        k->panel_peak(t.x, g, keys, max, grad);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            float right = lane % 3 ? -INFINITY : 0, right_grad = (float)lane;
            for (size_t i = lane; i < keys * k->lanes; i += k->lanes) {
                right_grad = t.x[i] > right ? g[i] : right_grad;
                right = t.x[i] > right ? t.x[i] : right;
            }
            wrong += max[lane] != right || grad[lane] != right_grad;
        }
        CHECK_MSG(wrong == 0, "%zu lanes wrong of %zu keys", wrong, keys);
        guarded_free(g);
        guarded_free(max);
        guarded_free(grad);
        tile_free(&t);
    }
}

TEST(gradients_lead_back_to_logits_and_masked_ones_are_zero) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(23);
    for (size_t n = 0; n < 2 * KEY_COUNTS; n++) {
        size_t keys = key_counts[n / 2];
        tile t = tile_new(&rng, keys);
        float *g = new_normal(&rng, keys * k->lanes, 1);
        float *weights = new_floats(keys * k->lanes), *logit_grads = new_floats(keys * k->lanes);
        panel_backward to_logits = {.moves = n % 2 != 0};
        for (size_t lane = 0; lane < k->lanes; lane++) {
            to_logits.max[lane] = t.max[lane];
            to_logits.exp2_scale[lane] = t.exp2_scale[lane];
            to_logits.exp2_scale0[lane] = t.exp2_scale[lane] * 0.75f;
            to_logits.factor[lane] = (float)rng_uniform(&rng, 0.1, 1);
            to_logits.base[lane] = (float)rng_normal(&rng, 0, 1);
            to_logits.mean[lane] = (float)rng_normal(&rng, 0, 1);
            to_logits.beta[lane] = (float)rng_uniform(&rng, 0.5, 2);
            to_logits.through_beta[lane] = lane == 1 ? NAN : (float)rng_normal(&rng, 0, 1);
            to_logits.mean0[lane] = (float)rng_normal(&rng, -1, 1);
        }
        memcpy(weights, t.x, keys * k->lanes * sizeof *weights);
        memcpy(logit_grads, g, keys * k->lanes * sizeof *logit_grads);
        k->panel_gradients(weights, logit_grads, keys, &to_logits);
        size_t wrong = 0;
        for (size_t i = 0; i < keys * k->lanes; i++) {
            size_t lane = i % k->lanes;
            double d;
            double e = exponential_at(&t, i / k->lanes, lane, &d);
            if (t.x[i] == -INFINITY) {
                wrong += weights[i] != 0 || logit_grads[i] != 0;
                continue;
            }
            double p = e * (double)to_logits.factor[lane];
            double first =
                p * (double)to_logits.beta[lane] *
                ((double)g[i] - (double)to_logits.base[lane] - (double)to_logits.mean[lane]);
            double second = (double)to_logits.through_beta[lane] *
                            exp2((double)to_logits.exp2_scale0[lane] * d) *
                            (d - (double)to_logits.mean0[lane]);
            double right = to_logits.moves ? first - second : first;
            double bound = exponential_bound(&t, lane, d);
            double size = p * 8 + fabs(first) + (to_logits.moves ? 8 * fabs(second) : 0);
            wrong += !(fabs((double)weights[i] - p) <= bound * p + 1e-30);
            bool near = fabs((double)logit_grads[i] - right) <= bound * size + 1e-30;
            wrong += !(isnan(right) ? isnan(logit_grads[i]) != 0 : near);
        }
        CHECK_MSG(wrong == 0, "%zu wrong of %zu keys, moves %d", wrong, keys, to_logits.moves);
        guarded_free(g);
        guarded_free(weights);
        guarded_free(logit_grads);
        tile_free(&t);
    }
}

TEST(distances_are_weighed_and_chains_leave_zero_alone) {
    const kernels *k = whet_kernels_get();
    struct rng rng = rng_seeded(24);
    for (size_t n = 0; n < KEY_COUNTS; n++) {
        size_t keys = key_counts[n], count = keys * k->lanes, wrong = 0;
        float *x = new_normal(&rng, count, 1), *derivatives = new_normal(&rng, count, 1);
        float *before = new_floats(count);
        float *position = new_floats(k->lanes), *sums = new_floats(k->lanes);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            position[lane] = (float)rng_integer(&rng, -5, 140);
        }
        k->panel_distances(x, keys, position, sums);
        for (size_t lane = 0; lane < k->lanes; lane++) {
            double right = 0, sizes = 0;
            for (size_t j = 0; j < keys; j++) {
                double term =
                    (double)x[j * k->lanes + lane] * fabs((double)position[lane] - (double)j);
                right += term;
                sizes += fabs(term);
            }
            check_sum("distances", sums[lane], right, product_bound(keys, sizes));
        }
        for (size_t i = 0; i < count; i += 3) {
            x[i] = 0;
            derivatives[i] = NAN;
        }
        memcpy(before, x, count * sizeof *x);
        k->panel_chain(x, derivatives, keys);
        for (size_t i = 0; i < count; i++) {
            wrong += x[i] != (before[i] == 0 ? 0 : before[i] * derivatives[i]);
        }
        CHECK_MSG(wrong == 0, "%zu wrong of %zu keys", wrong, keys);
        guarded_free(x);
        guarded_free(derivatives);
        guarded_free(before);
        guarded_free(position);
        guarded_free(sums);
    }
}
