/*
 * What whet_attention_plan refuses, field by field: null pointers, shapes, types
 * and flags out of range, strides and sizes that leave the address range,
 * policies that do not fit, outputs that overlap anything. A refused call leaves
 * the plan and the outputs alone.
 */
#include "reference/reference.h"
#include "support/check.h"
#include "whet.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, QUERIES = 3, KEYS = 5, DIM = 8, CAPACITY = 4096 };

static float q[CAPACITY];
static float k[CAPACITY];
static float v[CAPACITY];
static float out[CAPACITY];
static float mask[CAPACITY];
static whet_stats stats[BATCH * HEADS * QUERIES];
static float slopes[HEADS];
static float sinks[HEADS];
static float bias[CAPACITY];
static float betas[BATCH * HEADS * QUERIES];
static float max_logits[HEADS];
static whet_policy policies[HEADS];

/* A description in which everything is used and right. */
static whet_attention sound(void) {
    for (size_t i = 0; i < HEADS; i++) {
        policies[i] = i % 2 ? whet_policy_adaptive() : whet_policy_softmax();
    }
    whet_attention a = {.size = sizeof a,
                        .batch = BATCH,
                        .heads = HEADS,
                        .kv_heads = KV_HEADS,
                        .queries = QUERIES,
                        .keys = KEYS,
                        .head_dim = DIM,
                        .value_dim = DIM};
    a.q.data = q;
    a.k.data = k;
    a.v.data = v;
    a.out.data = out;
    a.mask = (whet_mask){.data = mask, .stride = {0, 0, KEYS * sizeof(float), 0}};
    a.alibi_slopes = slopes;
    a.sinks = sinks;
    a.bias = (whet_key_bias){.data = bias, .stride = {0, KEYS * sizeof(float), 0}};
    a.max_logits = max_logits;
    a.policies = policies;
    a.policy_count = HEADS;
    a.stats = stats;
    a.softcap = 30;
    a.flags = WHET_CAUSAL;
    a.offset = 2;
    a.window = 4;
    return a;
}

/* The status of plan and forward, which must agree; errors must have left everything alone. */
static whet_status status_of(const whet_attention *a) {
    whet_plan plan, before;
    memset(&plan, 0x5a, sizeof plan);
    plan.size = sizeof plan;
    memcpy(&before, &plan, sizeof before);
    whet_status status = whet_attention_plan(a, &plan);
    if (status != WHET_OK) {
        CHECK(same_bytes(&plan, &before, sizeof plan));
        uint64_t row = 4711;
        memset(out, 0x77, sizeof out);
        memset(stats, 0x77, sizeof stats);
        memset(max_logits, 0x77, sizeof max_logits);
        CHECK_INT(whet_attention_forward(a, NULL, &row), status);
        CHECK_INT(row, 4711);
        for (size_t i = 0; i < sizeof out; i++) {
            CHECK(((unsigned char *)out)[i] == 0x77);
        }
        for (size_t i = 0; i < sizeof stats; i++) {
            CHECK(((unsigned char *)stats)[i] == 0x77);
        }
        for (size_t i = 0; i < sizeof max_logits; i++) {
            CHECK(((unsigned char *)max_logits)[i] == 0x77);
        }
    }
    return status;
}

/* The same with betas in place of policies. */
static whet_attention sound_with_betas(void) {
    whet_attention a = sound();
    a.policy_count = 1; /* the first is softmax */
    a.betas = betas;
    return a;
}

#define STATUS(expected) CHECK_INT(status_of(&a), expected)

TEST(a_sound_description_is_planned) {
    whet_attention a = sound();
    STATUS(WHET_OK);
    CHECK_INT(whet_attention_plan(&a, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_forward(NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
}

TEST(another_size_of_the_struct_is_refused) {
    const size_t wrong[] = {0, 1, sizeof(whet_attention) - 8, sizeof(whet_attention) + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_attention a = sound();
        a.size = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
    }
}

TEST(a_plan_of_another_size_is_refused_and_left_alone) {
    const size_t wrong[] = {0, 1, sizeof(whet_plan) - 8, sizeof(whet_plan) + 8, SIZE_MAX};
    whet_attention a = sound();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_plan plan, before;
        memset(&plan, 0x5a, sizeof plan);
        plan.size = wrong[i];
        memcpy(&before, &plan, sizeof before);
        CHECK_INT(whet_attention_plan(&a, &plan), WHET_ERROR_ARGUMENT);
        CHECK(same_bytes(&plan, &before, sizeof plan));
    }
}

TEST(a_plan_whose_size_has_changed_is_not_run) {
    whet_attention a = sound();
    whet_plan plan = {.size = sizeof plan};
    REQUIRE(whet_attention_plan(&a, &plan) == WHET_OK);
    CHECK(plan.size == sizeof plan && plan.phases > 0);
    size_t bytes = whet_attention_memory(&plan, NULL);
    size_t rounded = (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
    void *memory = aligned_alloc(WHET_ALIGNMENT, rounded);
    REQUIRE(memory != NULL);
    plan.workspace = memory;
    plan.size = sizeof plan - 8;
    memset(out, 0x77, sizeof out);
    CHECK_INT(whet_attention_run_task(&plan, 0, 0, memory, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_execute(&plan, NULL, memory, NULL), WHET_ERROR_ARGUMENT);
    CHECK(whet_attention_memory(&plan, NULL) == SIZE_MAX);
    for (size_t i = 0; i < sizeof out; i++) {
        CHECK(((unsigned char *)out)[i] == 0x77);
    }
    plan.size = sizeof plan;
    CHECK_INT(whet_attention_execute(&plan, NULL, memory, NULL), WHET_OK);
    free(memory);
}

TEST(missing_tensors_are_refused) {
    whet_attention a = sound();
    a.q.data = NULL;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.k.data = NULL;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.v.data = NULL;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.out.data = NULL;
    STATUS(WHET_ERROR_ARGUMENT);
}

TEST(nothing_to_do_needs_no_tensors) {
    whet_attention a = {.size = sizeof a, .heads = 2, .head_dim = 4};
    whet_plan plan = {.size = sizeof plan};
    CHECK_INT(whet_attention_plan(&a, &plan), WHET_OK);
    CHECK_INT(plan.phases, 0);
    CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
    /* no keys: zeros come out, whether or not there are k and v */
    a.queries = 3;
    a.q.data = q;
    a.out.data = out;
    memset(out, 0x77, sizeof out);
    CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
    for (size_t i = 0; i < 2 * 3 * 4; i++) {
        CHECK(out[i] == 0);
    }
}

/* ---- shapes ---- */

TEST(zero_means_the_default) {
    whet_attention a = sound();
    whet_plan plan = {.size = sizeof plan};
    a.batch = 0;
    a.kv_heads = 0;
    a.value_dim = 0;
    a.scale = 0;
    a.policy_count = 0;
    CHECK_INT(whet_attention_plan(&a, &plan), WHET_OK);
}

TEST(dimensions_out_of_range_are_refused) {
    const size_t wrong[] = {577, 1000, SIZE_MAX / 2, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_attention a = sound();
        a.head_dim = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
        a = sound();
        a.value_dim = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
    }
    whet_attention a = sound();
    a.head_dim = 0;
    STATUS(WHET_ERROR_ARGUMENT);
}

TEST(heads_that_do_not_divide_are_refused) {
    const size_t wrong[] = {3, 5, 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_attention a = sound();
        a.kv_heads = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
    }
    whet_attention a = sound();
    a.heads = 0;
    STATUS(WHET_ERROR_ARGUMENT);
    a.kv_heads = 0;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.heads = 1; /* fewer than key heads */
    STATUS(WHET_ERROR_ARGUMENT);
}

TEST(unknown_flags_and_numbers_that_make_no_sense_are_refused) {
    whet_attention a = sound();
    a.flags = 4;
    STATUS(WHET_ERROR_ARGUMENT);
    a.flags = WHET_CAUSAL | 0x80000000u;
    STATUS(WHET_ERROR_ARGUMENT);
    const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        a = sound();
        a.scale = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
        a = sound();
        a.softcap = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
    }
    a = sound();
    a.softcap = -1;
    STATUS(WHET_ERROR_ARGUMENT);
}

/* ---- types ---- */

static void to_f32(const void *row, float *result, size_t n, void *context) {
    (void)row;
    (void)context;
    memset(result, 0, n * sizeof *result);
}

TEST(types_that_a_tensor_cannot_have_are_refused) {
    whet_attention a = sound();
    a.q.type = WHET_CUSTOM;
    a.q.to_f32 = to_f32;
    a.q.stride[0] = a.q.stride[1] = a.q.stride[2] = 64;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.out.type = WHET_CUSTOM;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.mask.type = WHET_BF16;
    STATUS(WHET_ERROR_ARGUMENT);
    a.mask.type = WHET_CUSTOM;
    STATUS(WHET_ERROR_ARGUMENT);
    whet_tensor *const tensors[] = {&a.q, &a.k, &a.v};
    for (size_t i = 0; i < 3; i++) {
        a = sound();
        tensors[i]->type = (whet_type)(REFERENCE_LAST_TYPE + 1);
        STATUS(WHET_ERROR_ARGUMENT);
        tensors[i]->type = (whet_type)1000;
        STATUS(WHET_ERROR_ARGUMENT);
    }
    a = sound();
    a.out.type = (whet_type)77;
    STATUS(WHET_ERROR_ARGUMENT);
}

static const whet_type quantised[] = {WHET_Q8_0, WHET_Q4_0, WHET_Q4_1,
                                      WHET_Q5_0, WHET_Q5_1, WHET_IQ4_NL};
static const ptrdiff_t quantised_bytes[] = {34, 18, 20, 22, 24, 18};

enum { QUANTISED = sizeof quantised / sizeof quantised[0] };

TEST(queries_outputs_and_masks_cannot_be_quantised) {
    for (size_t i = 0; i < QUANTISED; i++) {
        whet_attention a = sound();
        a.head_dim = a.value_dim = 32;
        STATUS(WHET_OK);
        a.q.type = quantised[i];
        STATUS(WHET_ERROR_ARGUMENT);
        a.q.type = WHET_F32;
        a.out.type = quantised[i];
        STATUS(WHET_ERROR_ARGUMENT);
        a.out.type = WHET_F32;
        a.mask.type = quantised[i];
        STATUS(WHET_ERROR_ARGUMENT);
    }
}

TEST(quantised_rows_are_whole_blocks) {
    static const size_t wrong[] = {1, 8, 31, 33, 48, 100};
    for (size_t i = 0; i < 6 * QUANTISED; i++) {
        whet_attention a = sound();
        a.head_dim = wrong[i / QUANTISED];
        a.value_dim = 32;
        a.k.type = quantised[i % QUANTISED];
        STATUS(WHET_ERROR_ARGUMENT);
        a.head_dim = 32;
        STATUS(WHET_OK);
        a.v.type = quantised[i % QUANTISED];
        STATUS(WHET_OK);
        a.value_dim = wrong[i / QUANTISED];
        STATUS(WHET_ERROR_ARGUMENT);
        a.value_dim = 32;
        a.v.type = WHET_F32;
        STATUS(WHET_OK);
    }
}

TEST(quantised_rows_are_aligned_to_their_scales) {
    for (size_t i = 0; i < QUANTISED; i++) {
        whet_attention a = sound();
        a.head_dim = 32;
        a.k.type = quantised[i];
        a.k.data = (char *)k + 2;
        STATUS(WHET_OK);
        a.k.stride[3] = 7; /* is not looked at */
        STATUS(WHET_OK);
        a.k.data = (char *)k + 1;
        STATUS(WHET_ERROR_ARGUMENT);
        for (int axis = 0; axis < 3; axis++) {
            a.k = (whet_tensor){
                .data = k, .type = quantised[i], .stride = {400, 200, quantised_bytes[i], 0}};
            STATUS(WHET_OK);
            a.k.stride[axis]++;
            STATUS(WHET_ERROR_ARGUMENT);
        }
        a.k.stride[2] = 0; /* all positions in one place */
        STATUS(WHET_ERROR_ARGUMENT);
    }
}

/* The last byte of a row counts: outputs must keep clear of it. */
TEST(quantised_rows_are_as_long_as_their_blocks) {
    for (size_t i = 0; i < QUANTISED; i++) {
        const ptrdiff_t bytes = BATCH * KV_HEADS * KEYS * quantised_bytes[i];
        whet_attention a = sound();
        a.head_dim = 32;
        a.k.type = quantised[i];
        a.k.data = (char *)out + sizeof out / 2 - bytes + 2;
        a.out.data = (char *)out + sizeof out / 2;
        STATUS(WHET_ERROR_OVERLAP);
        a.k.data = (char *)out + sizeof out / 2 - bytes;
        STATUS(WHET_OK);
        a.keys = SIZE_MAX / 64;
        STATUS(WHET_ERROR_OVERFLOW);
    }
}

TEST(custom_types_need_a_function_and_strides) {
    whet_attention a = sound();
    whet_tensor *const tensors[] = {&a.k, &a.v};
    for (size_t i = 0; i < 2; i++) {
        a = sound();
        tensors[i]->type = WHET_CUSTOM;
        tensors[i]->stride[0] = 200;
        tensors[i]->stride[1] = 100;
        tensors[i]->stride[2] = 20;
        STATUS(WHET_ERROR_ARGUMENT); /* no function */
        tensors[i]->to_f32 = to_f32;
        STATUS(WHET_OK);
        memset(tensors[i]->stride, 0, sizeof tensors[i]->stride);
        STATUS(WHET_ERROR_ARGUMENT); /* no strides */
    }
}

TEST(elements_that_are_not_aligned_are_refused) {
    whet_attention a = sound();
    a.q.data = (char *)q + 1;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.out.data = (char *)out + 2;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound();
    a.k.stride[0] = a.k.stride[1] = 400;
    a.k.stride[2] = 34;
    a.k.stride[3] = 4;
    STATUS(WHET_ERROR_ARGUMENT);
}

TEST(floats_that_are_not_aligned_are_refused) {
    whet_attention a = sound();
    a.bias.data = (const float *)(const void *)((const char *)bias + 2);
    STATUS(WHET_ERROR_ARGUMENT);
    for (int axis = 0; axis < 3; axis++) {
        a = sound();
        a.bias.stride[axis] = 6;
        STATUS(WHET_ERROR_ARGUMENT);
    }
    a = sound();
    a.max_logits = (float *)(void *)((char *)max_logits + 1);
    STATUS(WHET_ERROR_ARGUMENT);
    a.queries = 0;
    STATUS(WHET_ERROR_ARGUMENT);
    a = sound_with_betas();
    STATUS(WHET_OK);
    a.betas = (const float *)(const void *)((const char *)betas + 2);
    STATUS(WHET_ERROR_ARGUMENT);
}

/* ---- sizes ---- */

TEST(sizes_that_leave_the_address_range_are_refused) {
    const size_t sizes[] = {SIZE_MAX,         SIZE_MAX - 1,      SIZE_MAX / 2,
                            SIZE_MAX / 2 + 1, SIZE_MAX / DIM,    SIZE_MAX / DIM / 4,
                            SIZE_MAX / 4 + 1, SIZE_MAX / 16 + 1, SIZE_MAX / 4};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        whet_attention a = sound();
        a.batch = sizes[i];
        STATUS(WHET_ERROR_OVERFLOW);
        a = sound();
        a.queries = sizes[i];
        STATUS(WHET_ERROR_OVERFLOW);
        a = sound();
        a.keys = sizes[i];
        STATUS(WHET_ERROR_OVERFLOW);
        a = sound();
        a.heads = sizes[i] / KV_HEADS * KV_HEADS;
        a.policy_count = 1;
        STATUS(WHET_ERROR_OVERFLOW);
    }
    /* each of them possible, but not together */
    whet_attention a = sound();
    a.batch = a.queries = (size_t)1 << 30;
    a.stats = NULL;
    a.mask.data = NULL;
    STATUS(WHET_ERROR_OVERFLOW);
    a = sound();
    a.batch = a.keys = (size_t)1 << 30;
    STATUS(WHET_ERROR_OVERFLOW);
}

TEST(offsets_out_of_range_are_refused_and_any_window_is_fine) {
    const int64_t offsets[] = {INT64_MAX, INT64_MIN, (int64_t)1 << 40, -((int64_t)1 << 40)};
    for (size_t i = 0; i < 4; i++) {
        whet_attention a = sound();
        a.offset = offsets[i];
        STATUS(WHET_ERROR_OVERFLOW);
    }
    const size_t windows[] = {1, KEYS, SIZE_MAX / 2, SIZE_MAX};
    for (size_t i = 0; i < 4; i++) {
        whet_attention a = sound();
        a.window = windows[i];
        STATUS(WHET_OK);
    }
}

/* Alone, each stride leaves the address range; the others stay small. */
TEST(strides_that_leave_the_address_range_are_refused) {
    const ptrdiff_t strides[] = {PTRDIFF_MAX - 7, PTRDIFF_MIN,     PTRDIFF_MAX / 2 + 9,
                                 PTRDIFF_MIN / 2, PTRDIFF_MIN / 4, PTRDIFF_MAX / 2 + 1};
    whet_attention a = sound();
    whet_tensor *const tensors[] = {&a.q, &a.k, &a.v};
    for (size_t s = 0; s < sizeof strides / sizeof strides[0]; s++) {
        for (int axis = 0; axis < 4; axis++) {
            const ptrdiff_t small[4] = {HEADS * KEYS * DIM * 4, KEYS * DIM * 4, DIM * 4, 4};
            ptrdiff_t stride = strides[s] / 4 * 4;
            /* an axis of two reaches one stride, which a positive one may just do */
            bool reaches = axis >= 2 || stride < 0;
            for (size_t t = 0; t < 3 && reaches; t++) {
                a = sound();
                memcpy(tensors[t]->stride, small, sizeof small);
                tensors[t]->stride[axis] = stride;
                CHECK_MSG(status_of(&a) == WHET_ERROR_OVERFLOW, "tensor %zu, axis %d, stride %td",
                          t, axis, stride);
            }
            if (reaches) {
                a = sound();
                memcpy(a.out.stride, small, sizeof small);
                a.out.stride[axis] = stride;
                CHECK_MSG(status_of(&a) == WHET_ERROR_OVERFLOW, "out, axis %d, stride %td", axis,
                          stride);
                a = sound();
                a.mask.stride[axis] = stride;
                CHECK_MSG(status_of(&a) == WHET_ERROR_OVERFLOW, "mask, axis %d, stride %td", axis,
                          stride);
            }
        }
    }
}

/* Two ends further apart than PTRDIFF_MAX, each of them an address. */
TEST(spans_that_no_object_has_are_refused) {
    const ptrdiff_t small[4] = {HEADS * KEYS * DIM * 4, KEYS * DIM * 4, DIM * 4, 4};
    const ptrdiff_t far = PTRDIFF_MAX - 3;
    whet_attention a = sound();
    ptrdiff_t *const strides[] = {a.q.stride, a.k.stride, a.v.stride, a.out.stride, a.mask.stride};
    for (size_t t = 0; t < sizeof strides / sizeof strides[0]; t++)
        for (int axis = 0; axis < 2; axis++) {
            a = sound();
            a.heads = 2;
            a.policy_count = 1;
            memcpy(strides[t], small, sizeof small);
            strides[t][axis] = far;
            CHECK_MSG(status_of(&a) == WHET_ERROR_OVERFLOW, "tensor %zu, axis %d", t, axis);
        }
    a = sound();
    a.bias.stride[0] = far;
    STATUS(WHET_ERROR_OVERFLOW);
    a = sound();
    a.stats_stride = ((size_t)PTRDIFF_MAX / (BATCH * HEADS * QUERIES - 1) / 8 + 1) * 8;
    STATUS(WHET_ERROR_OVERFLOW);
    a = sound();
    const ptrdiff_t found[4] = {0, PTRDIFF_MAX - 3, 256, 4};
    memcpy(a.k.stride, found, sizeof found);
    STATUS(WHET_ERROR_OVERFLOW);
    a.heads = a.kv_heads = a.policy_count = 1; /* and the stride means nothing */
    STATUS(WHET_OK);
}

TEST(a_bias_that_leaves_the_address_range_is_refused) {
    for (int axis = 0; axis < 3; axis++) {
        whet_attention a = sound();
        a.bias.stride[axis] = PTRDIFF_MIN / 4 * 4;
        STATUS(WHET_ERROR_OVERFLOW);
        a.keys = 0; /* nothing is read */
        a.heads = a.kv_heads = a.batch = 1;
        a.policy_count = 1;
        STATUS(WHET_OK);
    }
    whet_attention a = sound();
    a.bias.stride[2] = PTRDIFF_MAX / 4 * 4;
    STATUS(WHET_ERROR_OVERFLOW);
}

TEST(statistics_too_close_not_aligned_or_too_far_are_refused) {
    const size_t wrong[] = {1, 8, sizeof(whet_stats) - 8, sizeof(whet_stats) + 4, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_attention a = sound();
        a.stats_stride = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
    }
    whet_attention a = sound();
    a.stats_stride = SIZE_MAX / 4 + 1;
    STATUS(WHET_ERROR_OVERFLOW);
}

/* ---- policies ---- */

TEST(policy_counts_other_than_one_and_the_heads_are_refused) {
    const size_t wrong[] = {2, 3, HEADS + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_attention a = sound();
        a.policy_count = wrong[i];
        STATUS(WHET_ERROR_ARGUMENT);
    }
    whet_attention a = sound();
    a.policy_count = 1;
    STATUS(WHET_OK);
    a.policies = NULL;
    STATUS(WHET_OK);
}

TEST(policies_that_make_no_sense_are_refused_for_any_head) {
    for (size_t head = 0; head < HEADS; head++) {
        whet_attention a = sound();
        policies[head] = whet_policy_fixed(-1);
        STATUS(WHET_ERROR_POLICY);
        policies[head] = (whet_policy){0};
        STATUS(WHET_ERROR_POLICY);
        policies[head] = whet_policy_target(1, 0);
        STATUS(WHET_ERROR_POLICY);
        policies[head] = whet_policy_custom(NULL, NULL);
        STATUS(WHET_ERROR_POLICY);
    }
}

TEST(betas_are_refused_beside_a_temperature) {
    whet_attention a = sound();
    a.betas = betas;
    STATUS(WHET_ERROR_ARGUMENT);
    for (size_t i = 0; i < HEADS; i++) {
        policies[i] = i % 2 ? whet_policy_sigmoid((double)NAN) : whet_policy_hardmax();
    }
    STATUS(WHET_OK);
    policies[HEADS - 1] = whet_policy_compose(whet_policy_fixed(2), whet_policy_hardmax());
    STATUS(WHET_ERROR_ARGUMENT);
    a.policies = NULL;
    a.policy_count = 0;
    STATUS(WHET_OK);
}

TEST(maps_are_taken_for_any_head) {
    const whet_policy maps[] = {whet_policy_topk(3),      whet_policy_hardmax(),
                                whet_policy_sparsemax(),  whet_policy_entmax15(),
                                whet_policy_entmax(1.25), whet_policy_softmax1(),
                                whet_policy_sigmoid(1),   whet_policy_stick_breaking()};
    for (size_t m = 0; m < sizeof maps / sizeof maps[0]; m++) {
        for (size_t head = 0; head < HEADS; head++) {
            whet_attention a = sound();
            policies[head] = maps[m];
            STATUS(WHET_OK);
        }
    }
}

/* ---- overlaps ---- */

TEST(outputs_over_inputs_are_refused) {
    float *const inputs[] = {q, k, v, mask, bias};
    for (size_t i = 0; i < 5; i++) {
        whet_attention a = sound();
        a.out.data = inputs[i];
        STATUS(WHET_ERROR_OVERLAP);
        a.out.data = inputs[i] + 7;
        STATUS(WHET_ERROR_OVERLAP);
        a = sound();
        a.stats = (whet_stats *)(void *)inputs[i];
        STATUS(WHET_ERROR_OVERLAP);
    }
    /* adjacent memory is fine */
    whet_attention a = sound();
    a.out.data = q + BATCH * HEADS * QUERIES * DIM;
    STATUS(WHET_OK);
    a.q.data = q + 1;
    STATUS(WHET_ERROR_OVERLAP);
}

TEST(outputs_over_what_belongs_to_heads_and_rows_are_refused) {
    float *const inputs[] = {q, k, v, mask, bias, betas, sinks, slopes};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        whet_attention a = sound_with_betas();
        a.max_logits = inputs[i] + 1;
        STATUS(WHET_ERROR_OVERLAP);
        a = sound_with_betas();
        a.out.data = inputs[i] + 1;
        STATUS(WHET_ERROR_OVERLAP);
    }
    whet_attention a = sound_with_betas();
    a.max_logits = (float *)(void *)&policies[0].value[0];
    STATUS(WHET_ERROR_OVERLAP);
    a.max_logits = (float *)(void *)stats;
    STATUS(WHET_ERROR_OVERLAP);
    a.max_logits = out + BATCH * HEADS * QUERIES * DIM - 1;
    STATUS(WHET_ERROR_OVERLAP);
    a.max_logits = out + BATCH * HEADS * QUERIES * DIM;
    STATUS(WHET_OK);
    a.max_logits = bias + HEADS * KEYS;
    STATUS(WHET_OK);
}

TEST(statistics_over_outputs_are_refused) {
    whet_attention a = sound();
    a.out.data = stats;
    STATUS(WHET_ERROR_OVERLAP);
    a = sound();
    a.stats = (whet_stats *)(void *)(out + 40);
    STATUS(WHET_ERROR_OVERLAP);
}

TEST(outputs_over_each_other_are_refused) {
    whet_attention a = sound();
    const ptrdiff_t good[4] = {HEADS * QUERIES * DIM * 4, QUERIES * DIM * 4, DIM * 4, 4};
    for (int axis = 0; axis < 3; axis++) {
        a = sound();
        memcpy(a.out.stride, good, sizeof good);
        STATUS(WHET_OK);
        a.out.stride[axis] = 0;
        STATUS(WHET_ERROR_OVERLAP);
        a.out.stride[axis] = good[axis] - 4;
        STATUS(WHET_ERROR_OVERLAP);
    }
    /* heads last: [batch][query][element][head] */
    a = sound();
    const ptrdiff_t heads_last[4] = {QUERIES * DIM * HEADS * 4, 4, DIM * HEADS * 4, HEADS * 4};
    memcpy(a.out.stride, heads_last, sizeof heads_last);
    STATUS(WHET_OK);
}

TEST(positions_in_one_place_are_refused) {
    whet_attention a = sound();
    whet_tensor *const tensors[] = {&a.q, &a.k, &a.v};
    const ptrdiff_t stride[4] = {HEADS * KEYS * DIM * 4, KEYS * DIM * 4, 0, 4};
    for (size_t i = 0; i < 3; i++) {
        a = sound();
        memcpy(tensors[i]->stride, stride, sizeof stride);
        STATUS(WHET_ERROR_ARGUMENT);
    }
}

TEST(inputs_may_share_memory) {
    whet_attention a = sound();
    a.v.data = k;
    STATUS(WHET_OK);
    a.q.data = k;
    STATUS(WHET_OK);
}

/* A stride of 0 repeats a tensor for every batch. Heads in one place are one key head, which
 * kv_heads says; a stride that was forgotten is no way to say it. */
TEST(batches_may_share_a_tensor_and_heads_may_not) {
    whet_attention a = sound();
    whet_tensor *const tensors[] = {&a.q, &a.k, &a.v};
    const ptrdiff_t shared[4] = {0, KEYS * DIM * 4, DIM * 4, 4};
    for (size_t i = 0; i < 3; i++) {
        a = sound();
        memcpy(tensors[i]->stride, shared, sizeof shared);
        STATUS(WHET_OK);
        tensors[i]->stride[0] = HEADS * KEYS * DIM * 4;
        tensors[i]->stride[1] = 0;
        STATUS(WHET_ERROR_ARGUMENT);
        tensors[i]->type = WHET_F16;
        STATUS(WHET_ERROR_ARGUMENT);
    }
    a = sound();
    a.k.type = WHET_CUSTOM;
    a.k.to_f32 = to_f32;
    memcpy(a.k.stride, shared, sizeof shared);
    STATUS(WHET_OK);
    a.k.stride[1] = 0;
    STATUS(WHET_ERROR_ARGUMENT);
}

/* The same result as with a copy for every batch. */
TEST(a_tensor_shared_by_batches_is_read_for_each) {
    whet_attention a = {.size = sizeof a, .batch = 2, .heads = 2, .kv_heads = 1, .queries = 1};
    a.keys = KEYS;
    a.head_dim = DIM;
    a.q.data = q;
    a.k.data = k;
    a.v.data = v;
    a.out.data = out;
    for (size_t i = 0; i < (size_t)KEYS * DIM; i++) {
        q[i] = (float)(i % 7);
        k[i] = k[i + (size_t)KEYS * DIM] = (float)(i % 5);
        v[i] = v[i + (size_t)KEYS * DIM] = (float)(i % 3);
    }
    CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
    float copied[4 * DIM];
    memcpy(copied, out, sizeof copied);
    memset(k + (size_t)KEYS * DIM, 0x7f, sizeof copied); /* is not read */
    const ptrdiff_t shared[4] = {0, KEYS * DIM * 4, DIM * 4, 4};
    memcpy(a.k.stride, shared, sizeof shared);
    memcpy(a.v.stride, shared, sizeof shared);
    CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
    CHECK(same_bytes(copied, out, sizeof copied));
}

/* An axis of one has no second element that its stride could lead to. */
TEST(strides_of_axes_of_one_are_not_looked_at) {
    whet_attention a = sound();
    whet_tensor *const tensors[] = {&a.q, &a.k, &a.v};
    const ptrdiff_t any[] = {0, 4, -4, PTRDIFF_MAX - 3, PTRDIFF_MIN};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < sizeof any / sizeof any[0]; j++) {
            a = sound();
            a.batch = a.heads = a.kv_heads = a.policy_count = 1;
            tensors[i]->stride[0] = tensors[i]->stride[1] = any[j];
            tensors[i]->stride[2] = DIM * 4;
            STATUS(WHET_OK);
            CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
        }
}
