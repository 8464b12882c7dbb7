/*
 * The backward pass of attention, against the reference in double over awkward
 * sizes, all features and all policies; and the reference itself against
 * differences of its own loss.
 */
#include "attention/example.h"
#include "attention/backward_run.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const temperatures[] = {"softmax",
                                           "fixed:1.7",
                                           "adaptive",
                                           "adaptive:hold",
                                           "poly:0.5/1:floor=0",
                                           "poly:0.3/0.2/1:hold=2:threshold=0.1",
                                           "exp:1.5",
                                           "target:1.5",
                                           "target:0.7:cap=3",
                                           "ssmax:0.4:0.3",
                                           "length:16",
                                           "linear:40",
                                           "hinge:0.3:-0.1:20",
                                           "hinge:-0.2:0.3:12.5:strength=0.6",
                                           "adaptive:strength=0.5",
                                           "target:1.2:strength=0.6"};
#define TEMPERATURES (sizeof temperatures / sizeof temperatures[0])

static const char *const maps[] = {"topk:5",      "hardmax",   "sparsemax",   "entmax15",
                                   "entmax:1.25", "softmax1",  "sigmoid:0.5", "stick-breaking",
                                   "sigmoid",     "topk:1000", "softpick",    "entmax:1.6"};

/* Temperatures before them: those that are known before a row's logits, and one that is not. */
static const char *const compositions[] = {
    "ssmax:0.4:0.3+entmax15",   "ssmax:0.5:1:0.5+entmax:1.6", "length:16+topk:7",
    "fixed:1.7+sparsemax",      "linear:40+softmax1",         "hinge:0.3:-0.1:20+sigmoid:0.5",
    "ssmax:0.4+stick-breaking", "fixed:0.6+softpick",         "adaptive+entmax15",
    "target:0.7:cap=3+topk:9"};
#define COMPOSITIONS (sizeof compositions / sizeof compositions[0])
#define MAPS (sizeof maps / sizeof maps[0])

/* ---- the reference itself ---- */

/* Of the example as it is now. */
static double loss_of(const example *e, const backward_run *w) {
    whet_gradients g = w->gradients;
    g.attention = e->attention;
    return reference_attention_loss(&g);
}

static double float_slope(const example *e, const backward_run *w, float *at) {
    float before = *at, low = before - 0x1p-12f, high = before + 0x1p-12f;
    *at = low;
    double below = loss_of(e, w);
    *at = high;
    double above = loss_of(e, w);
    *at = before;
    return (above - below) / ((double)high - (double)low);
}

static double number_slope(const example *e, const backward_run *w, double *at) {
    double before = *at, step = 1e-5;
    *at = before - step;
    double below = loss_of(e, w);
    *at = before + step;
    double above = loss_of(e, w);
    *at = before;
    return (above - below) / (2 * step);
}

static void check_gradient(const char *name, const char *what, const example *e,
                           const backward_run *w, float *at, const double *right, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double slope = float_slope(e, w, at + i);
        CHECK_MSG(fabs(slope - right[i]) <= 1e-5 * fmax(1, fabs(slope)),
                  "%s: %s %zu: %.9g, not %.9g", name, what, i, right[i], slope);
    }
}

/* A small example of everything under one policy. */
static void check_reference(const char *name, uint64_t seed) {
    example e = example_new((example_shape){.heads = 2,
                                            .kv_heads = 1,
                                            .queries = 3,
                                            .keys = 9,
                                            .head_dim = 4,
                                            .value_dim = 3,
                                            .sharpness = 1.5,
                                            .seed = seed});
    example_policy(&e, name);
    example_alibi(&e);
    float *sinks = example_sinks(&e);
    e.attention.softcap = 4;
    e.attention.flags = WHET_CAUSAL;
    e.attention.offset = 5;
    backward_run w = backward_run_new(&e, WHET_F32);
    reference_gradients right = reference_backward(&w.gradients, SHARP);
    check_gradient(name, "q", &e, &w, (float *)(void *)e.q.base, right.of.q, 2 * 3 * 4);
    check_gradient(name, "k", &e, &w, (float *)(void *)e.k.base, right.of.k, 9 * 4);
    check_gradient(name, "v", &e, &w, (float *)(void *)e.v.base, right.of.v, 9 * 3);
    check_gradient(name, "sink", &e, &w, sinks, right.of.sinks, 2);
    float slopes[2] = {e.attention.alibi_slopes[0], e.attention.alibi_slopes[1]};
    whet_policy policy = e.attention.policies[0];
    e.attention.alibi_slopes = slopes;
    e.attention.policies = &policy;
    check_gradient(name, "slope", &e, &w, slopes, right.of.alibi_slopes, 2);
    if (policy.map != WHET_POLICY_TOPK) { /* whose k is a whole number */
        CHECK_NEAR(number_slope(&e, &w, &policy.map_value[0]), right.of.policies[0].map_value[0],
                   1e-5);
    }
    CHECK_NEAR(number_slope(&e, &w, &policy.value[0]), right.of.policies[0].value[0], 1e-5);
    CHECK_NEAR(number_slope(&e, &w, &policy.value[1]), right.of.policies[0].value[1], 1e-5);
    CHECK_NEAR(number_slope(&e, &w, &policy.strength), right.of.policies[0].strength, 1e-5);
    reference_gradients_free(&right);
    example_free(&e);
}

TEST(the_references_gradients_are_derivatives_of_its_loss) {
    for (size_t i = 0; i < TEMPERATURES; i++) {
        check_reference(temperatures[i], i);
    }
    for (size_t i = 0; i < MAPS; i++) {
        check_reference(maps[i], i);
    }
}

/* ---- sizes ---- */

TEST(gradients_are_right_for_awkward_sizes) {
    static const size_t sizes[] = {1, 2, 15, 16, 17, 23, 24, 25, 31, 33, 97, 127, 191, 193};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j += 1 + i % 3) {
            char what[64];
            snprintf(what, sizeof what, "%zu queries, %zu keys", sizes[i], sizes[j]);
            example e = example_new((example_shape){.queries = sizes[i],
                                                    .keys = sizes[j],
                                                    .head_dim = 1 + (7 * i + j) % 41,
                                                    .value_dim = 1 + (5 * j + i) % 37,
                                                    .seed = i * 100 + j});
            example_policy(&e, i % 2 ? "adaptive" : "softmax");
            backward_run_check(&e, WHET_F32, what);
        }
    }
    backward_run_print_worst();
}

TEST(gradients_are_right_for_large_heads) {
    static const size_t dims[] = {64, 80, 127, 128, 129, 256, 575, 576};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        example e = example_new((example_shape){.queries = 50,
                                                .keys = 70,
                                                .head_dim = dims[i],
                                                .value_dim = dims[(i + 3) % 8],
                                                .seed = i});
        example_policy(&e, "adaptive");
        backward_run_check(&e, WHET_F32, "large head");
    }
    backward_run_print_worst();
}

TEST(gradients_are_right_over_many_keys_and_rows) {
    for (size_t i = 0; i < 4; i++) {
        example e = example_new((example_shape){
            .queries = i % 2 ? 600 : 33, .keys = i % 2 ? 1000 : 4097, .head_dim = 20, .seed = i});
        example_policy(&e, i / 2 ? "adaptive:hold" : "target:2");
        e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
        backward_run_check(&e, WHET_F32, "many");
    }
    backward_run_print_worst();
}

/* ---- policies ---- */

/* Each of these policies, without sinks and with them. */
static void lead_back_through(const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t sinks = 0; sinks < 2; sinks++) {
            example e = example_new((example_shape){.heads = 2,
                                                    .queries = 60,
                                                    .keys = 77,
                                                    .head_dim = 24,
                                                    .sharpness = 1 + (double)sinks,
                                                    .seed = i});
            example_policy(&e, names[i]);
            if (sinks) {
                example_sinks(&e);
            }
            backward_run_check(&e, WHET_F32, names[i]);
        }
    }
    backward_run_print_worst();
}

TEST(every_temperature_is_led_back_through) { lead_back_through(temperatures, TEMPERATURES); }

TEST(every_map_is_led_back_through) { lead_back_through(maps, MAPS); }

TEST(temperatures_before_maps_are_led_back_through) {
    lead_back_through(compositions, COMPOSITIONS);
}

TEST(every_head_has_its_own_policy) {
    example e = example_new((example_shape){.batch = 2,
                                            .heads = TEMPERATURES,
                                            .kv_heads = TEMPERATURES / 2,
                                            .queries = 30,
                                            .keys = 50,
                                            .head_dim = 16});
    example_policies(&e, temperatures, TEMPERATURES);
    example_sinks(&e);
    backward_run_check(&e, WHET_F32, "a policy for each head");
    backward_run_print_worst();
}

TEST(maps_are_led_back_through_in_awkward_sizes) {
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 127, 193, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < MAPS; j++) {
            char what[64];
            size_t queries = sizes[(3 * i + j) % 9];
            snprintf(what, sizeof what, "%s: %zu queries, %zu keys", maps[j], queries, sizes[i]);
            example e = example_new((example_shape){.queries = queries,
                                                    .keys = sizes[i],
                                                    .head_dim = 1 + (7 * i + j) % 41,
                                                    .value_dim = 1 + (5 * j + i) % 37,
                                                    .seed = i * 100 + j});
            example_policy(&e, maps[j]);
            e.attention.flags = j % 2 ? WHET_CAUSAL : 0;
            e.attention.offset = j % 3 ? (int64_t)(sizes[i] / 2) : 0;
            backward_run_check(&e, WHET_F32, what);
        }
    }
    example e = example_new((example_shape){.queries = 33, .keys = 4097, .head_dim = 20});
    example_policy(&e, "stick-breaking");
    backward_run_check(&e, WHET_F32, "4097 keys");
    backward_run_print_worst();
}

/* The lanes of a panel are heads of a group: one of each kind next to each other. */
TEST(maps_and_temperatures_are_led_back_through_side_by_side) {
    const char *names[2 * MAPS];
    for (size_t i = 0; i < 2 * MAPS; i++) {
        names[i] = i % 2 ? maps[i / 2] : temperatures[i / 2];
    }
    for (size_t i = 0; i < 6; i++) {
        char what[64];
        snprintf(what, sizeof what, "mixture %zu", i);
        example e = example_new((example_shape){.batch = 1 + i % 2,
                                                .heads = 2 * MAPS,
                                                .kv_heads = i < 2 ? 1 : MAPS / 2,
                                                .queries = 19 + i,
                                                .keys = 230,
                                                .head_dim = 16,
                                                .seed = i});
        example_policies(&e, names, 2 * MAPS);
        e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
        e.attention.offset = 100;
        e.attention.window = i % 3 == 2 ? 70 : 0;
        e.attention.softcap = i > 2 ? 5 : 0;
        if (i % 3) {
            example_sinks(&e);
            example_mask(&e, MASK_HEADS | MASK_QUERIES, i % 2 ? WHET_F32 : WHET_F16, i % 3);
        }
        if (i > 1) {
            example_alibi(&e);
        }
        backward_run_check(&e, WHET_F32, what);
    }
    backward_run_print_worst();
}

static double of_entropy(const whet_stats *stats, double *slope, void *context) {
    *slope = *(const double *)context;
    return 1 + *slope * stats->entropy;
}

TEST(custom_policies_are_led_back_through_their_slope) {
    double factor = 0.3;
    example e = example_new((example_shape){.queries = 40, .keys = 60, .head_dim = 16});
    whet_policy policy = whet_policy_custom(of_entropy, &factor);
    e.attention.policies = &policy;
    backward_run_check(&e, WHET_F32, "custom");
}

/* ---- features ---- */

TEST(masks_windows_and_offsets_are_respected) {
    for (size_t i = 0; i < 24; i++) {
        char what[64];
        snprintf(what, sizeof what, "mask %zu", i);
        example e = example_new((example_shape){.batch = 2,
                                                .heads = 4,
                                                .kv_heads = i % 3 ? 2 : 1,
                                                .queries = 53,
                                                .keys = 300,
                                                .head_dim = 12,
                                                .seed = i});
        example_policy(&e, temperatures[i % TEMPERATURES]);
        e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
        e.attention.offset = (int64_t)(i * 31 % 260) - 20;
        e.attention.window = i % 4 ? i * 5 : 0;
        if (i % 5 > 2) {
            example_mask(&e, (unsigned)(i % 8), i % 5 == 3 ? WHET_F32 : WHET_F16, i % 3);
        }
        if (i % 3 == 0) {
            example_alibi(&e);
        }
        if (i % 4 == 1) {
            example_sinks(&e);
        }
        backward_run_check(&e, WHET_F32, what);
    }
    backward_run_print_worst();
}

/* More of them than a panel has, so that there are panels that see nothing beside those that do. */
static void lead_back_beyond_the_keys(const char *const *names, size_t count) {
    for (size_t i = 0; i < 2 * count; i++) {
        size_t keys = i % 2 ? 16 : 300;
        example e =
            example_new((example_shape){.queries = 120, .keys = keys, .head_dim = 8, .seed = i});
        example_policy(&e, names[i / 2]);
        e.attention.offset = (int64_t)keys - 11;
        e.attention.window = 8;
        if (i % 4 == 3) {
            example_sinks(&e);
        }
        backward_run_check(&e, WHET_F32, names[i / 2]);
    }
}

TEST(queries_whose_window_lies_behind_all_keys_contribute_nothing) {
    lead_back_beyond_the_keys(temperatures, TEMPERATURES);
    lead_back_beyond_the_keys(maps, MAPS);
    backward_run_print_worst();
}

TEST(soft_caps_are_led_back_through) {
    for (size_t i = 0; i < 6; i++) {
        example e = example_new((example_shape){
            .heads = 2, .queries = 53, .keys = 210, .head_dim = 12, .sharpness = 3, .seed = i});
        example_policy(&e, temperatures[2 * i]);
        e.attention.softcap = i % 2 ? 2.5f : 30;
        e.attention.scale = i % 3 ? 0 : 0.7f;
        if (i > 2) {
            example_alibi(&e);
            example_mask(&e, MASK_QUERIES, WHET_F32, 0);
        }
        backward_run_check(&e, WHET_F32, "soft-cap");
    }
    backward_run_print_worst();
}

TEST(types_and_layouts_go_in_any_combination) {
    static const whet_type plain[] = {WHET_F32, WHET_F16, WHET_BF16};
    for (size_t i = 0; i < 36; i++) {
        char what[64];
        snprintf(what, sizeof what, "combination %zu", i);
        example e = example_new((example_shape){.batch = 2,
                                                .heads = 4,
                                                .kv_heads = 2,
                                                .queries = 37,
                                                .keys = 45,
                                                .head_dim = 19,
                                                .value_dim = 21,
                                                .q_type = plain[i % 3],
                                                .k_type = example_cache_types[i / 3 % CACHE_TYPES],
                                                .v_type = example_cache_types[i % CACHE_TYPES],
                                                .layout = (example_layout)(i % LAYOUTS),
                                                .seed = i});
        example_policy(&e, i % 3 == 2 ? maps[i / 3 % MAPS] : i % 2 ? "adaptive" : "softmax");
        backward_run_check(&e, plain[i / 12], what);
    }
    backward_run_print_worst();
}

/* ---- digits ---- */

/* All values moved by as much. */
static void add_to_values(example *e, float more) {
    for (size_t head = 0; head < e->v.extent[1]; head++) {
        for (size_t j = 0; j < e->v.extent[2]; j++) {
            for (size_t i = 0; i < e->v.extent[3]; i++) {
                const char *at = example_row(&e->v, 0, head, j) + (ptrdiff_t)i * e->v.stride[3];
                example_set(&e->v, 0, head, j, i, (float)reference_load(at, WHET_F32) + more);
            }
        }
    }
}

TEST(a_sharp_row_keeps_the_digits_of_its_small_gradients) {
    example e = example_new((example_shape){.queries = 1, .keys = 2, .head_dim = 1});
    e.attention.scale = 1;
    example_set(&e.q, 0, 0, 0, 0, 12);
    example_set(&e.k, 0, 0, 0, 0, 1);
    example_set(&e.k, 0, 0, 1, 0, 0);
    example_set(&e.v, 0, 0, 0, 0, 3.3f);
    example_set(&e.v, 0, 0, 1, 0, 1.1f);
    backward_run w = backward_run_new(&e, WHET_F32);
    example_set(&w.out, 0, 0, 0, 0, 1);
    backward_run_now(&w, NULL);
    double actual = reference_load(example_row(&w.q, 0, 0, 0), WHET_F32);
    double p = 1 / (1 + exp(12)); /* of the other key */
    CHECK_NEAR(actual / (p * (1 - p) * ((double)3.3f - (double)1.1f)), 1, 2e-6);
    example_free(&e);
}

TEST(values_may_have_much_in_common) {
    for (size_t i = 0; i < TEMPERATURES; i++) {
        example e = example_new((example_shape){.heads = 2,
                                                .queries = i % 2 ? 60 : 5,
                                                .keys = i % 3 ? 277 : 33,
                                                .head_dim = 24,
                                                .sharpness = 1 + (double)(i % 4),
                                                .seed = i});
        example_policy(&e, temperatures[i]);
        if (i % 5 == 4) {
            example_sinks(&e);
        }
        add_to_values(&e, i % 2 ? 100 : -100);
        backward_run_check(&e, WHET_F32, temperatures[i]);
        backward_run_print_worst();
    }
}

/* Up to 32 rows the forward pass sums logits in another order, and beta amplifies a last bit. */
TEST(few_rows_and_a_huge_beta_go_together) {
    static const char *const names[] = {"fixed:1e7", "fixed:1e9", "fixed:1e12", "ssmax:1e8"};
    for (size_t i = 0; i < 64; i++) {
        example e = example_new((example_shape){.heads = 1 + i % 2,
                                                .kv_heads = 1,
                                                .queries = i % 3 ? 1 : 9,
                                                .keys = 1 + 37 * (i % 8),
                                                .head_dim = 96,
                                                .sharpness = i % 5 ? 1 : 50,
                                                .seed = i});
        example_policy(&e, names[i % 4]);
        if (i % 7 == 6) {
            example_sinks(&e);
        }
        backward_run_check(&e, WHET_F32, names[i % 4]);
    }
    backward_run_print_worst();
}

TEST(logits_deep_in_a_soft_cap_keep_their_gradients) {
    for (size_t i = 0; i < 4; i++) {
        example e = example_new((example_shape){
            .queries = i % 2 ? 40 : 3, .keys = 77, .head_dim = 24, .sharpness = 5, .seed = i});
        e.attention.softcap = i / 2 ? 0.5f : 1;
        backward_run_check(&e, WHET_F32, "deep");
    }
    backward_run_print_worst();
}

/* Beta so near 1 that f32 cannot tell, and yet on its way: the moments are still those at beta,
 * with the sink among them. */
TEST(a_target_just_below_the_entropy_moves_beta_as_any_other) {
    for (size_t i = 0; i < 8; i++) {
        example e =
            example_new((example_shape){.queries = 1, .keys = 21, .head_dim = 8, .seed = i});
        double out[8];
        whet_stats stats;
        example_sinks(&e);
        reference_attention(&e.attention, out, &stats, NULL);
        whet_policy policy = whet_policy_target(stats.entropy - 3e-8, 100);
        e.attention.policies = &policy;
        backward_run w = backward_run_new(&e, WHET_F32);
        w.gradients.attention.stats->beta = 1 + 0x1p-26;
        w.gradients.policies = NULL; /* the reference's differences would step across the kink */
        backward_run_now(&w, NULL);
        backward_run_compare(&w, "just below");
        example_free(&e);
    }
    backward_run_print_worst();
}

/* What they say is nobody's but the caller's, but nothing may be read or written for it that is
 * not there. */
TEST(statistics_of_any_bits_do_no_harm) {
    struct rng rng = rng_seeded(77);
    for (size_t i = 0; i < 2 * (TEMPERATURES + MAPS); i++) {
        size_t of = i / 2;
        example e = example_new((example_shape){
            .heads = 2, .kv_heads = 1, .queries = 27, .keys = 205, .head_dim = 8, .seed = i});
        example_policy(&e, of < TEMPERATURES ? temperatures[of] : maps[of - TEMPERATURES]);
        e.attention.flags = i % 3 ? WHET_CAUSAL : 0;
        e.attention.offset = -3;
        backward_run w = backward_run_new(&e, WHET_F32);
        unsigned char *bytes = (unsigned char *)w.gradients.attention.stats;
        for (size_t b = 0; b < 54 * sizeof(whet_stats); b++) {
            bytes[b] = i % 2 ? (unsigned char)rng_integer(&rng, 0, 255) : 0;
        }
        backward_run_now(&w, NULL);
        CHECK(w.status == WHET_OK || w.status == WHET_NOT_FINITE);
        example_free(&e);
    }
}
