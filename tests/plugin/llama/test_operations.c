/*
 * Every shape and type of attention that llama.cpp has, through the plug-in with plain softmax:
 * close to the reference in double, whereas the host's own is as close as f16 sums allow.
 */
#include "graph.h"
#include "support/check.h"
#include <stdlib.h>

#define NEAR 1e-5       /* 1e-3 is promised */
#define STOCK_NEAR 5e-2 /* only shows that both compute the same thing */

static void start(void) {
    if (!graph_start())
        SKIP("the host or the plug-in cannot be loaded");
    graph_threads(1);
}

__attribute__((constructor)) static void before(void) { check_before_each(start); }

/* For a query that sees no key, older hosts give NaN. */
static bool sees_nothing(const outcome *o) {
    for (size_t i = 0; i < o->rows; i++)
        if (o->stats[i].n == 0)
            return true;
    return false;
}

static void check_example(const example *e) {
    outcome o = graph_compute(e);
    CHECK_MSG(o.error <= NEAR && !o.has_nan, "error %g: head_dim %d, keys %d, queries %d, mask %d",
              o.error, e->head_dim, e->keys, e->queries, (int)e->mask);
    CHECK_MSG(sees_nothing(&o) || o.stock_error <= STOCK_NEAR,
              "the host's own is off by %g: head_dim %d, keys %d, queries %d, mask %d",
              o.stock_error, e->head_dim, e->keys, e->queries, (int)e->mask);
    CHECK(o.is_restored);
    outcome_free(&o);
}

TEST(keys_and_values_of_every_type_of_cache) {
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL};
    int count = sizeof types / sizeof *types;
    for (int i = 0; i < count; i++)
        for (int queries = 1; queries <= 40; queries += 39) {
            example e = {.head_dim = 64,
                         .heads = 4,
                         .kv_heads = 2,
                         .queries = queries,
                         .keys = 100,
                         .mask = MASK_CAUSAL,
                         .cache_types = {(int)types[i] + 1, (int)types[i] + 1}};
            check_example(&e);
            e.cache_types[1] = (int)types[(i + 1) % count] + 1;
            check_example(&e);
        }
}

TEST(head_sizes_from_40_to_576) {
    static const int sizes[] = {40, 48, 64, 72, 80, 96, 112, 128, 192, 256, 512, 576};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int queries = 1; queries <= 17; queries += 16) {
            example e = {.head_dim = sizes[i],
                         .heads = 4,
                         .kv_heads = 2,
                         .queries = queries,
                         .keys = 33,
                         .mask = MASK_CAUSAL};
            check_example(&e);
        }
}

TEST(values_of_another_size_than_keys_and_values_inside_of_keys) {
    for (int queries = 1; queries <= 33; queries += 16) {
        example e = {.head_dim = 192,
                     .value_dim = 128,
                     .heads = 2,
                     .queries = queries,
                     .keys = 77,
                     .mask = MASK_CAUSAL};
        check_example(&e);
        e = (example){.head_dim = 576,
                      .value_dim = 512,
                      .heads = 8,
                      .kv_heads = 1,
                      .queries = queries,
                      .keys = 77,
                      .mask = MASK_CAUSAL,
                      .values_in_keys = true};
        check_example(&e);
        e.cache_types[0] = e.cache_types[1] = (int)GGML_TYPE_Q8_0 + 1;
        check_example(&e);
    }
}

TEST(masks_of_every_shape_for_one_query_and_for_many) {
    static const int lengths[] = {1, 2, 15, 17, 127, 300, 1025};
    for (int mask = MASK_NONE; mask <= MASK_NOTHING; mask++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int queries = 1; queries <= 16 && queries <= lengths[i]; queries += 15) {
                example e = {.head_dim = 64,
                             .heads = 4,
                             .kv_heads = 2,
                             .batch = mask == MASK_ITEMS ? 3 : 1,
                             .queries = queries,
                             .keys = lengths[i],
                             .mask = (mask_kind)mask};
                if (mask == MASK_PREFIX && lengths[i] < 6)
                    continue;
                check_example(&e);
                e.is_plain = true;
                check_example(&e);
            }
}

TEST(several_items_soft_caps_sinks_and_alibi) {
    for (int queries = 1; queries <= 40; queries += 13) {
        example e = {.head_dim = 64,
                     .heads = 6,
                     .kv_heads = 2,
                     .queries = queries,
                     .keys = 129,
                     .batch = 3,
                     .mask = MASK_CAUSAL};
        check_example(&e);
        e.softcap = 5;
        e.sharpness = 10;
        check_example(&e);
        e.has_sinks = true;
        check_example(&e);
        e.softcap = 0;
        e.sharpness = 1;
        check_example(&e);
        e.mask = MASK_BIAS;
        e.max_bias = 8;
        check_example(&e);
        e.has_sinks = false;
        e.cache_types[0] = (int)GGML_TYPE_Q5_1 + 1;
        check_example(&e);
    }
}

TEST(softmax_on_logits_with_masks_sinks_and_alibi_and_in_place) {
    static const int lengths[] = {1, 2, 17, 256, 1000, 4097};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int variant = 0; variant < (lengths[i] > 1000 ? 4 : 32); variant++) {
            example e = {.is_softmax = true,
                         .heads = 6,
                         .queries = lengths[i] > 17 ? 17 : lengths[i],
                         .keys = lengths[i],
                         .batch = variant & 1 ? 2 : 1,
                         .scale = 0.25f,
                         .in_place = variant & 2,
                         .has_sinks = variant & 4,
                         .has_f32_mask = variant & 8,
                         .mask = variant & 16 ? MASK_BIAS : MASK_CAUSAL,
                         .max_bias = variant & 16 ? 8.0f : 0.0f};
            check_example(&e);
        }
}

/* ---- attention without flash attention ---- */

/* Closer than the host gets with queries rounded to f16, and so the whole is computed here. */
#define WHOLE_NEAR 1e-6

static void check_composed(const example *e) {
    outcome o = graph_compute(e);
    CHECK_MSG(o.error <= WHOLE_NEAR && !o.has_nan,
              "error %g (the host's %g): head_dim %d, keys %d, queries %d, mask %d", o.error,
              o.stock_error, e->head_dim, e->keys, e->queries, (int)e->mask);
    CHECK(o.is_restored);
    outcome_free(&o);
}

TEST(composed_attention_with_caches_of_every_plain_type) {
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0};
    static const int sizes[] = {40, 64, 256};
    for (int i = 0; i < 4; i++)
        for (int size = 0; size < 3; size++)
            for (int queries = 1; queries <= 40; queries += 39) {
                if (types[i] == GGML_TYPE_Q8_0 && sizes[size] % 32 != 0)
                    continue;
                enum ggml_type values = types[i] == GGML_TYPE_Q8_0 ? GGML_TYPE_F16 : types[i];
                example e = {.is_composed = true,
                             .head_dim = sizes[size],
                             .heads = 4,
                             .kv_heads = 2,
                             .queries = queries,
                             .keys = 100,
                             .mask = MASK_CAUSAL,
                             .has_f32_mask = true,
                             .cache_types = {(int)types[i] + 1, (int)values + 1}};
                check_composed(&e);
            }
}

TEST(composed_attention_with_masks_of_every_shape) {
    static const int lengths[] = {1, 17, 300, 1500};
    for (int mask = MASK_CAUSAL; mask <= MASK_NOTHING; mask++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int queries = 1; queries <= 16 && queries <= lengths[i]; queries += 15) {
                example e = {.is_composed = true,
                             .head_dim = 64,
                             .heads = 4,
                             .kv_heads = 2,
                             .batch = mask == MASK_ITEMS ? 3 : 1,
                             .queries = queries,
                             .keys = lengths[i],
                             .mask = (mask_kind)mask,
                             .has_f32_mask = i % 2 == 0};
                if (mask == MASK_PREFIX && lengths[i] < 6)
                    continue;
                check_composed(&e);
            }
}

TEST(composed_attention_with_several_items_soft_caps_sinks_and_alibi) {
    for (int queries = 1; queries <= 40; queries += 39)
        for (int variant = 0; variant < 16; variant++) {
            example e = {.is_composed = true,
                         .head_dim = 64,
                         .heads = 6,
                         .kv_heads = 2,
                         .queries = queries,
                         .keys = 129,
                         .batch = 3,
                         .mask = variant & 1 ? MASK_BIAS : MASK_CAUSAL,
                         .max_bias = variant & 1 ? 8.0f : 0.0f,
                         .softcap = variant & 2 ? 5.0f : 0.0f,
                         .sharpness = variant & 2 ? 10 : 1,
                         .has_sinks = variant & 4,
                         .has_f32_mask = variant & 8};
            check_composed(&e);
        }
}

TEST(composed_attention_on_copies_of_values_that_are_part_of_the_keys) {
    for (int queries = 1; queries <= 33; queries += 16) {
        example e = {.is_composed = true,
                     .copies_values = true,
                     .head_dim = 576,
                     .value_dim = 512,
                     .heads = 8,
                     .kv_heads = 1,
                     .queries = queries,
                     .keys = 77,
                     .mask = MASK_CAUSAL,
                     .has_f32_mask = true,
                     .values_in_keys = true};
        check_composed(&e);
        e.values_in_keys = false;
        e.head_dim = 96;
        e.value_dim = 64;
        e.kv_heads = 4;
        check_composed(&e);
    }
}

TEST(composed_attention_whose_result_has_the_memory_of_an_input) {
    for (int overlap = OVERLAP_QUERIES; overlap <= OVERLAP_MASK; overlap++)
        for (int queries = 1; queries <= 40; queries += 39)
            for (int variant = 0; variant < 4; variant++) {
                example e = {.is_composed = true,
                             .head_dim = 64,
                             .heads = 4,
                             .kv_heads = 2,
                             .queries = queries,
                             .keys = 777,
                             .mask = variant & 1 ? MASK_BIAS : MASK_HOLES,
                             .max_bias = variant & 1 ? 8.0f : 0.0f,
                             .has_f32_mask = true,
                             .overlap = (overlap_kind)overlap};
                graph_threads(variant & 2 ? 3 : 1);
                check_composed(&e);
            }
    graph_threads(1);
}

TEST(weights_that_another_node_reads_are_computed) {
    for (int queries = 1; queries <= 20; queries += 19) {
        example e = {.is_composed = true,
                     .shares_weights = true,
                     .head_dim = 64,
                     .heads = 4,
                     .kv_heads = 2,
                     .queries = queries,
                     .keys = 100,
                     .mask = MASK_CAUSAL};
        outcome o = graph_compute(&e);
        CHECK(o.error <= STOCK_NEAR && o.is_restored);
        CHECK_MSG(o.error > WHOLE_NEAR, "the whole was computed: %g", o.error);
        outcome_free(&o);
    }
}

TEST(softmax_without_a_mask_is_left_alone) {
    example e = {.is_softmax = true, .heads = 4, .queries = 3, .keys = 50, .layer = 1};
    outcome o = graph_compute(&e);
    CHECK(same_bytes(o.result, o.stock, o.count * sizeof(float)));
    outcome_free(&o);
}

TEST(keys_without_a_cache_are_left_alone) {
    /* a layer that cannot be parsed, as in image encoders */
    example e = {.head_dim = 64, .heads = 4, .queries = 3, .keys = 50, .layer = -1};
    outcome o = graph_compute(&e);
    CHECK(same_bytes(o.result, o.stock, o.count * sizeof(float)));
    outcome_free(&o);
}

TEST(the_number_of_threads_does_not_change_a_bit) {
    for (int kind = 0; kind < 6; kind++) {
        example e = {.head_dim = 128,
                     .heads = 8,
                     .kv_heads = 2,
                     .queries = kind == 0 || kind == 4 ? 1 : 70,
                     .keys = 2500,
                     .is_softmax = kind == 2,
                     .is_composed = kind >= 4,
                     .mask = kind == 3 ? MASK_BIAS : MASK_CAUSAL,
                     .max_bias = kind == 3 ? 8.0f : 0.0f};
        if (kind == 3)
            e.keys = 300;
        outcome one = graph_compute(&e);
        graph_threads(3);
        outcome three = graph_compute(&e);
        graph_threads(1);
        CHECK(same_bytes(one.result, three.result, one.count * sizeof(float)));
        CHECK(three.error <= NEAR && three.is_restored);
        outcome_free(&one);
        outcome_free(&three);
    }
}

TEST(it_is_more_exact_than_the_host) {
    example e = {.head_dim = 128, .heads = 8, .kv_heads = 2, .keys = 4096};
    outcome o = graph_compute(&e);
    CHECK_MSG(o.error < 1e-5, "error %g", o.error);
    CHECK_MSG(o.stock_error > 1e-3, "the host's error %g", o.stock_error);
    outcome_free(&o);
}

/* The last test: the host unloads every backend of that name. Those created before still go through
 * the plug-in. */
TEST(unloading_the_plug_in_harms_nothing) {
    ggml_backend_reg_t registration;
    while ((registration = ggml_backend_reg_by_name("whet")) != NULL)
        ggml_backend_unload(registration);
    example e = {.head_dim = 64, .heads = 4, .kv_heads = 2, .keys = 100, .mask = MASK_CAUSAL};
    check_example(&e);
    ggml_backend_t later = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    CHECK(later != NULL);
    ggml_backend_free(later);
}
