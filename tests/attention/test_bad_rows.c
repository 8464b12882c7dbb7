/*
 * NaN and +inf among the logits, wherever they come from: q, a key that is
 * seen, the mask, a sink, an overflow. Such a row is NaN and reported, the first
 * of them by its index, and all others are right.
 */
#include "attention/example.h"
#include "support/check.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>

static const size_t some_queries[] = {1, 3, 16, 17, 70};
#define SOME_QUERIES (sizeof some_queries / sizeof some_queries[0])

static const char *const policies[] = {"softmax", "fixed:2", "adaptive", "target:1.5", "length:9"};
#define POLICY_COUNT (sizeof policies / sizeof policies[0])

static const float bad[] = {NAN, INFINITY, -INFINITY};

static example example_of(size_t queries, size_t seed) {
    example_shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 20, .keys = 140};
    shape.queries = queries;
    shape.seed = seed;
    return example_new(shape);
}

static void check_policies(example *e, const char *what) {
    for (size_t p = 0; p < POLICY_COUNT; p++) {
        example_policy(e, policies[p]);
        example_check(e, what);
    }
}

TEST(a_bad_query_spoils_its_own_row) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_of(some_queries[i], i);
        /* NaN only: inf times keys of both signs is inf - inf or not, as it happens */
        example_set(&e.q, 0, 2, some_queries[i] / 2, 7, NAN);
        check_policies(&e, "one bad query");
        example_set(&e.q, 1, 0, some_queries[i] - 1, 0, NAN);
        example_set(&e.q, 0, 1, 0, 19, NAN);
        check_policies(&e, "three bad queries");
        example_free(&e);
    }
}

/* Not only near enough: to the bit. */
TEST(a_bad_query_changes_nothing_about_the_rows_beside_it) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t p = 0; p < POLICY_COUNT; p++) {
            example e = example_of(some_queries[i], i);
            size_t rows = 2 * 4 * some_queries[i], spoilt_row = 2 * some_queries[i] - 1;
            float *clean = example_memory(&e, rows * 20 * sizeof(float));
            float *spoilt = example_memory(&e, rows * 20 * sizeof(float));
            example_policy(&e, policies[p]);
            e.attention.out.data = clean;
            CHECK_INT(whet_attention_forward(&e.attention, NULL, NULL), WHET_OK);
            example_set(&e.q, 0, 1, some_queries[i] - 1, 7, NAN);
            e.attention.out.data = spoilt;
            CHECK_INT(whet_attention_forward(&e.attention, NULL, NULL), WHET_NOT_FINITE);
            size_t wrong = 0;
            for (size_t at = 0; at < rows * 20; at++)
                if (at / 20 == spoilt_row ? !isnan(spoilt[at]) : spoilt[at] != clean[at])
                    wrong++;
            CHECK_MSG(wrong == 0, "%s, %zu queries: %zu wrong", policies[p], some_queries[i],
                      wrong);
            example_free(&e);
        }
    }
}

TEST(a_bad_key_spoils_all_rows_that_see_it) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_of(some_queries[i], i);
        example_set(&e.k, 1, 1, 130, 3, NAN);
        check_policies(&e, "a bad key");
        e.attention.flags = WHET_CAUSAL;
        e.attention.offset = 128;
        check_policies(&e, "a bad key of some");
        example_free(&e);
    }
}

TEST(infinite_keys_give_infinite_logits) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t b = 1; b < 3; b++) {
            example e = example_of(some_queries[i], i);
            /* one element, so that its logit is inf, or -inf and masked, by the query's sign */
            example_set(&e.k, 0, 0, 5, 3, bad[b]);
            check_policies(&e, "an infinite key");
            example_free(&e);
        }
    }
}

TEST(a_bad_mask_spoils_the_rows_it_is_for) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t b = 0; b < 2; b++) {
            example e = example_of(some_queries[i], i);
            float *mask = example_mask(&e, MASK_QUERIES | MASK_HEADS, WHET_F32, 0);
            size_t row = some_queries[i] + some_queries[i] / 2; /* of the second head */
            mask[row * 140 + 77] = bad[b];
            check_policies(&e, "a bad mask");
            /* where the row does not look, it does no harm */
            e.attention.flags = WHET_CAUSAL;
            e.attention.offset = 2;
            check_policies(&e, "a bad mask, mostly out of sight");
            example_free(&e);
        }
    }
}

TEST(a_bad_sink_spoils_its_head) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t b = 0; b < 2; b++) {
            example e = example_of(some_queries[i], i);
            example_sinks(&e)[1] = bad[b];
            check_policies(&e, "a bad sink");
            example_free(&e);
        }
    }
}

TEST(bad_rows_among_masked_ones_are_told_apart) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        size_t queries = some_queries[i];
        example e = example_of(queries, i);
        float *mask = example_memory(&e, queries * 140 * sizeof *mask);
        for (size_t at = 0; at < queries * 140; at++) {
            /* rows in turn: all masked; one NaN, the others masked; all seen */
            size_t kind = at / 140 % 3;
            mask[at] = kind == 2 ? 0 : -INFINITY;
            mask[at] = kind == 1 && at % 140 == 139 ? NAN : mask[at];
        }
        e.attention.mask = (whet_mask){.data = mask, .type = WHET_F32};
        e.attention.mask.stride[2] = 140 * sizeof(float);
        check_policies(&e, "bad, empty and good rows in turn");
        example_free(&e);
    }
}

TEST(products_that_overflow_are_not_finite) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example_shape shape = {.queries = some_queries[i], .keys = 30, .head_dim = 4, .seed = i};
        example e = example_new(shape);
        example_set_row(&e.q, 0, 0, 0, 1e30f);
        example_set_row(&e.k, 0, 0, 11, 1e30f);
        float *out = example_memory(&e, some_queries[i] * 4 * sizeof *out);
        e.attention.out.data = out;
        uint64_t first_bad_row = 99;
        CHECK_INT(whet_attention_forward(&e.attention, NULL, &first_bad_row), WHET_NOT_FINITE);
        CHECK_INT(first_bad_row, 0);
        CHECK(isnan(out[0]) && isnan(out[3]));
        example_free(&e);
    }
}

TEST(the_first_bad_row_may_go_unasked) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_of(some_queries[i], i);
        example_set(&e.q, 1, 2, 0, 0, NAN);
        float *out = example_memory(&e, 2 * 4 * some_queries[i] * 20 * sizeof *out);
        e.attention.out.data = out;
        CHECK_INT(whet_attention_forward(&e.attention, NULL, NULL), WHET_NOT_FINITE);
        example_free(&e);
    }
}
