/*
 * Policies that follow the query's position (llama4): rows and attention take it from the
 * description, whatever the number of keys that a query sees, and their results are those of the
 * same betas given by the caller. And element types by name.
 */
#include "support/check.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <string.h>

enum { ROWS = 7, N_MAX = 5000, QUERIES = 70, KEYS = 120, DIM = 8, HEADS = 2 };

static float logits[ROWS * N_MAX], results[ROWS * N_MAX], expected[N_MAX];
static float q[HEADS * QUERIES * DIM], k[KEYS * DIM], v[KEYS * DIM];
static float out[HEADS * QUERIES * DIM], right[HEADS * QUERIES * DIM], betas[HEADS * QUERIES];

static double beta_at(int64_t position, double s, double n0, double offset) {
    double steps = floor(((double)position + offset) / n0);
    return 1 + s * log(1 + fmax(0, steps));
}

static whet_policy policy_named(const char *name) {
    whet_policy policy;
    char message[200];
    REQUIRE(whet_policy_parse(name, &policy, message, sizeof message) == WHET_OK);
    return policy;
}

TEST(names_have_the_defaults_of_llama_4) {
    whet_stats stats = {.n = 10, .position = 81919};
    whet_policy policy = policy_named("llama4");
    CHECK_NEAR(whet_policy_beta(&policy, &stats), beta_at(81919, 0.1, 8192, 1), 1e-15);
    CHECK_NEAR(whet_policy_beta(&policy, &stats), 1 + 0.1 * log(11), 1e-15);
    policy = policy_named("llama4:0.1:8192:0");
    CHECK_NEAR(whet_policy_beta(&policy, &stats), 1 + 0.1 * log(10), 1e-15);
    stats.position = -20000;
    CHECK_NEAR(whet_policy_beta(&policy, &stats), 1, 0);
    policy = policy_named("llama4:0.25:16:3:strength=0.5+topk:4");
    stats.position = 100;
    CHECK_NEAR(whet_policy_beta(&policy, &stats), 1 + 0.5 * 0.25 * log(1 + 6), 1e-15);
}

static void check_rows(size_t n, bool with_stats) {
    whet_policy policy = policy_named("llama4:0.5:4:1");
    whet_stats stats[ROWS], own = {0};
    whet_rows rows = {.size = sizeof rows,
                      .rows = ROWS,
                      .n = n,
                      .in = logits,
                      .out = results,
                      .stats = with_stats ? stats : NULL,
                      .position = 2,
                      .position_stride = 5};
    CHECK_INT(whet_softmax(&rows, &policy, NULL), WHET_OK);
    for (size_t r = 0; r < ROWS; r++) {
        int64_t position = 2 + 5 * (int64_t)r;
        whet_policy fixed = whet_policy_fixed(beta_at(position, 0.5, 4, 1));
        whet_rows one = {.size = sizeof one,
                         .rows = 1,
                         .n = n,
                         .in = logits + r * n,
                         .out = expected,
                         .stats = with_stats ? &own : NULL};
        CHECK_INT(whet_softmax(&one, &fixed, NULL), WHET_OK);
        CHECK_MSG(memcmp(expected, results + r * n, n * sizeof(float)) == 0, "n = %zu, row %zu", n,
                  r);
        if (with_stats) {
            CHECK_NEAR(stats[r].beta, fixed.value[0], 1e-15);
            CHECK_INT(stats[r].position, position);
        }
    }
}

TEST(rows_take_their_positions) {
    struct rng rng = rng_seeded(1);
    const size_t sizes[] = {1, 5, 33, 57, 1000, 4097};
    rng_fill_normal(&rng, logits, ROWS * N_MAX, 0, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_rows(sizes[i], false);
        check_rows(sizes[i], true);
    }
}

/* With more queries than decode takes, and with one. */
static void check_attention(size_t queries, const char *name, const char *map) {
    whet_policy policy = policy_named(name), plain = policy_named(map);
    const int64_t offset = 45;
    for (size_t h = 0; h < HEADS; h++) {
        for (size_t i = 0; i < queries; i++) {
            betas[h * queries + i] = (float)beta_at((int64_t)i + offset, 0.5, 8, 0);
        }
    }
    whet_attention attention = {.size = sizeof attention,
                                .heads = HEADS,
                                .kv_heads = 1,
                                .queries = queries,
                                .keys = KEYS,
                                .head_dim = DIM,
                                .q = {.data = q},
                                .k = {.data = k},
                                .v = {.data = v},
                                .out = {.data = out},
                                .flags = WHET_CAUSAL,
                                .offset = offset,
                                .window = 30,
                                .policies = &policy};
    CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_OK);
    attention.policies = &plain;
    attention.betas = betas;
    attention.out.data = right;
    CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_OK);
    for (size_t i = 0; i < HEADS * queries * DIM; i++) {
        CHECK_MSG(fabsf(out[i] - right[i]) <= 4e-6f, "%s, %zu queries: %g, not %g", name, queries,
                  (double)out[i], (double)right[i]);
    }
}

TEST(attention_takes_the_position_and_not_the_number_of_keys) {
    struct rng rng = rng_seeded(2);
    rng_fill_normal(&rng, q, HEADS * QUERIES * DIM, 0, 1);
    rng_fill_normal(&rng, k, KEYS * DIM, 0, 1);
    rng_fill_normal(&rng, v, KEYS * DIM, 0, 1);
    const size_t queries[] = {1, 3, QUERIES};
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        check_attention(queries[i], "llama4:0.5:8:0", "softmax");
        check_attention(queries[i], "llama4:0.5:8:0+softmax1", "softmax1");
        check_attention(queries[i], "llama4:0.5:8:0+entmax15", "entmax15");
        check_attention(queries[i], "llama4:0.5:8:0+sigmoid", "sigmoid");
    }
}

/* Positions of tokens are what policies go by; limits go by the offset. */
TEST(attention_takes_positions_of_tokens_where_they_are_given) {
    struct rng rng = rng_seeded(3);
    rng_fill_normal(&rng, q, HEADS * QUERIES * DIM, 0, 1);
    rng_fill_normal(&rng, k, KEYS * DIM, 0, 1);
    rng_fill_normal(&rng, v, KEYS * DIM, 0, 1);
    whet_policy policy = policy_named("llama4:0.5:8:0");
    static int64_t positions[QUERIES];
    static whet_stats stats[HEADS * QUERIES];
    for (size_t queries = 1; queries <= QUERIES; queries += QUERIES - 1) {
        whet_attention attention = {.size = sizeof attention,
                                    .heads = HEADS,
                                    .kv_heads = 1,
                                    .queries = queries,
                                    .keys = KEYS,
                                    .head_dim = DIM,
                                    .q = {.data = q},
                                    .k = {.data = k},
                                    .v = {.data = v},
                                    .out = {.data = out},
                                    .flags = WHET_CAUSAL,
                                    .offset = 45,
                                    .policies = &policy,
                                    .positions = positions,
                                    .stats = stats};
        for (size_t i = 0; i < queries; i++) {
            positions[i] = 1000 - 7 * (int64_t)i;
        }
        CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_OK);
        for (size_t row = 0; row < HEADS * queries; row++) {
            int64_t position = positions[row % queries];
            CHECK_INT(stats[row].position, position);
            CHECK_NEAR(stats[row].beta, beta_at(position, 0.5, 8, 0), 1e-15);
            CHECK_INT(stats[row].n, 46 + row % queries);
            betas[row] = (float)stats[row].beta;
        }
        whet_policy plain = policy_named("softmax");
        attention.policies = &plain;
        attention.betas = betas;
        attention.positions = NULL;
        attention.stats = NULL;
        attention.out.data = right;
        CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_OK);
        for (size_t i = 0; i < HEADS * queries * DIM; i++) {
            CHECK_MSG(fabsf(out[i] - right[i]) <= 4e-6f, "%zu queries: %g, not %g", queries,
                      (double)out[i], (double)right[i]);
        }
        attention.positions = (const int64_t *)(const void *)((const char *)positions + 4);
        CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_ERROR_ARGUMENT);
        attention.positions = (const int64_t *)(const void *)right; /* which is written to */
        CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_ERROR_OVERLAP);
    }
}

TEST(types_have_names_and_sizes) {
    whet_type type = WHET_F32;
    CHECK_STR(whet_type_name(WHET_Q4_0), "q4_0");
    CHECK_STR(whet_type_name(WHET_IQ4_NL), "iq4_nl");
    CHECK_INT(whet_type_parse("q5_1", &type), WHET_OK);
    CHECK_INT(type, WHET_Q5_1);
    CHECK_INT(whet_type_row_bytes(WHET_Q4_1, 64), 40);
    CHECK_INT(whet_type_row_bytes(WHET_Q5_0, 64), 44);
    CHECK(whet_type_name((whet_type)77) == NULL);
    CHECK_INT(whet_type_parse("bf16", &type), WHET_OK);
    CHECK_INT(type, WHET_BF16);
    CHECK_INT(whet_type_parse("custom", &type), WHET_OK);
    CHECK_INT(type, WHET_CUSTOM);
    CHECK_INT(whet_type_parse("unknown", &type), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_type_parse(NULL, &type), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_type_row_bytes(WHET_Q8_0, 64), 68);
    CHECK_INT(whet_type_row_bytes(WHET_F16, 5), 10);
    CHECK_INT(whet_type_row_bytes(WHET_CUSTOM, 64), 0);
}
