/*
 * Maps that are not a temperature, in attention: every one of them over sizes
 * that do not divide, with all that attention offers beside, for all heads and
 * mixed with others, against the reference; how the work is divided must not
 * show, and memory grows with the number of keys.
 */
#include "attention/example.h"
#include "support/check.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const maps[] = {
    "topk:1",    "topk:3",   "topk:17",     "topk:100000",    "hardmax",
    "sparsemax", "entmax15", "entmax:1.01", "entmax:1.2",     "entmax:1.9",
    "softmax1",  "sigmoid",  "sigmoid:1.5", "stick-breaking",
};
#define MAPS (sizeof maps / sizeof maps[0])

/* Maps that jump where two logits change places: their logits must be exact in f32. */
static bool jumps(const char *name) {
    return strncmp(name, "topk", 4) == 0 || strcmp(name, "hardmax") == 0;
}

static float *exact_sinks(example *e) {
    float *sinks = example_sinks(e);
    for (size_t h = 0; h < e->attention.heads; h++) {
        sinks[h] = nearbyintf(4 * sinks[h]) / 4;
    }
    return sinks;
}

static example example_of(size_t queries, size_t keys, size_t seed) {
    example_shape shape = {.queries = queries, .keys = keys, .head_dim = 16, .seed = seed};
    shape.value_dim = 19;
    shape.heads = 2;
    shape.kv_heads = 1;
    return example_new(shape);
}

/* Both paths, whichever the instruction set: decode up to 32 rows, prefill beyond. */
static const size_t some_queries[] = {1, 9, 16, 17, 31, 53};
#define SOME_QUERIES (sizeof some_queries / sizeof some_queries[0])
static const size_t some_keys[] = {1, 2, 15, 16, 17, 31, 33, 127, 191, 192, 193, 400, 1000};
#define SOME_KEYS (sizeof some_keys / sizeof some_keys[0])

TEST(every_map_agrees_with_the_reference_over_awkward_sizes) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < SOME_KEYS; i++) {
            char what[100];
            size_t queries = some_queries[(i + m) % SOME_QUERIES];
            snprintf(what, sizeof what, "%s, %zu queries, %zu keys", maps[m], queries,
                     some_keys[i]);
            example e = example_of(queries, some_keys[i], 100 * m + i);
            if (jumps(maps[m])) {
                example_make_exact(&e);
            }
            example_policy(&e, maps[m]);
            example_check(&e, what);
            example_free(&e);
        }
    }
    example_print_worst();
}

enum {
    WITH_CAUSAL = 1,
    WITH_WINDOW = 2,
    WITH_MASK = 4,
    WITH_ALIBI = 8,
    WITH_CAP = 16,
    WITH_SINKS = 32,
    FEATURES = 64
};

static void add_features(example *e, unsigned features) {
    e->attention.offset = 60;
    e->attention.flags = features & WITH_CAUSAL ? WHET_CAUSAL : 0;
    e->attention.window = features & WITH_WINDOW ? 70 : 0;
    if (features & WITH_MASK) {
        example_mask(e, MASK_QUERIES | MASK_HEADS, features & WITH_CAUSAL ? WHET_F16 : WHET_F32, 3);
    }
    if (features & WITH_ALIBI) {
        example_alibi(e);
    }
    if (features & WITH_CAP) {
        e->attention.softcap = 4;
    }
    if (features & WITH_SINKS) {
        exact_sinks(e);
    }
}

TEST(every_map_agrees_with_everything_that_attention_offers) {
    for (size_t m = 0; m < MAPS; m++) {
        for (unsigned features = 1; features < FEATURES; features++) {
            char what[100];
            size_t queries = some_queries[(features + features / 6) % SOME_QUERIES];
            snprintf(what, sizeof what, "%s, %zu queries, features %u", maps[m], queries, features);
            example e = example_of(queries, 210, 100 * m + features);
            if (jumps(maps[m])) {
                example_make_exact(&e);
            }
            add_features(&e, features);
            example_policy(&e, maps[m]);
            example_check(&e, what);
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(rows_that_see_nothing_agree_with_the_reference) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            example e = example_of(some_queries[i], 20, 100 * m + i);
            example_make_exact(&e);
            e.attention.flags = WHET_CAUSAL;
            e.attention.offset = -10;
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            exact_sinks(&e);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(sinks_that_win_or_do_not_count_agree_with_the_reference) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            example e = example_of(some_queries[i], 60, 100 * m + i);
            example_make_exact(&e);
            float *sinks = example_sinks(&e);
            sinks[0] = 40;
            sinks[1] = i % 2 ? -INFINITY : -40;
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(every_map_agrees_for_all_types_and_layouts) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < (size_t)CACHE_TYPES * LAYOUTS; i++) {
            example_shape shape = {
                .batch = 2, .heads = 4, .kv_heads = 2, .queries = 5 + 14 * (i % 2)};
            shape.keys = 130;
            shape.head_dim = 16;
            shape.value_dim = 7;
            shape.q_type = (whet_type)((i + m) % 3);
            shape.k_type = example_cache_types[i % CACHE_TYPES];
            shape.v_type = example_cache_types[(i + m) % CACHE_TYPES];
            shape.out_type = (whet_type)((i / 2 + m) % 3);
            shape.layout = (example_layout)(i / CACHE_TYPES);
            shape.seed = 100 * m + i;
            if (jumps(maps[m]) && shape.k_type == WHET_CUSTOM) {
                continue; /* whose logits are not exact */
            }
            example e = example_new(shape);
            if (jumps(maps[m])) {
                example_make_exact(&e);
            }
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
    example_print_worst();
}

static const char *const mixed[] = {
    "softmax",    "sigmoid",  "adaptive", "stick-breaking", "entmax15",  "topk:5",
    "entmax:1.3", "softmax1", "target:2", "hardmax",        "sparsemax", "fixed:2",
};
#define MIXED (sizeof mixed / sizeof mixed[0])

TEST(every_head_has_a_map_or_temperature_of_its_own) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example_shape shape = {.batch = 2, .heads = MIXED, .head_dim = 16, .keys = 230};
        shape.kv_heads = i % 3 == 0 ? 1 : i % 3 == 1 ? 3 : MIXED;
        shape.queries = some_queries[i];
        shape.seed = i;
        example e = example_new(shape);
        example_make_exact(&e);
        example_policies(&e, mixed, MIXED);
        example_check(&e, "one policy a head");
        exact_sinks(&e);
        example_mask(&e, MASK_QUERIES, WHET_F16, 0);
        e.attention.flags = WHET_CAUSAL;
        e.attention.offset = 100;
        example_check(&e, "one policy a head, causal, mask and sinks");
        example_free(&e);
    }
    example_print_worst();
}

/* Maps for which one pass is enough, in neighboring heads. */
TEST(heads_that_take_one_pass_may_be_mixed) {
    static const char *const mixes[][3] = {{"softmax", "sigmoid", "softmax1"},
                                           {"stick-breaking", "fixed:2", "sigmoid:0"},
                                           {"sigmoid", "stick-breaking", "sigmoid:2"},
                                           {"softmax1", "softmax1", "stick-breaking"}};
    for (size_t m = 0; m < 4; m++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            example_shape shape = {.heads = 3, .kv_heads = i % 2 ? 3 : 1, .head_dim = 16};
            shape.queries = some_queries[i];
            shape.keys = 420;
            shape.seed = 10 * m + i;
            example e = example_new(shape);
            example_policies(&e, mixes[m], 3);
            example_check(&e, "mixed policies");
            exact_sinks(&e);
            example_check(&e, "mixed policies and sinks");
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(long_rows_agree_with_the_reference) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t queries = 1; queries <= 17; queries += 16) {
            example e = example_of(queries, 4097, m);
            if (jumps(maps[m])) {
                example_make_exact(&e);
            }
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
    example_print_worst();
}

/* Three interleaved key heads share a task, and 1,024 keys among three are no whole number of the
 * parts by whose largest logits maps are searched. */
TEST(three_interleaved_key_heads_agree_with_the_reference) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t seed = 0; seed < 4; seed++) {
            example e = example_new((example_shape){.heads = 6,
                                                    .kv_heads = 3,
                                                    .queries = 2,
                                                    .keys = 979,
                                                    .head_dim = 16,
                                                    .layout = TOKENS_FIRST,
                                                    .sharpness = 2,
                                                    .seed = seed});
            if (jumps(maps[m])) {
                example_make_exact(&e);
            }
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
    example_print_worst();
}

/* Logits of any sharpness: all alike, and far apart. */
TEST(flat_and_sharp_rows_agree_with_the_reference) {
    static const double sharpness[] = {1e-4, 0.03, 6, 25};
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < 4; i++) {
            for (size_t queries = 3; queries <= 35; queries += 16) {
                if (jumps(maps[m])) {
                    continue;
                }
                char what[100];
                snprintf(what, sizeof what, "%s, sharpness %g", maps[m], sharpness[i]);
                example_shape shape = {.heads = 2, .kv_heads = 1, .queries = queries, .keys = 500};
                shape.head_dim = 16;
                shape.sharpness = sharpness[i];
                shape.seed = 10 * m + i;
                example e = example_new(shape);
                example_policy(&e, maps[m]);
                example_check(&e, what);
                example_free(&e);
            }
        }
    }
    example_print_worst();
}

/* Many small parts of the stick must not be lost one by one. */
TEST(sticks_broken_into_tiny_parts_lose_nothing) {
    for (size_t queries = 2; queries <= 34; queries += 16) {
        example_shape shape = {.heads = 2, .kv_heads = 1, .queries = queries, .keys = 20000};
        shape.head_dim = 4;
        shape.sharpness = 1e-3; /* so that all would be rounded alike */
        example e = example_new(shape);
        for (size_t j = 0; j < 20000; j++) {
            example_set_row(&e.v, 0, 0, j, 1);
        }
        float *mask = example_memory(&e, 20000 * sizeof *mask);
        for (size_t j = 0; j < 20000; j++) {
            mask[j] = -13;
        }
        e.attention.mask = (whet_mask){.data = mask, .type = WHET_F32};
        example_policy(&e, "stick-breaking");
        example_check(&e, "20,000 parts of about 2e-6");
        example_free(&e);
    }
    example_print_worst();
}

/* ---- rows that are not finite, and values ---- */

static void check_spoilt(const char *name, size_t queries, float bad) {
    example e = example_of(queries, 200, queries);
    example_make_exact(&e);
    example_set(&e.q, 0, 1, 0, 0, 1);
    float *mask = example_memory(&e, 2 * queries * 200 * sizeof *mask);
    memset(mask, 0, 2 * queries * 200 * sizeof *mask);
    mask[queries * 200 + 77] = bad; /* head 1, query 0 */
    e.attention.mask = (whet_mask){.data = mask, .type = WHET_F32};
    e.attention.mask.stride[1] = (ptrdiff_t)(queries * 200 * sizeof *mask);
    e.attention.mask.stride[2] = (ptrdiff_t)(200 * sizeof *mask);
    example_policy(&e, name);
    example_check(&e, name);
    example_free(&e);
}

TEST(a_row_that_is_not_finite_spoils_itself_alone) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            check_spoilt(maps[m], some_queries[i], NAN);
            check_spoilt(maps[m], some_queries[i], INFINITY);
        }
    }
}

TEST(values_that_are_not_finite_reach_only_rows_that_take_them) {
    for (size_t m = 0; m < MAPS; m++) {
        for (size_t queries = 4; queries <= 36; queries += 16) {
            example e = example_of(queries, 40, m);
            example_make_exact(&e);
            example_set_row(&e.v, 0, 0, 25, NAN);
            e.attention.flags = WHET_CAUSAL;
            e.attention.offset = 10;
            example_policy(&e, maps[m]);
            example_check(&e, maps[m]);
            example_free(&e);
        }
    }
}

/* ---- how the work is divided ---- */

static void run_from_last(const whet_plan *plan) {
    void *scratch = aligned_alloc(WHET_ALIGNMENT, plan->scratch_bytes);
    REQUIRE(scratch);
    for (unsigned phase = 0; phase < plan->phases; phase++) {
        for (size_t task = plan->tasks[phase]; task-- > 0;) {
            memset(scratch, 0xff, plan->scratch_bytes);
            whet_attention_run_task(plan, phase, task, scratch, NULL);
        }
    }
    free(scratch);
}

TEST(the_number_of_threads_and_the_order_of_tasks_do_not_show) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example_shape shape = {.heads = MIXED, .kv_heads = 2, .head_dim = 16, .keys = 1300};
        shape.queries = some_queries[i];
        example e = example_new(shape);
        example_policies(&e, mixed, MIXED);
        size_t floats = MIXED * shape.queries * 16;
        float *out = example_memory(&e, floats * sizeof *out);
        float *again = example_memory(&e, floats * sizeof *again);
        whet_stats *stats = example_memory(&e, MIXED * shape.queries * sizeof *stats);
        whet_stats *stats_again = example_memory(&e, MIXED * shape.queries * sizeof *stats);
        e.attention.out.data = out;
        e.attention.stats = stats;
        CHECK_INT(whet_attention_forward(&e.attention, NULL, NULL), WHET_OK);
        e.attention.out.data = again;
        e.attention.stats = stats_again;
        for (size_t threads = 2; threads <= 5; threads += 3) {
            whet_pool *pool;
            REQUIRE(whet_pool_create(threads, &pool) == WHET_OK);
            whet_executor executor = whet_pool_executor(pool);
            CHECK_INT(whet_attention_forward(&e.attention, &executor, NULL), WHET_OK);
            CHECK(same_bytes(out, again, floats * sizeof *out));
            CHECK(same_bytes(stats, stats_again, MIXED * shape.queries * sizeof *stats));
            whet_pool_destroy(pool);
        }
        whet_plan plan = {.size = sizeof plan};
        REQUIRE(whet_attention_plan(&e.attention, &plan) == WHET_OK);
        plan.workspace = aligned_alloc(WHET_ALIGNMENT, plan.workspace_bytes + WHET_ALIGNMENT -
                                                           plan.workspace_bytes % WHET_ALIGNMENT);
        REQUIRE(plan.workspace);
        run_from_last(&plan);
        free(plan.workspace);
        CHECK(same_bytes(out, again, floats * sizeof *out));
        example_free(&e);
    }
}

/* Twice the keys, twice the memory at most: also where a row's logits are kept however many. */
TEST(memory_is_linear_in_the_number_of_keys) {
    if (SIZE_MAX == UINT32_MAX) {
        SKIP("needs addresses of 64 bits");
    }
    const uintptr_t nowhere = 4096; /* plans look at no data */
    for (size_t m = 0; m < MAPS; m++) {
        whet_policy policy;
        REQUIRE(whet_policy_parse(maps[m], &policy, NULL, 0) == WHET_OK);
        size_t before = 0;
        for (size_t keys = (size_t)1 << 18; keys <= (size_t)1 << 24; keys *= 2) {
            whet_attention a = {.size = sizeof a, .heads = 1, .queries = 1000, .head_dim = 64};
            a.keys = keys;
            a.policies = &policy;
            /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
            a.q.data = a.k.data = a.v.data = (const void *)nowhere;
            /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
            a.out.data = (void *)(nowhere << 30);
            whet_plan plan = {.size = sizeof plan};
            REQUIRE(whet_attention_plan(&a, &plan) == WHET_OK);
            CHECK_MSG(before == 0 || plan.scratch_bytes <= 2 * before, "%s: %zu bytes at %zu keys",
                      maps[m], plan.scratch_bytes, keys);
            before = plan.scratch_bytes;
        }
    }
}
