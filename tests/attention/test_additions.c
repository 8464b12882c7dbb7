/*
 * A bias of keys, betas given by the caller, the largest logit of each head, and
 * policies of two parts: over awkward sizes, types, masks and grouped heads, for
 * few queries and many, against the reference; and the same bits from any number
 * of threads. The statistics of every row are compared in all tests of this
 * directory (example.c).
 */
#include "attention/example.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t some_queries[] = {1, 3, 16, 17, 70};
#define SOME_QUERIES (sizeof some_queries / sizeof some_queries[0])

static const char *const maps[] = {"softmax",    "topk:5",        "hardmax", "sparsemax",
                                   "entmax15",   "softmax1",      "sigmoid", "sigmoid:0.5",
                                   "entmax:1.3", "stick-breaking"};
#define MAPS (sizeof maps / sizeof maps[0])

static const char *const both_parts[] = {
    "adaptive+softmax1",        "ssmax:0.3:0.5+entmax15",
    "length:8+topk:5",          "adaptive+sigmoid",
    "target:1+topk:9",          "adaptive+stick-breaking",
    "fixed:2+sigmoid:1",        "target:1.5+entmax:1.3",
    "linear:60+hardmax",        "exp:3+sparsemax",
    "ssmax:0.4+softmax1",       "fixed:0.5+entmax15",
    "adaptive:hold+entmax:1.9", "adaptive:strength=0.5+sigmoid",
};
#define BOTH_PARTS (sizeof both_parts / sizeof both_parts[0])

static example example_of(size_t queries, size_t keys, size_t seed) {
    example_shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 16, .seed = seed};
    shape.queries = queries;
    shape.keys = keys;
    shape.value_dim = 11;
    example e = example_new(shape);
    example_make_exact(&e);
    return e;
}

static float *exact_sinks(example *e) {
    float *sinks = example_sinks(e);
    for (size_t h = 0; h < e->attention.heads; h++) {
        sinks[h] = nearbyintf(4 * sinks[h]) / 4;
    }
    return sinks;
}

/* Everything beside that an example may have, by the bits of `kind`. */
static void decorate(example *e, size_t kind) {
    if (kind & 1) {
        e->attention.flags = WHET_CAUSAL;
        e->attention.offset = (int64_t)(e->attention.keys / 2);
    }
    if (kind & 2) {
        exact_sinks(e);
    }
    if (kind & 4) {
        example_mask(e, kind & 1 ? MASK_QUERIES : MASK_HEADS | MASK_BATCH,
                     kind & 2 ? WHET_F16 : WHET_F32, kind % 3);
    }
    if (kind & 8) {
        e->attention.window = 1 + e->attention.keys / 3;
    }
}

/* ---- a bias of keys ---- */

TEST(a_bias_of_keys_agrees_for_every_map) {
    static const size_t keys[] = {1, 31, 150, 389};
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            char what[100];
            snprintf(what, sizeof what, "bias, %s, %zu queries", maps[m], some_queries[i]);
            example e = example_of(some_queries[i], keys[(m + i) % 4], 10 * m + i);
            decorate(&e, m + 3 * i);
            example_bias(&e, (unsigned)(m + i) % 4, (m + i) % 3 == 0 ? 2 : 0);
            example_policy(&e, maps[m]);
            example_check(&e, what);
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(a_bias_agrees_for_every_type_and_layout_of_the_cache) {
    for (size_t type = 0; type < CACHE_TYPES; type++) {
        for (size_t layout = 0; layout < LAYOUTS; layout++) {
            static const size_t queries[] = {2, 40};
            for (size_t i = 0; i < 2; i++) {
                example_shape shape = {.batch = 1, .heads = 6, .kv_heads = 3, .head_dim = 32};
                shape.queries = queries[i];
                shape.keys = i ? 220 : 1300;
                shape.k_type = shape.v_type = example_cache_types[type];
                shape.layout = (example_layout)layout;
                shape.seed = 10 * type + layout;
                example e = example_new(shape);
                example_bias(&e, MASK_HEADS | MASK_BATCH, layout % 2);
                example_policy(&e, (type + layout) % 2 ? "adaptive" : "softmax");
                example_check(&e, "bias of a cache");
                example_alibi(&e);
                e.attention.softcap = 5;
                example_check(&e, "bias, ALiBi and soft cap");
                example_free(&e);
            }
        }
    }
    example_print_worst();
}

TEST(a_bad_bias_spoils_the_rows_that_see_its_key) {
    static const char *const policies[] = {"softmax", "fixed:2", "adaptive", "sigmoid", "topk:3"};
    static const float bad[] = {NAN, INFINITY};
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t b = 0; b < 2; b++) {
            example e = example_of(some_queries[i], 140, i);
            float *bias = example_bias(&e, MASK_HEADS, 0);
            bias[2 * 140 + 70 + some_queries[i] / 2] = bad[b]; /* of the third head */
            e.attention.flags = WHET_CAUSAL;
            e.attention.offset = 70;
            for (size_t p = 0; p < 5; p++) {
                example_policy(&e, policies[p]);
                example_check(&e, "a bad bias of some rows");
            }
            e.attention.offset = 2; /* nobody sees it, or few do */
            example_policy(&e, "softmax");
            example_check(&e, "a bad bias mostly out of sight");
            example_free(&e);
        }
    }
}

TEST(what_mask_or_bias_hides_may_have_anything_of_the_other) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_of(some_queries[i], 60, i);
        float *bias = example_bias(&e, 0, 0);
        float *mask = example_mask(&e, 0, WHET_F32, 0);
        for (size_t j = 0; j < 60; j++) {
            if (mask[j] == -INFINITY) {
                bias[j] = j % 2 ? NAN : INFINITY;
            } else if (bias[j] == -INFINITY) {
                mask[j] = j % 2 ? NAN : INFINITY;
            }
        }
        for (size_t m = 0; m < MAPS; m++) {
            example_policy(&e, maps[m]);
            example_check(&e, "hidden by one of two");
        }
        example_free(&e);
    }
}

TEST(a_bias_that_hides_every_key_leaves_empty_rows) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t m = 0; m < MAPS; m++) {
            example e = example_of(some_queries[i], 45, i);
            float *bias = example_bias(&e, MASK_HEADS, 0);
            for (size_t j = 0; j < 45; j++) {
                bias[45 + j] = -INFINITY;
            }
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            exact_sinks(&e);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
}

/* ---- betas of the caller's ---- */

TEST(betas_of_the_callers_agree_for_every_map) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            char what[100];
            snprintf(what, sizeof what, "betas, %s, %zu queries", maps[m], some_queries[i]);
            example e = example_of(some_queries[i], i % 2 ? 290 : 77, 10 * m + i);
            decorate(&e, 2 * m + i);
            float *betas = example_betas(&e);
            betas[0] = -2;
            betas[1] = 0;
            betas[2] = -0.0f;
            example_policy(&e, maps[m]);
            example_check(&e, what);
            betas[5] = NAN;
            example_check(&e, what);
            example_free(&e);
        }
    }
    example_print_worst();
}

/* A beta that is not a number, or anything else, is nothing to a row without keys. */
TEST(empty_rows_do_not_look_at_their_betas) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t m = 0; m < MAPS; m++) {
            size_t queries = some_queries[i];
            example e = example_of(queries, 45, i);
            float *mask = example_mask(&e, MASK_QUERIES, WHET_F32, 0);
            float *betas = example_betas(&e);
            for (size_t j = 0; j < 45; j++) {
                mask[queries / 2 * 45 + j] = -INFINITY;
            }
            for (size_t head = 0; head < 2 * 4; head++) {
                betas[head * queries + queries / 2] = NAN;
            }
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            exact_sinks(&e);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
}

/* Outputs and statistics of an example. */
typedef struct results {
    float *out;
    whet_stats *stats;
    float *max_logits;
    size_t rows;
} results;

static results run(example *e, const whet_executor *executor, bool with_stats) {
    results r = {.rows = e->q.extent[0] * e->q.extent[1] * e->q.extent[2]};
    r.out = calloc(r.rows * e->v.extent[3], sizeof *r.out);
    r.stats = calloc(r.rows, sizeof *r.stats);
    r.max_logits = calloc(e->q.extent[1], sizeof *r.max_logits);
    REQUIRE(r.out && r.stats && r.max_logits);
    whet_attention a = e->attention;
    a.out.data = r.out;
    a.stats = with_stats ? r.stats : NULL;
    a.max_logits = r.max_logits;
    whet_status status = whet_attention_forward(&a, executor, NULL);
    CHECK(status == WHET_OK || status == WHET_NOT_FINITE);
    return r;
}

static void results_free(results *r) {
    free(r->out);
    free(r->stats);
    free(r->max_logits);
}

static void check_same(const example *e, const char *what, const results *a, const results *b) {
    size_t columns = e->v.extent[3], heads = e->q.extent[1];
    CHECK_MSG(same_bytes(a->out, b->out, a->rows * columns * sizeof(float)), "%s: outputs", what);
    CHECK_MSG(same_bytes(a->stats, b->stats, a->rows * sizeof(whet_stats)), "%s: statistics", what);
    CHECK_MSG(same_bytes(a->max_logits, b->max_logits, heads * sizeof(float)), "%s: largest logits",
              what);
}

TEST(a_beta_for_all_rows_is_a_fixed_temperature) {
    static const char *const fixed[][2] = {
        {"fixed:0.625", "softmax"},           {"fixed:0.625+softmax1", "softmax1"},
        {"fixed:0.625+sigmoid", "sigmoid"},   {"fixed:0.625+topk:7", "topk:7"},
        {"fixed:0.625+entmax15", "entmax15"}, {"fixed:0.625+stick-breaking", "stick-breaking"},
    };
    for (size_t p = 0; p < 6; p++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            for (int with_stats = 0; with_stats < 2; with_stats++) {
                example e = example_of(some_queries[i], 260, i);
                decorate(&e, p + i);
                example_policy(&e, fixed[p][0]);
                results expected = run(&e, NULL, with_stats);
                example_policy(&e, fixed[p][1]);
                float *betas = example_betas(&e);
                for (size_t row = 0; row < expected.rows; row++) {
                    betas[row] = 0.625f;
                }
                results r = run(&e, NULL, with_stats);
                check_same(&e, fixed[p][0], &r, &expected);
                results_free(&r);
                results_free(&expected);
                example_free(&e);
            }
        }
    }
}

/* ---- the largest logits ---- */

/* Of many equal ones argmax is the first, whichever way the keys are walked. */
TEST(argmax_is_the_first_of_equals) {
    static const char *const policies[] = {"softmax", "adaptive", "stick-breaking", "topk:4",
                                           "fixed:2+stick-breaking"};
    for (size_t p = 0; p < 5; p++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            example e = example_of(some_queries[i], i % 2 ? 1000 : 2900, i);
            size_t wrong = 0;
            example_set_row(&e.q, 0, 0, 0, 0.25f);
            for (size_t j = 5; j < e.attention.keys; j += 190) {
                example_set_row(&e.k, 0, 0, j, 8);
            }
            decorate(&e, 2 * p);
            example_policy(&e, policies[p]);
            results r = run(&e, NULL, true);
            whet_stats *right = calloc(r.rows, sizeof *right);
            double *out = calloc(r.rows * e.v.extent[3], sizeof *out);
            REQUIRE(right && out);
            reference_attention(&e.attention, out, right, NULL);
            for (size_t row = 0; row < r.rows; row++) {
                wrong += r.stats[row].argmax != right[row].argmax;
                wrong += r.stats[row].min != right[row].min;
            }
            CHECK_MSG(wrong == 0, "%s, %zu queries: %zu wrong", policies[p], some_queries[i],
                      wrong);
            free(right);
            free(out);
            results_free(&r);
            example_free(&e);
        }
    }
}

TEST(largest_logits_leave_out_sinks_and_what_is_masked) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_of(some_queries[i], 120, i);
        float *bias = example_bias(&e, MASK_HEADS, 0);
        float *sinks = exact_sinks(&e);
        sinks[0] = 1000;
        sinks[1] = NAN;
        for (size_t j = 0; j < 120; j++) {
            bias[2 * 120 + j] = -INFINITY;
        }
        for (size_t m = 0; m < MAPS; m++) {
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
        }
        example_betas(&e)[0] = NAN; /* spoils a row, but not its logits */
        example_policy(&e, "softmax");
        example_check(&e, "a beta that is not a number");
        example_set(&e.q, 1, 3, some_queries[i] - 1, 2, NAN);
        example_check(&e, "a head with NaN");
        example_free(&e);
    }
}

TEST(without_queries_largest_logits_are_none) {
    float max_logits[3] = {1, 2, 3};
    whet_attention a = {.size = sizeof a, .heads = 3, .head_dim = 4, .max_logits = max_logits};
    CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
    for (size_t h = 0; h < 3; h++) {
        CHECK(max_logits[h] == -INFINITY);
    }
}

/* ---- policies of two parts ---- */

TEST(temperatures_with_maps_agree_with_the_reference) {
    for (size_t p = 0; p < BOTH_PARTS; p++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            char what[100];
            snprintf(what, sizeof what, "%s, %zu queries", both_parts[p], some_queries[i]);
            example e = example_of(some_queries[i], i % 2 ? 203 : 61, 10 * p + i);
            example_policy(&e, both_parts[p]);
            example_check(&e, what);
            decorate(&e, p + 5 * i);
            example_check(&e, what);
            example_bias(&e, MASK_HEADS, 0);
            example_check(&e, what);
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(every_head_has_its_own_two_parts) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example_shape shape = {.batch = 2, .heads = BOTH_PARTS + 2, .head_dim = 16, .keys = 110};
        shape.kv_heads = i % 2 ? 2 : 4;
        shape.queries = some_queries[i] > 20 ? 20 : some_queries[i];
        shape.seed = i;
        const char *names[BOTH_PARTS + 2];
        memcpy(names, both_parts, sizeof both_parts);
        names[BOTH_PARTS] = "softmax";
        names[BOTH_PARTS + 1] = "stick-breaking";
        example e = example_new(shape);
        example_make_exact(&e);
        example_policies(&e, names, BOTH_PARTS + 2);
        example_check(&e, "mixed");
        decorate(&e, 6 + i);
        example_bias(&e, MASK_BATCH | MASK_HEADS, 0);
        example_check(&e, "mixed with everything");
        example_free(&e);
    }
    example_print_worst();
}

/* ---- threads ---- */

TEST(any_number_of_threads_gives_the_same_bits) {
    static const char *const policies[] = {"softmax", "sigmoid", "entmax15", "stick-breaking",
                                           "adaptive+topk:3"};
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    for (size_t p = 0; p < 5; p++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            example e = example_of(some_queries[i], i % 2 ? 700 : 2300, i);
            decorate(&e, p + i);
            example_bias(&e, MASK_HEADS, 0);
            example_policy(&e, policies[p]);
            if (p < 4) {
                example_betas(&e)[3] = NAN;
            }
            example_set(&e.q, 1, 1, 0, 0, NAN);
            for (int with_stats = 0; with_stats < 2; with_stats++) {
                results one = run(&e, NULL, with_stats);
                results several = run(&e, &executor, with_stats);
                check_same(&e, policies[p], &several, &one);
                results_free(&one);
                results_free(&several);
            }
            example_free(&e);
        }
    }
    whet_pool_destroy(pool);
}
