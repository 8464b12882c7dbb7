/*
 * Every temperature in attention, for all heads and one to each, with and
 * without strength, by function and from the caller, against the reference.
 */
#include "attention/example.h"
#include "support/check.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t some_queries[] = {1, 4, 16, 17, 70};
#define SOME_QUERIES (sizeof some_queries / sizeof some_queries[0])

static const char *const temperatures[] = {
    "softmax",
    "fixed:0.5",
    "fixed:2",
    "adaptive",
    "adaptive:hold",
    "adaptive:strength=0.5",
    "adaptive:hold:strength=1.5",
    "poly:0.05/0.1/0.8:threshold=1:floor=0.7",
    "poly:-0.02/0.3/1:hold=3",
    "exp:4",
    "exp:3.5:strength=0.4",
    "target:2",
    "target:1:cap=2",
    "target:3:strength=0.6",
    "ssmax:0.4",
    "ssmax:0.2:0.3",
    "length:16",
    "linear:50:strength=0.2",
};
#define TEMPERATURE_COUNT (sizeof temperatures / sizeof temperatures[0])

static example example_of(size_t queries, size_t keys, size_t seed) {
    example_shape shape = {.queries = queries, .keys = keys, .head_dim = 32, .seed = seed};
    shape.heads = 2;
    shape.kv_heads = 1;
    return example_new(shape);
}

TEST(every_temperature_agrees_with_the_reference) {
    for (size_t t = 0; t < TEMPERATURE_COUNT; t++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            char what[100];
            snprintf(what, sizeof what, "%s, %zu queries", temperatures[t], some_queries[i]);
            example e = example_of(some_queries[i], 290, 100 * t + i);
            e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
            e.attention.offset = 220;
            example_policy(&e, temperatures[t]);
            example_check(&e, what);
            example_sinks(&e);
            example_check(&e, what);
            example_free(&e);
        }
    }
    example_print_worst();
}

/* Every policy of the table, so that a new one is not forgotten; topk and hardmax jump where the
 * reference's logits are not ours to the last bit, and have exact ones in test_maps.c. */
TEST(every_policy_of_the_table_agrees) {
    const whet_policy_info *info;
    for (size_t entry = 0; (info = whet_policy_table(entry)); entry++) {
        for (size_t i = 1; i < SOME_QUERIES; i += 3) {
            example e = example_of(some_queries[i], 100, entry);
            example_policy(&e, info->example);
            example_check(&e, info->example);
            example_free(&e);
        }
    }
    example_print_worst();
}

/* Policies that look twice keep the logits where they fit, and compute longer ones again. */
TEST(rows_too_long_to_be_kept_agree_with_the_reference) {
    if (strcmp(whet_isa(), "scalar") == 0) {
        SKIP("its panels are narrow: it would take millions of keys");
    }
    /* as many heads on one key head as make a panel; one looks more than twice */
    const char *names[18];
    for (size_t h = 0; h < 18; h++) {
        names[h] = h == 7 ? "target:3" : "adaptive:hold";
    }
    example_shape shape = {.heads = 18, .kv_heads = 1, .queries = 1, .keys = 300000};
    shape.head_dim = 3;
    example e = example_new(shape);
    example_policies(&e, names, 18);
    example_check(&e, "300,000 keys");
    example_free(&e);
    example_print_worst();
}

TEST(long_rows_agree_with_the_reference) {
    static const char *const names[] = {"adaptive", "target:4", "exp:7", "length:100"};
    for (size_t p = 0; p < 4; p++) {
        example e = example_of(1, 5000, p);
        example_policy(&e, names[p]);
        example_check(&e, names[p]);
        example_free(&e);
        e = example_of(18, 3000, p);
        example_policy(&e, names[p]);
        example_check(&e, names[p]);
        example_free(&e);
    }
    example_print_worst();
}

TEST(every_head_has_its_own_policy) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example_shape shape = {.batch = 2, .heads = TEMPERATURE_COUNT, .head_dim = 16, .keys = 150};
        shape.kv_heads = i % 2 ? 3 : TEMPERATURE_COUNT / 2;
        shape.queries = some_queries[i] > 20 ? 20 : some_queries[i];
        shape.seed = i;
        example e = example_new(shape);
        example_policies(&e, temperatures, TEMPERATURE_COUNT);
        example_check(&e, "one policy a head");
        example_sinks(&e);
        example_mask(&e, MASK_QUERIES, WHET_F16, 0);
        example_check(&e, "one policy a head, mask and sinks");
        example_free(&e);
    }
    example_print_worst();
}

/* Heads whose beta is known beforehand take a shorter way, but not beside others that do not. */
TEST(constant_and_other_policies_may_be_mixed) {
    static const char *const mixes[][3] = {{"softmax", "fixed:2", "softmax"},
                                           {"softmax", "adaptive", "fixed:3"},
                                           {"target:1", "softmax", "softmax"}};
    for (size_t m = 0; m < 3; m++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            example_shape shape = {.heads = 3, .kv_heads = i % 2 ? 3 : 1, .head_dim = 16};
            shape.queries = some_queries[i];
            shape.keys = 200;
            shape.seed = 10 * m + i;
            example e = example_new(shape);
            example_policies(&e, mixes[m], 3);
            example_check(&e, "mixed policies");
            example_free(&e);
        }
    }
    example_print_worst();
}

/* ---- functions of the caller's ---- */

static double own_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    *dbeta_dentropy = *(double *)context;
    return 1 + *(double *)context * stats->entropy + 0.05 * log((double)stats->n) +
           0.01 * stats->max;
}

TEST(a_function_of_the_callers_gives_beta) {
    double slope = 0.3;
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_of(some_queries[i], 200, i);
        whet_policy policies[2] = {whet_policy_custom(own_beta, &slope), whet_policy_adaptive()};
        policies[1] = whet_policy_with_strength(policies[0], 0.5);
        e.attention.policies = policies;
        example_check(&e, "custom");
        e.attention.policy_count = 2;
        example_check(&e, "custom, one a head");
        example_sinks(&e);
        example_check(&e, "custom with sinks");
        example_free(&e);
    }
    example_print_worst();
}

/* NaN for one head: its rows are not finite, the other head's are right. */
static double nan_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    (void)stats;
    (void)context;
    *dbeta_dentropy = 0;
    return (double)NAN;
}

TEST(a_beta_that_is_nan_spoils_its_rows_alone) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        size_t queries = some_queries[i];
        example e = example_of(queries, 50, i);
        whet_policy policies[2] = {whet_policy_softmax(), whet_policy_custom(nan_beta, NULL)};
        float *out = example_memory(&e, 2 * queries * 32 * sizeof *out);
        whet_stats *stats = example_memory(&e, 2 * queries * sizeof *stats);
        e.attention.policies = policies;
        e.attention.policy_count = 2;
        e.attention.out.data = out;
        for (int with_stats = 0; with_stats < 2; with_stats++) {
            uint64_t first_bad_row = 0;
            e.attention.stats = with_stats ? stats : NULL;
            CHECK_INT(whet_attention_forward(&e.attention, NULL, &first_bad_row), WHET_NOT_FINITE);
            CHECK_INT(first_bad_row, queries);
            for (size_t at = 0; at < 2 * queries * 32; at++) {
                CHECK((isnan(out[at]) != 0) == (at >= queries * 32));
            }
        }
        for (size_t row = 0; row < 2 * queries; row++) {
            CHECK_INT(stats[row].flags, row < queries ? 0 : WHET_ROW_NOT_FINITE);
            CHECK_INT(stats[row].n, 50);
        }
        example_free(&e);
    }
}

/* ---- target at its limits ---- */

TEST(targets_that_cannot_be_reached_are_flagged) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_of(some_queries[i], 64, i);
        /* every key twice: entropies below ln 2 cannot be had */
        for (size_t j = 0; j < 32; j++) {
            for (size_t c = 0; c < 32; c++) {
                float value = (float)rng_normal(&e.rng, 0, 1);
                example_set(&e.k, 0, 0, 2 * j, c, value);
                example_set(&e.k, 0, 0, 2 * j + 1, c, value);
            }
        }
        example_policy(&e, "target:0.5");
        example_check(&e, "target below ln 2");
        example_policy(&e, "target:0.3:cap=4");
        example_check(&e, "target beyond the cap");
        example_policy(&e, "target:60");
        example_check(&e, "target above all");
        example_free(&e);
    }
    example_print_worst();
}
