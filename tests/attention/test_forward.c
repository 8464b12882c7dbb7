/*
 * Attention against the reference over awkward sizes: few queries and many,
 * head dimensions that fill no vector, every type of q, k, v and output, every
 * layout. Masks are in test_masks.c, policies in test_policies.c.
 */
#include "attention/example.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/isa.h"
#include "whet.h"

#include <stdio.h>
#include <string.h>

static void check_shape(example_shape shape, const char *policy) {
    char what[200];
    snprintf(what, sizeof what, "%zu x %zu, dim %zu/%zu, heads %zu/%zu, types %d %d %d, %s",
             shape.queries, shape.keys, shape.head_dim, shape.value_dim, shape.heads,
             shape.kv_heads, (int)shape.q_type, (int)shape.k_type, (int)shape.v_type, policy);
    example e = example_new(shape);
    example_policy(&e, policy);
    example_check(&e, what);
    example_free(&e);
}

static bool is_slow(void) { return strcmp(whet_isa(), "scalar") == 0; }

TEST(awkward_numbers_of_queries_and_keys_agree) {
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 127};
    for (size_t i = 0; i < 8; i++) {
        for (size_t j = 0; j < 8; j++) {
            example_shape shape = {.queries = sizes[i], .keys = sizes[j], .head_dim = 40};
            shape.seed = i * 8 + j;
            check_shape(shape, "softmax");
            check_shape(shape, "adaptive");
        }
    }
    example_print_worst();
}

TEST(large_numbers_of_queries_and_keys_agree) {
    static const size_t sizes[][2] = {
        {1, 1000},   {1, 4097}, {2, 4097}, {15, 4097},  {16, 1000},   {17, 1000}, {33, 4097},
        {127, 1000}, {1000, 1}, {1000, 2}, {1000, 127}, {1000, 1000}, {4097, 15}, {4097, 127},
        {1, 1024},   {1, 1025}, {17, 128}, {17, 129},   {17, 256},    {17, 257}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        example_shape shape = {.queries = sizes[i][0], .keys = sizes[i][1], .head_dim = 64};
        shape.seed = 100 + i;
        check_shape(shape, i % 2 ? "softmax" : "adaptive:hold");
        check_shape(shape, i % 2 ? "adaptive" : "softmax");
    }
    example_print_worst();
}

TEST(a_head_of_4097_by_4097_agrees) {
    if (is_slow()) {
        SKIP("the scalar kernels are tested with smaller ones");
    }
    example_shape shape = {.queries = 4097, .keys = 4097, .head_dim = 64, .seed = 200};
    shape.queries = size_or_emulated(shape.queries, 97);
    example e = example_new(shape);
    e.attention.flags = WHET_CAUSAL;
    e.attention.offset = (int64_t)(shape.keys - shape.queries);
    example_policy(&e, "adaptive");
    example_check(&e, "4097 x 4097 causal");
    example_free(&e);
    example_print_worst();
}

TEST(head_dimensions_that_fill_no_vector_agree) {
    static const size_t dims[] = {1, 2, 15, 16, 17, 40, 64, 80, 96, 100, 128, 192, 256, 576};
    size_t count = sizeof dims / sizeof dims[0];
    for (size_t i = 0; i < count; i++) {
        static const size_t queries[] = {1, 3, 33, 70};
        for (size_t k = 0; k < 4; k++) {
            example_shape shape = {.queries = queries[k], .keys = 150, .head_dim = dims[i]};
            shape.seed = 300 + 4 * i + k;
            check_shape(shape, k % 2 ? "adaptive" : "softmax");
            shape.value_dim = dims[(i + 5 * k + 3) % count];
            check_shape(shape, k % 2 ? "softmax" : "adaptive");
        }
    }
    example_print_worst();
}

TEST(every_value_dimension_up_to_80_agrees) {
    for (size_t dim = 1; dim <= 80; dim++) {
        example_shape shape = {.queries = dim % 2 ? 2 : 20, .keys = 37, .head_dim = 81 - dim};
        shape.value_dim = dim;
        shape.seed = 400 + dim;
        check_shape(shape, dim % 3 ? "adaptive" : "softmax");
    }
    example_print_worst();
}

TEST(every_combination_of_types_agrees) {
    for (size_t k = 0; k < CACHE_TYPES; k++) {
        for (size_t v = 0; v < CACHE_TYPES; v++) {
            for (size_t q = 0; q < 3; q++) {
                static const size_t queries[] = {1, 5, 40};
                for (size_t i = 0; i < 3; i++) {
                    example_shape shape = {.queries = queries[i], .keys = 147, .head_dim = 40};
                    shape.value_dim = 56;
                    shape.heads = 4;
                    shape.kv_heads = 2;
                    shape.q_type = (whet_type)q;
                    shape.k_type = example_cache_types[k];
                    shape.v_type = example_cache_types[v];
                    shape.out_type = (whet_type)((q + k + v) % 3);
                    shape.seed = 500 + 100 * k + 10 * v + q;
                    check_shape(shape, (q + k + v) % 2 ? "adaptive" : "softmax");
                }
            }
        }
    }
    example_print_worst();
}

TEST(batches_and_grouped_heads_in_every_layout_agree) {
    static const size_t heads[][2] = {{1, 1}, {3, 3}, {4, 2}, {6, 1}, {16, 2}, {17, 1}};
    for (int layout = 0; layout < LAYOUTS; layout++) {
        for (size_t h = 0; h < 6; h++) {
            static const size_t queries[] = {1, 2, 7, 50};
            for (size_t i = 0; i < 4; i++) {
                example_shape shape = {.queries = queries[i], .keys = 131, .head_dim = 24};
                shape.batch = 1 + h % 3;
                shape.heads = heads[h][0];
                shape.kv_heads = heads[h][1];
                shape.value_dim = 20;
                shape.layout = (example_layout)layout;
                shape.k_type = example_cache_types[(h + i) % CACHE_TYPES];
                shape.v_type = example_cache_types[h % CACHE_TYPES];
                shape.q_type = (whet_type)(i % 3);
                shape.out_type = (whet_type)((h + i) % 3);
                shape.seed = 1000 + 100 * h + i;
                check_shape(shape, (h + i) % 2 ? "adaptive" : "softmax");
            }
        }
    }
    example_print_worst();
}

TEST(long_caches_of_every_type_and_layout_agree) {
    for (size_t type = 0; type < CACHE_TYPES; type++) {
        for (size_t layout = 0; layout < LAYOUTS; layout++) {
            example_shape shape = {.queries = 1, .keys = 2500, .head_dim = 80, .heads = 8};
            shape.kv_heads = 2;
            shape.k_type = shape.v_type = example_cache_types[type];
            shape.layout = (example_layout)layout;
            shape.seed = 2000 + 10 * type + layout;
            check_shape(shape, layout % 2 ? "adaptive" : "softmax");
        }
    }
    example_print_worst();
}

/* Interleaved heads, 2, 3, 4 and 8 of them per task, over several chunks and over one. */
TEST(heads_that_lie_side_by_side_agree) {
    static const size_t heads_keys[][2] = {{2, 4500}, {3, 2800}, {16, 700}, {16, 1100},
                                           {8, 2100}, {16, 250}, {32, 250}};
    for (size_t i = 0; i < 7; i++) {
        for (size_t type = 0; type < CACHE_TYPES; type++) {
            example_shape shape = {.batch = 2, .queries = 1 + 2 * (type % 2), .head_dim = 32};
            shape.kv_heads = heads_keys[i][0];
            shape.heads = 2 * shape.kv_heads;
            shape.keys = heads_keys[i][1];
            shape.value_dim = type % 2 ? 64 : 32;
            shape.k_type = example_cache_types[type];
            shape.v_type = example_cache_types[(type + i) % CACHE_TYPES];
            shape.layout = TOKENS_FIRST;
            shape.seed = 2200 + 10 * i + type;
            check_shape(shape, (i + type) % 2 ? "adaptive" : "softmax");
        }
    }
    example_print_worst();
}

TEST(quantised_caches_of_every_dimension_agree) {
    static const whet_type types[] = {WHET_Q8_0, WHET_Q4_0, WHET_Q4_1,
                                      WHET_Q5_0, WHET_Q5_1, WHET_IQ4_NL};
    static const size_t queries[] = {1, 2, 3, 5, 40};
    for (size_t dim = 32; dim <= 576; dim += 32) {
        for (size_t i = 0; i < 5; i++) {
            example_shape shape = {.queries = queries[i], .keys = 133, .head_dim = dim};
            shape.value_dim = 608 - dim;
            shape.k_type = types[(dim / 32 + i) % 6];
            shape.v_type = types[(dim / 32 + i + i / 2) % 6];
            shape.seed = 2500 + dim + i;
            check_shape(shape, i % 2 ? "adaptive" : "softmax");
        }
    }
    example_print_worst();
}

/* Logits up to 12 and 40 instead of 4. */
TEST(sharp_heads_agree) {
    for (size_t i = 0; i < 12; i++) {
        static const size_t queries[] = {1, 9, 64};
        example_shape shape = {.queries = queries[i % 3], .keys = 1000, .head_dim = 64};
        shape.sharpness = i < 6 ? 3 : 10;
        shape.seed = 3000 + i;
        check_shape(shape, i % 2 ? "adaptive" : "softmax");
    }
    example_print_worst();
}

TEST(flat_heads_agree) {
    for (size_t i = 0; i < 6; i++) {
        static const size_t queries[] = {1, 9, 64};
        example_shape shape = {.queries = queries[i % 3], .keys = 1000, .head_dim = 64};
        shape.sharpness = 0.01;
        shape.seed = 3100 + i;
        check_shape(shape, i < 3 ? "exp:4" : "softmax");
    }
    example_print_worst();
}

/* Values that are all alike must come out as they are, however many are added up. */
TEST(constant_values_come_out_as_they_are) {
    static const size_t queries[] = {1, 40};
    for (size_t i = 0; i < 2; i++) {
        example_shape shape = {.queries = queries[i], .keys = 4000, .head_dim = 32, .seed = 3200};
        example e = example_new(shape);
        for (size_t j = 0; j < 4000; j++) {
            example_set_row(&e.v, 0, 0, j, 0.7f);
        }
        e.max_value = 0.7;
        example_check(&e, "constant values");
        example_free(&e);
    }
    example_print_worst();
}

TEST(a_scale_of_the_callers_is_used) {
    static const size_t queries[] = {2, 40};
    static const float scales[] = {0.3f, -0.5f, 1e-3f};
    for (size_t i = 0; i < 6; i++) {
        example_shape shape = {.queries = queries[i % 2], .keys = 100, .head_dim = 16, .seed = i};
        example e = example_new(shape);
        e.attention.scale = scales[i / 2];
        example_policy(&e, "adaptive");
        example_check(&e, "scale");
        example_free(&e);
    }
    example_print_worst();
}

TEST(nothing_to_do_is_fine) {
    static const char *const policies[] = {"softmax", "adaptive", "target:1"};
    for (size_t p = 0; p < 3; p++) {
        for (size_t layout = 0; layout < LAYOUTS; layout++) {
            example_shape shape = {.queries = 0, .keys = 10, .head_dim = 8};
            shape.layout = (example_layout)layout;
            check_shape(shape, policies[p]); /* no queries */
            shape.keys = 0;
            check_shape(shape, policies[p]); /* nor keys */
            shape.queries = 3;
            check_shape(shape, policies[p]); /* queries, but nothing to see: zeros */
            shape.queries = 100;
            shape.heads = 2;
            check_shape(shape, policies[p]);
        }
    }
}

TEST(the_default_policy_is_softmax) {
    static const size_t queries[] = {2, 40};
    for (size_t i = 0; i < 2; i++) {
        example_shape shape = {.queries = queries[i], .keys = 100, .head_dim = 16, .seed = 7};
        example e = example_new(shape);
        example_check(&e, "no policy");
        e.attention.policy_count = 1;
        example_check(&e, "a count but no policy");
        example_free(&e);
    }
}
