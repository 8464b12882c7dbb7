/*
 * The theory's functions against what they claim, computed another way: bounds
 * against logits that reach them, the Transformer of kinds and counts against
 * one of real tokens through libwhet's attention, slopes against differences.
 */
#include "base/random.h"
#include "support/check.h"
#include "theory/bounds.h"
#include "theory/dispersion.h"
#include "theory/precision.h"
#include "theory/temperature.h"
#include "whet.h"
#include <math.h>
#include <stdlib.h>

TEST(the_reach_of_a_spread_is_attained_and_not_exceeded) {
    const double spreads[] = {0, 1, 4, 8}, masses[] = {0.1, 0.5, 0.9};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                double temperature = ldexp(0.5, k);
                double reach = theory_reach(spreads[i], temperature, masses[j]);
                double own = exp(spreads[i] / temperature);
                /* one item `spread` above all others: the sharpest there is */
                double below = floor(reach), above = below + 1;
                if (below >= 2)
                    CHECK(own / (own + below - 1) >= masses[j] * (1 - 1e-12));
                CHECK(own / (own + above - 1) < masses[j] * (1 + 1e-12));
                if (reach > 2)
                    CHECK_NEAR(theory_spread_needed(reach, temperature, masses[j]), spreads[i],
                               1e-9);
            }
}

TEST(coefficients_of_random_rows_lie_within_the_bounds) {
    lab_random random = lab_random_start(7);
    for (int round = 0; round < 200; round++) {
        size_t n = 2 + lab_random_below(&random, 300);
        double temperature = 0.2 + 3 * lab_random_double(&random);
        double logits[302], low = INFINITY, high = -INFINITY, z = 0;
        for (size_t i = 0; i < n; i++) {
            logits[i] = 3 * lab_random_normal(&random);
            low = fmin(low, logits[i]);
            high = fmax(high, logits[i]);
            z += exp(logits[i] / temperature);
        }
        coefficient_bounds bounds = theory_coefficient_bounds((double)n, high - low, temperature);
        CHECK(exp(low / temperature) / z >= bounds.low * (1 - 1e-12));
        CHECK(exp(high / temperature) / z <= bounds.high * (1 + 1e-12));
    }
}

TEST(the_largest_singular_value_of_known_matrices) {
    const float diagonal[3][4] = {{0, -7, 0, 0}, {2, 0, 0, 0}, {0, 0, 0, 3}};
    CHECK_NEAR(theory_largest_singular_value(&diagonal[0][0], 3, 4), 7, 1e-6);
    const float product[2][3] = {{1, 2, 2}, {2, 4, 4}}; /* (1, 2) times (1, 2, 2) */
    CHECK_NEAR(theory_largest_singular_value(&product[0][0], 2, 3), sqrt(5.0) * 3, 1e-6);
    const float zero[4] = {0};
    CHECK_NEAR(theory_largest_singular_value(zero, 2, 2), 0, 0);
    const float bad[2] = {1, NAN};
    CHECK(isnan(theory_largest_singular_value(bad, 1, 2)));
    CHECK_NEAR(theory_largest_singular_value(NULL, 0, 5), 0, 0);
}

TEST(no_vector_is_stretched_beyond_the_largest_singular_value) {
    enum { ROWS = 33, COLUMNS = 17 };
    lab_random random = lab_random_start(3);
    float matrix[ROWS * COLUMNS];
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        matrix[i] = (float)lab_random_normal(&random);
    double sigma = theory_largest_singular_value(matrix, ROWS, COLUMNS), best = 0;
    for (int round = 0; round < 2000; round++) {
        double x[COLUMNS], squares = 0, stretched = 0;
        for (size_t j = 0; j < COLUMNS; j++) {
            x[j] = lab_random_normal(&random);
            squares += x[j] * x[j];
        }
        for (size_t i = 0; i < ROWS; i++) {
            double sum = 0;
            for (size_t j = 0; j < COLUMNS; j++)
                sum += (double)matrix[i * COLUMNS + j] * x[j];
            stretched += sum * sum;
        }
        best = fmax(best, sqrt(stretched / squares));
    }
    CHECK(best <= sigma);
    CHECK(best > 0.6 * sigma);
}

TEST(the_spread_of_logits_stays_within_its_bound) {
    enum { DIM = 8, INPUT = 5, KEYS = 100 };
    lab_random random = lab_random_start(11);
    float query_map[DIM * INPUT], key_map[DIM * INPUT];
    for (size_t i = 0; i < DIM * INPUT; i++) {
        query_map[i] = (float)lab_random_normal(&random);
        key_map[i] = (float)lab_random_normal(&random);
    }
    double x[INPUT], query[DIM] = {0}, norm = 0, key_norm = 0, low = INFINITY, high = -INFINITY;
    for (size_t j = 0; j < INPUT; j++) {
        x[j] = lab_random_normal(&random);
        norm += x[j] * x[j];
        for (size_t i = 0; i < DIM; i++)
            query[i] += (double)query_map[i * INPUT + j] * x[j];
    }
    for (size_t k = 0; k < KEYS; k++) {
        double logit = 0, squares = 0;
        for (size_t j = 0; j < INPUT; j++) {
            double y = lab_random_normal(&random);
            squares += y * y;
            for (size_t i = 0; i < DIM; i++)
                logit += query[i] * (double)key_map[i * INPUT + j] * y;
        }
        key_norm = fmax(key_norm, sqrt(squares));
        low = fmin(low, logit / sqrt(DIM));
        high = fmax(high, logit / sqrt(DIM));
    }
    double bound = theory_spread_bound(theory_largest_singular_value(query_map, DIM, INPUT),
                                       theory_largest_singular_value(key_map, DIM, INPUT),
                                       sqrt(norm), key_norm, sqrt(DIM));
    CHECK(high - low <= bound);
    CHECK(high - low > 0.05 * bound);
}

TEST(the_slope_of_the_entropy_is_minus_beta_times_the_variance) {
    const double logits[] = {0.3, -2, 1.5, 1.5, 0};
    for (int i = 0; i < 10; i++) {
        double beta = 0.1 * pow(1.7, i);
        entropy_slope at = theory_entropy(logits, 5, beta);
        double difference = (theory_entropy(logits, 5, beta + 1e-5).entropy -
                             theory_entropy(logits, 5, beta - 1e-5).entropy) /
                            2e-5;
        CHECK_NEAR(at.slope, difference, 1e-8);
        CHECK(at.slope <= 0);
    }
}

TEST(the_surface_of_figure_5_is_monotone_and_its_slope_right) {
    enum { POINTS = 31 };
    static double surface[POINTS * POINTS];
    for (size_t i = 0; i < THEORY_PANELS; i++) {
        surface_check check = theory_surface(&theory_panels[i], POINTS, surface);
        CHECK(check.slope_error < 1e-6);
        CHECK(check.largest_slope <= 0);
        CHECK(check.highest <= log(THEORY_SERIES) + 1e-12 && check.lowest >= 0);
        /* temperature rises along the first index, and with it the entropy */
        for (size_t t = 1; t < POINTS; t++)
            for (size_t l = 0; l < POINTS; l++)
                CHECK(surface[t * POINTS + l] >= surface[(t - 1) * POINTS + l] - 1e-12);
    }
}

/* ---- the Transformer, computed on real tokens ---- */

enum { N = 75, HEADS = 2, DIM = 8, WIDTH = HEADS * DIM, KINDS = 7, LAYERS = 2 };

static void times(const float *weights, size_t in, size_t out, float x[][2 * WIDTH],
                  float y[][2 * WIDTH]) {
    for (size_t t = 0; t < N; t++) {
        float result[2 * WIDTH];
        for (size_t i = 0; i < out; i++) {
            double sum = 0;
            for (size_t j = 0; j < in; j++)
                sum += (double)weights[i * in + j] * (double)x[t][j];
            result[i] = (float)sum;
        }
        for (size_t i = 0; i < out; i++)
            y[t][i] = result[i];
    }
}

static void to_unit_mean_square(float x[][2 * WIDTH], float y[][2 * WIDTH]) {
    for (size_t t = 0; t < N; t++) {
        double squares = 0;
        for (size_t i = 0; i < WIDTH; i++)
            squares += (double)x[t][i] * (double)x[t][i];
        for (size_t i = 0; i < WIDTH; i++)
            y[t][i] = (float)((double)x[t][i] / sqrt(squares / WIDTH + 1e-12));
    }
}

static float x[N][2 * WIDTH], y[N][2 * WIDTH], q[N][2 * WIDTH], k[N][2 * WIDTH], v[N][2 * WIDTH],
    mixed[N][2 * WIDTH];

static void token_layer(layer_weights w, whet_stats *stats) {
    ptrdiff_t row = 2 * WIDTH * sizeof(float), head = DIM * sizeof(float);
    to_unit_mean_square(x, y);
    times(w.query, WIDTH, WIDTH, y, q);
    times(w.key, WIDTH, WIDTH, y, k);
    times(w.value, WIDTH, WIDTH, y, v);
    whet_attention attention = {
        .size = sizeof attention,
        .heads = HEADS,
        .queries = N,
        .keys = N,
        .head_dim = DIM,
        .q = {.data = q, .stride = {N * row, head, row, sizeof(float)}},
        .k = {.data = k, .stride = {N * row, head, row, sizeof(float)}},
        .v = {.data = v, .stride = {N * row, head, row, sizeof(float)}},
        .out = {.data = mixed, .stride = {N * row, head, row, sizeof(float)}},
        .stats = stats};
    CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_OK);
    times(w.out, WIDTH, WIDTH, mixed, y);
    for (size_t t = 0; t < N; t++)
        for (size_t i = 0; i < WIDTH; i++)
            x[t][i] += y[t][i];
    to_unit_mean_square(x, y);
    times(w.up, WIDTH, 2 * WIDTH, y, q);
    for (size_t t = 0; t < N; t++)
        for (size_t i = 0; i < 2 * WIDTH; i++)
            q[t][i] = fmaxf(0, q[t][i]);
    times(w.down, 2 * WIDTH, WIDTH, q, y);
    for (size_t t = 0; t < N; t++)
        for (size_t i = 0; i < WIDTH; i++)
            x[t][i] += y[t][i];
}

TEST(kinds_and_counts_give_what_real_tokens_give) {
    transformer_shape shape = {LAYERS, HEADS, DIM, KINDS, 1.5, 5};
    random_transformer *transformer = theory_transformer_create(&shape);
    REQUIRE(transformer != NULL);
    head_dispersion result[LAYERS * HEADS];
    uint64_t counts[KINDS];
    double states[KINDS * WIDTH];
    REQUIRE(theory_transformer_run(transformer, N, result, counts));
    REQUIRE(theory_transformer_states(transformer, N, states));
    CHECK_INT(counts[0], 1);
    size_t kind_of[N] = {0}, token = 0;
    for (size_t kind = 0; kind < KINDS; kind++)
        for (uint64_t i = 0; i < counts[kind]; i++, token++) {
            REQUIRE(token < N);
            kind_of[token] = kind;
            for (size_t c = 0; c < WIDTH; c++)
                x[token][c] = theory_transformer_embedding(transformer)[kind * WIDTH + c];
        }
    CHECK_INT(token, N);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        static whet_stats stats[HEADS][N];
        token_layer(theory_transformer_layer(transformer, layer), &stats[0][0]);
        for (size_t h = 0; h < HEADS; h++) {
            double entropy = 0, largest = 0;
            for (size_t t = 0; t < N; t++) {
                entropy += stats[h][t].entropy / N;
                largest = fmax(largest, stats[h][t].max_prob);
            }
            CHECK_NEAR(result[layer * HEADS + h].entropy, entropy, 1e-4);
            CHECK_NEAR(result[layer * HEADS + h].largest, largest, 1e-4);
            CHECK(result[layer * HEADS + h].low_slack >= 1 - 1e-9);
            CHECK(result[layer * HEADS + h].high_slack >= 1 - 1e-9);
        }
    }
    for (size_t t = 0; t < N; t++)
        for (size_t c = 0; c < WIDTH; c++)
            CHECK_NEAR(x[t][c], states[kind_of[t] * WIDTH + c], 2e-4);
    theory_transformer_destroy(transformer);
}

TEST(every_head_disperses_like_one_over_n) {
    transformer_shape shape = {3, 4, 16, 32, 1, 1};
    random_transformer *transformer = theory_transformer_create(&shape);
    REQUIRE(transformer != NULL);
    head_dispersion small[12], large[12];
    REQUIRE(theory_transformer_run(transformer, 16384, small, NULL));
    REQUIRE(theory_transformer_run(transformer, 65536, large, NULL));
    for (size_t i = 0; i < 12; i++)
        CHECK_NEAR(small[i].largest / large[i].largest, 4, 0.1);
    CHECK(!theory_transformer_run(transformer, 1, small, NULL));
    theory_transformer_destroy(transformer);
    shape.kinds = DISPERSION_KINDS_MAX + 1;
    CHECK(theory_transformer_create(&shape) == NULL);
}

/* ---- rounding ---- */

static float bf16_of(float value) {
    float back;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u;
    memcpy(&back, &bits, sizeof back);
    return back;
}

TEST(numbers_are_rounded_as_the_formats_say) {
    lab_random random = lab_random_start(2);
    for (int i = 0; i < 10000; i++) {
        float value =
            (float)ldexp(lab_random_normal(&random), (int)lab_random_below(&random, 60) - 30);
        CHECK_NEAR(theory_round((double)value, &theory_formats[0]), (double)value, 0);
        CHECK_NEAR(theory_round((double)value, &theory_formats[2]), (double)bf16_of(value), 0);
    }
    CHECK_NEAR(theory_round(2049, &theory_formats[1]), 2048, 0);
    CHECK_NEAR(theory_round(2051, &theory_formats[1]), 2052, 0);
    CHECK_NEAR(theory_round(0x1p-24, &theory_formats[1]), 0x1p-24, 0);
    CHECK_NEAR(theory_round(0x1p-26, &theory_formats[1]), 0, 0);
}

TEST(half_precision_loses_the_item_and_single_precision_keeps_it) {
    enum { POINTS = 16 };
    precision_point points[POINTS];
    theory_precision(1, 1, POINTS, points);
    for (size_t f = 0; f < PRECISION_FORMATS; f++)
        CHECK_NEAR(points[0].telling[f], 1, 0);
    CHECK_NEAR(points[POINTS - 1].telling[0], 1, 0.01);
    CHECK(points[POINTS - 1].telling[1] < 0.5);
    CHECK(points[POINTS - 1].telling[2] < 0.05);
    precision_point made[3] = {{2, 0.5, {1, 1, 1}}, {4, 0.3, {1, 0, 0}}, {8, 0.1, {1, 1, 0}}};
    CHECK_INT(theory_precision_end(made, 3, 0), 0);
    CHECK_INT(theory_precision_end(made, 3, 1), 0);
    CHECK_INT(theory_precision_end(made, 3, 2), 4);
}
