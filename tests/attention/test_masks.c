/*
 * What a query sees and how its logits are bent: causal with offsets, windows,
 * masks of every shape, ALiBi, soft cap, sinks, alone and together, against the
 * reference; and that what is masked may hold anything.
 */
#include "attention/example.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Few queries and many, which take different ways through the library. */
static const size_t some_queries[] = {1, 3, 16, 17, 60};
#define SOME_QUERIES (sizeof some_queries / sizeof some_queries[0])

static const char *policy_for(size_t i) {
    static const char *const names[] = {"softmax", "adaptive", "fixed:1.5", "target:1.5"};
    return names[i % 4];
}

/* ---- causal and windows ---- */

static void check_position(size_t queries, size_t keys, bool causal, int64_t offset, size_t window,
                           size_t seed) {
    char what[200];
    snprintf(what, sizeof what, "%zu x %zu, %s, offset %lld, window %zu", queries, keys,
             causal ? "causal" : "all", (long long)offset, window);
    example_shape shape = {.queries = queries, .keys = keys, .head_dim = 24, .seed = seed};
    shape.heads = 2;
    shape.kv_heads = 1 + seed % 2;
    example e = example_new(shape);
    e.attention.flags = causal ? WHET_CAUSAL : 0;
    e.attention.offset = offset;
    e.attention.window = window;
    example_policy(&e, policy_for(seed));
    example_check(&e, what);
    example_free(&e);
}

TEST(causal_queries_see_keys_up_to_their_own) {
    static const size_t keys[] = {1, 16, 17, 127, 128, 129, 300};
    size_t seed = 0;
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
            check_position(some_queries[i], keys[j], true, 0, 0, seed++);
            /* as when decoding: the last query sees the last key */
            int64_t last = (int64_t)keys[j] - (int64_t)some_queries[i];
            check_position(some_queries[i], keys[j], true, last, 0, seed++);
        }
    }
    example_print_worst();
}

TEST(offsets_move_queries_anywhere) {
    static const int64_t offsets[] = {-1000, -130, -17, -1, 1, 17, 126, 127, 128, 129, 5000};
    size_t seed = 100;
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t j = 0; j < sizeof offsets / sizeof offsets[0]; j++) {
            check_position(some_queries[i], 260, true, offsets[j], 0, seed++);
            check_position(some_queries[i], 260, false, offsets[j], 40, seed++);
        }
    }
    example_print_worst();
}

TEST(windows_limit_both_sides) {
    static const size_t windows[] = {1, 2, 16, 100, 127, 128, 129, 299, 300, 1000, SIZE_MAX};
    size_t seed = 300;
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t j = 0; j < sizeof windows / sizeof windows[0]; j++) {
            check_position(some_queries[i], 300, true, 150, windows[j], seed++);
            check_position(some_queries[i], 300, false, 120, windows[j], seed++);
        }
    }
    example_print_worst();
}

TEST(offsets_and_windows_may_be_as_large_as_they_come) {
    static const int64_t offsets[] = {INT32_MAX, -(int64_t)INT32_MAX};
    static const size_t windows[] = {0, 5, INT32_MAX, SIZE_MAX / 2, SIZE_MAX};
    size_t seed = 600;
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t o = 0; o < 2; o++) {
            for (size_t w = 0; w < 5; w++) {
                check_position(some_queries[i], 40, false, offsets[o], windows[w], seed++);
                check_position(some_queries[i], 40, true, offsets[o], windows[w], seed++);
            }
        }
    }
}

TEST(long_causal_rows_and_windows_cross_many_blocks) {
    check_position(500, 1500, true, 1000, 0, 1);
    check_position(500, 1500, true, 1000, 700, 2);
    check_position(2, 3000, true, 2500, 0, 3);
    check_position(2, 3000, true, 2500, 1300, 4);
    check_position(700, 700, true, 0, 33, 5);
    example_print_worst();
}

/* ---- masks ---- */

TEST(masks_of_every_shape_and_type_are_added) {
    for (unsigned axes = 0; axes < 8; axes++) {
        for (size_t i = 0; i < SOME_QUERIES; i++) {
            for (int type = 0; type < 2; type++) {
                example_shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .keys = 140};
                shape.queries = some_queries[i] > 20 ? 20 : some_queries[i];
                shape.head_dim = 16;
                shape.seed = 10 * i + axes;
                example e = example_new(shape);
                example_mask(&e, axes, type ? WHET_F16 : WHET_F32, i % 2 ? 5 : 0);
                example_policy(&e, policy_for(i + axes));
                example_check(&e, "mask");
                example_free(&e);
            }
        }
    }
    example_print_worst();
}

/* A mask that lies transposed, keys far apart, and one read from the end. */
TEST(mask_strides_may_be_any) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example_shape shape = {.queries = some_queries[i], .keys = 150, .head_dim = 16, .seed = i};
        example e = example_new(shape);
        size_t queries = shape.queries;
        float *mask = example_memory(&e, 150 * queries * sizeof *mask);
        for (size_t at = 0; at < 150 * queries; at++) {
            mask[at] = rng_bits(&e.rng) % 3 ? (float)rng_integer(&e.rng, -8, 8) / 8 : -INFINITY;
        }
        e.attention.mask = (whet_mask){.data = mask, .type = WHET_F32};
        e.attention.mask.stride[2] = sizeof(float);
        e.attention.mask.stride[3] = (ptrdiff_t)(queries * sizeof(float));
        example_check(&e, "transposed mask");
        e.attention.mask.data = mask + 150 * queries - 1;
        e.attention.mask.stride[2] = -(ptrdiff_t)sizeof(float);
        e.attention.mask.stride[3] = -(ptrdiff_t)(queries * sizeof(float));
        example_check(&e, "mask from its end");
        example_free(&e);
    }
}

TEST(rows_with_everything_masked_are_zeros) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (int sinks = 0; sinks < 2; sinks++) {
            example_shape shape = {.queries = some_queries[i], .keys = 200, .head_dim = 16};
            shape.heads = 2;
            shape.seed = i;
            example e = example_new(shape);
            float *mask = example_memory(&e, shape.queries * 200 * sizeof *mask);
            for (size_t at = 0; at < shape.queries * 200; at++) {
                mask[at] = at / 200 % 2 == 0 ? -INFINITY : 0; /* every second query */
            }
            e.attention.mask = (whet_mask){.data = mask, .type = WHET_F32};
            e.attention.mask.stride[2] = 200 * sizeof(float);
            if (sinks) {
                example_sinks(&e);
            }
            for (size_t p = 0; p < 4; p++) {
                example_policy(&e, policy_for(p));
                example_check(&e, sinks ? "everything masked but a sink" : "everything masked");
            }
            example_free(&e);
        }
    }
}

/* ---- ALiBi, soft cap, sinks ---- */

TEST(alibi_slopes_lower_distant_keys) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (int causal = 0; causal < 2; causal++) {
            example_shape shape = {.queries = some_queries[i], .keys = 300, .head_dim = 16};
            shape.heads = 4;
            shape.kv_heads = 2;
            shape.seed = i;
            example e = example_new(shape);
            example_alibi(&e);
            e.attention.flags = causal ? WHET_CAUSAL : 0;
            e.attention.offset = 200;
            example_policy(&e, policy_for(i));
            example_check(&e, "ALiBi");
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(soft_caps_bend_large_logits) {
    static const float caps[] = {0.5f, 2, 30};
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t c = 0; c < 3; c++) {
            example_shape shape = {.queries = some_queries[i], .keys = 300, .head_dim = 16};
            shape.sharpness = 3;
            shape.seed = i;
            example e = example_new(shape);
            e.attention.softcap = caps[c];
            example_policy(&e, policy_for(i + c));
            example_check(&e, "soft cap");
            example_free(&e);
        }
    }
    example_print_worst();
}

TEST(sinks_take_part_without_a_value) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t p = 0; p < 4; p++) {
            example_shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 16};
            shape.queries = some_queries[i];
            shape.keys = 140;
            shape.seed = i;
            example e = example_new(shape);
            example_sinks(&e);
            e.attention.flags = WHET_CAUSAL;
            e.attention.offset = 5;
            example_policy(&e, policy_for(p));
            example_check(&e, "sinks");
            example_free(&e);
        }
    }
    example_print_worst();
}

/* Far above all logits, far below, and none for one head. */
TEST(sinks_of_any_size_are_right) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example_shape shape = {.queries = some_queries[i], .keys = 200, .head_dim = 16, .heads = 4};
        shape.seed = i;
        example e = example_new(shape);
        float *sinks = example_sinks(&e);
        sinks[0] = 60;
        sinks[1] = -200;
        sinks[2] = -INFINITY;
        for (size_t p = 0; p < 4; p++) {
            example_policy(&e, policy_for(p));
            example_check(&e, "sinks of any size");
        }
        example_free(&e);
    }
    example_print_worst();
}

TEST(everything_together_agrees) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (size_t variant = 0; variant < 16; variant++) {
            example_shape shape = {.batch = 2, .heads = 6, .kv_heads = 3, .head_dim = 40};
            shape.queries = some_queries[i];
            shape.keys = 170;
            shape.value_dim = 24;
            shape.k_type = example_cache_types[variant % CACHE_TYPES];
            shape.v_type = example_cache_types[variant / 4];
            shape.q_type = (whet_type)(variant % 3);
            shape.out_type = (whet_type)(i % 3);
            shape.layout = (example_layout)(variant % LAYOUTS);
            shape.sharpness = 2;
            shape.seed = 100 * i + variant;
            example e = example_new(shape);
            if (variant & 1) {
                example_mask(&e, variant / 2 % 8, variant & 2 ? WHET_F16 : WHET_F32, 3);
            }
            if (variant & 2) {
                example_alibi(&e);
            }
            if (variant & 4) {
                example_sinks(&e);
            }
            if (variant & 8) {
                e.attention.softcap = 4;
            }
            e.attention.flags = variant % 5 ? WHET_CAUSAL : 0;
            e.attention.offset = 90;
            e.attention.window = variant % 3 ? 0 : 70;
            example_policy(&e, policy_for(variant));
            example_check(&e, "everything together");
            example_free(&e);
        }
    }
    example_print_worst();
}

/* ---- what is masked may hold anything ---- */

static const float garbage[] = {NAN, INFINITY, -INFINITY, 3e38f};

/* Overwrites k and v of key j, and looks at the result. */
static void spoil_key(example *e, size_t j) {
    for (size_t batch = 0; batch < e->k.extent[0]; batch++) {
        for (size_t head = 0; head < e->k.extent[1]; head++) {
            example_set_row(&e->k, batch, head, j, garbage[j % 4]);
            example_set_row(&e->v, batch, head, j, garbage[(j / 4 + 1) % 4]);
        }
    }
}

static void check_garbage(example *e, const char *what) {
    for (size_t p = 0; p < 4; p++) {
        example_policy(e, policy_for(p));
        example_check(e, what);
    }
}

static example example_for_garbage(size_t queries, size_t keys, whet_type type, size_t seed) {
    example_shape shape = {.batch = 2, .heads = 2, .kv_heads = 1, .head_dim = 20};
    shape.queries = queries;
    shape.keys = keys;
    shape.k_type = shape.v_type = type;
    shape.seed = seed;
    return example_new(shape);
}

TEST(keys_after_the_last_query_may_hold_anything) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (whet_type type = WHET_F32; type <= REFERENCE_LAST_TYPE; type++) {
            example e = example_for_garbage(some_queries[i], 300, type, i);
            e.attention.flags = WHET_CAUSAL;
            e.attention.offset = 130;
            for (size_t j = 130 + some_queries[i]; j < 300; j++) {
                spoil_key(&e, j);
            }
            check_garbage(&e, "after the last query");
            example_free(&e);
        }
    }
}

/* A key that some queries see and others do not: those that do are spoiled, the others right. */
TEST(keys_that_only_later_queries_see_spoil_these_alone) {
    static const size_t queries[] = {3, 16, 40, 200};
    for (size_t i = 0; i < 4; i++) {
        example e = example_for_garbage(queries[i], 200, WHET_F32, i);
        e.attention.flags = WHET_CAUSAL;
        size_t at = queries[i] - 2;
        example_set_row(&e.k, 0, 0, at, NAN);
        check_garbage(&e, "a bad key of later queries");
        example_free(&e);
    }
}

TEST(keys_outside_a_window_may_hold_anything) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (whet_type type = WHET_F32; type <= REFERENCE_LAST_TYPE; type++) {
            example e = example_for_garbage(some_queries[i], 400, type, i);
            e.attention.offset = 150;
            e.attention.window = 30;
            for (size_t j = 0; j < 400; j++) {
                if (j + 30 <= 150 || j >= 150 + some_queries[i] + 29) {
                    spoil_key(&e, j);
                }
            }
            check_garbage(&e, "outside the window");
            example_free(&e);
        }
    }
}

TEST(masked_keys_may_hold_anything) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        for (whet_type type = WHET_F32; type <= REFERENCE_LAST_TYPE; type++) {
            example e = example_for_garbage(some_queries[i], 300, type, i);
            example_mask(&e, 0, i % 2 ? WHET_F16 : WHET_F32, 0); /* the same for all rows */
            for (size_t j = 0; j < 300; j++) {
                const char *at =
                    (const char *)e.attention.mask.data + j * (i % 2 ? 2 : sizeof(float));
                float value = 0;
                if (i % 2) {
                    value = ((const uint16_t *)(const void *)at)[0] == 0xfc00 ? -INFINITY : 0;
                } else {
                    memcpy(&value, at, sizeof value);
                }
                if (value == -INFINITY) {
                    spoil_key(&e, j);
                }
            }
            check_garbage(&e, "masked");
            example_free(&e);
        }
    }
}

/* Values that only some rows see: the weight of the others is zero, and zero times NaN is not. */
TEST(values_that_are_not_finite_reach_only_rows_that_see_them) {
    static const size_t queries[] = {2, 16, 17, 60, 150};
    for (size_t i = 0; i < 5; i++) {
        for (size_t kind = 0; kind < 12; kind++) {
            static const whet_type types[] = {WHET_F32, WHET_Q8_0, WHET_Q4_0, WHET_Q5_1};
            example e = example_for_garbage(queries[i], 150, types[kind / 3], i);
            e.attention.flags = WHET_CAUSAL;
            for (size_t at = 1; at < queries[i]; at += 5) {
                example_set(&e.v, 0, 0, at, at % 20, garbage[kind % 3]);
            }
            check_garbage(&e, "values not finite");
            example_free(&e);
        }
    }
}

/* The same of one head among those that a task takes together. */
TEST(values_of_one_head_that_are_not_finite_reach_only_its_rows) {
    for (size_t i = 0; i < 3; i++) {
        example_shape shape = {.batch = 2, .heads = 16, .kv_heads = 8, .head_dim = 32};
        shape.queries = 3;
        shape.keys = 2100;
        shape.k_type = shape.v_type = i == 2 ? WHET_Q8_0 : i == 1 ? WHET_F16 : WHET_F32;
        shape.layout = TOKENS_FIRST;
        shape.seed = i;
        example e = example_new(shape);
        e.attention.flags = WHET_CAUSAL;
        e.attention.offset = 2097;
        example_set(&e.v, 1, 5, 2099, 7, garbage[i]);
        example_set(&e.v, 0, 2, 2098, 3, garbage[(i + 1) % 3]);
        check_garbage(&e, "values of one head not finite");
        example_free(&e);
    }
}

/* Masked by the mask for one query and seen by the next. */
TEST(a_bad_value_masked_for_some_rows_spoils_the_others_alone) {
    for (size_t i = 1; i < SOME_QUERIES; i++) {
        example e = example_for_garbage(some_queries[i], 150, WHET_F32, i);
        example_mask(&e, MASK_QUERIES | MASK_HEADS | MASK_BATCH, WHET_F32, 0);
        for (size_t j = 0; j < 150; j += 7) {
            example_set(&e.v, j % 2, 0, j, j % 20, garbage[j % 2]);
        }
        check_garbage(&e, "a bad value masked for some");
        example_free(&e);
    }
}

/* Nor is it worked out where rows behind them would lie: a stride's multiples may leave the range
 * of addresses. */
TEST(keys_that_nobody_sees_may_lie_anywhere) {
    static float alone[32], far[32]; /* before all that keys and values span */
    for (whet_type type = WHET_F32; type <= REFERENCE_LAST_TYPE; type++) {
        example e = example_new((example_shape){
            .head_dim = 32, .queries = 1, .keys = 1, .k_type = type, .v_type = type});
        e.attention.out.data = alone;
        CHECK(whet_attention_forward(&e.attention, NULL, NULL) == WHET_OK);
        e.attention.out.data = far;
        e.attention.keys = 2;
        e.attention.flags = WHET_CAUSAL;
        e.attention.k.stride[2] = e.attention.v.stride[2] = PTRDIFF_MAX / 256 * 64;
        CHECK(whet_attention_forward(&e.attention, NULL, NULL) == WHET_OK);
        CHECK(same_bytes(alone, far, sizeof far));
        example_free(&e);
    }
}

/* As with a cache of which only a part is in use, its rows far apart. */
TEST(slots_beyond_the_keys_are_never_read) {
    for (size_t i = 0; i < SOME_QUERIES; i++) {
        example e = example_for_garbage(some_queries[i], 300, WHET_F16, i);
        for (size_t j = 37; j < 300; j++) {
            spoil_key(&e, j);
        }
        /* the strides of 300 keys, of which 37 are there */
        memcpy(e.attention.k.stride, e.k.stride, sizeof e.k.stride);
        memcpy(e.attention.v.stride, e.v.stride, sizeof e.v.stride);
        e.attention.keys = 37;
        check_garbage(&e, "part of a cache");
        example_free(&e);
    }
}
