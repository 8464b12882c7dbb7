/*
 * What attention's backward pass takes and returns besides the gradients of
 * tensors: gradients of statistics that arrive, those of betas and of a bias of
 * keys, betas that are given, and policies of two parts. All of it against the
 * reference, which is compared with differences of its own loss.
 */
#include "attention/example.h"
#include "attention/backward_run.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const policies[] = {"softmax",
                                       "adaptive",
                                       "target:1.2:strength=0.6",
                                       "ssmax:0.4:0.3",
                                       "topk:5",
                                       "hardmax",
                                       "sparsemax",
                                       "entmax:1.25",
                                       "softmax1",
                                       "sigmoid:0.5",
                                       "stick-breaking",
                                       "adaptive+softmax1",
                                       "ssmax:0.3:0.5+entmax15",
                                       "length:12.5+topk:5",
                                       "exp:1.5:strength=0.5+sigmoid",
                                       "poly:0.3/0.2/1:hold=2:threshold=0.1+stick-breaking",
                                       "adaptive:hold+sparsemax",
                                       "target:1.2+topk:7",
                                       "fixed:1.5+entmax:1.25",
                                       "poly:0.5/1:floor=0+hardmax"};
#define POLICIES (sizeof policies / sizeof policies[0])

/* Those whose beta is 1, which betas of the caller's can replace. */
static const char *const plain[] = {"softmax",     "topk:5",   "hardmax",     "sparsemax",
                                    "entmax:1.25", "softmax1", "sigmoid:0.5", "stick-breaking"};
#define PLAIN (sizeof plain / sizeof plain[0])

/* ---- the reference itself ---- */

static double slope_at(const example *e, const backward_run *w, float *at) {
    whet_gradients g = w->gradients;
    float before = *at, low = before - 0x1p-15f, high = before + 0x1p-15f;
    g.attention = e->attention;
    *at = low;
    double below = reference_attention_loss(&g);
    *at = high;
    double above = reference_attention_loss(&g);
    *at = before;
    return (above - below) / ((double)high - (double)low);
}

static void check_gradient(const char *name, const char *what, const example *e,
                           const backward_run *w, void *data, const double *right, size_t n) {
    float *at = data;
    for (size_t i = 0; i < n; i++) {
        double slope = slope_at(e, w, at + i);
        CHECK_MSG(fabs(slope - right[i]) <= 1e-5 * fmax(1, fabs(slope)),
                  "%s: %s %zu: %.9g, not %.9g", name, what, i, right[i], slope);
    }
}

static void check_number(const char *name, const char *what, const example *e,
                         const backward_run *w, double *at, double right) {
    whet_gradients g = w->gradients;
    double before = *at, step = 1e-5;
    g.attention = e->attention;
    *at = before - step;
    double below = reference_attention_loss(&g);
    *at = before + step;
    double above = reference_attention_loss(&g);
    *at = before;
    double slope = (above - below) / (2 * step);
    CHECK_MSG(fabs(slope - right) <= 1e-5 * fmax(1, fabs(slope)), "%s: %s: %.9g, not %.9g", name,
              what, right, slope);
}

static void check_parameters(const char *name, example *e, const backward_run *w,
                             const whet_policy_gradient *right) {
    whet_policy policy = e->attention.policies[0];
    e->attention.policies = &policy;
    for (size_t i = 0; i < 3; i++) {
        check_number(name, "value", e, w, &policy.value[i], right->value[i]);
    }
    check_number(name, "strength", e, w, &policy.strength, right->strength);
    if (isfinite(policy.hold)) {
        check_number(name, "hold", e, w, &policy.hold, right->hold);
    }
    if (policy.map != WHET_POLICY_TOPK) { /* whose k is a whole number */
        check_number(name, "map_value", e, w, &policy.map_value[0], right->map_value[0]);
    }
}

/* A small example of everything under one policy, or with betas given. */
static void check_reference(const char *name, bool gives_betas, uint64_t seed) {
    enum { HEADS = 2, QUERIES = 3, KEYS = 9 };
    example e = example_new((example_shape){.heads = HEADS,
                                            .kv_heads = 1,
                                            .queries = QUERIES,
                                            .keys = KEYS,
                                            .head_dim = 4,
                                            .value_dim = 3,
                                            .sharpness = 1.5,
                                            .seed = seed});
    example_policy(&e, name);
    example_alibi(&e);
    float *sinks = example_sinks(&e);
    float *betas = gives_betas ? example_betas(&e) : NULL;
    float *bias = example_bias(&e, MASK_HEADS, 0);
    for (size_t i = 0; i < (size_t)HEADS * KEYS; i++) {
        bias[i] = isfinite(bias[i]) ? bias[i] : 0; /* or it had no differences */
    }
    e.attention.softcap = 4;
    e.attention.flags = WHET_CAUSAL;
    e.attention.offset = 5;
    backward_run w = backward_run_new(&e, WHET_F32);
    backward_run_statistics(&w, &e);
    reference_gradients right = reference_backward(&w.gradients, SHARP);
    check_gradient(name, "q", &e, &w, e.q.base, right.of.q, HEADS * QUERIES * 4);
    check_gradient(name, "k", &e, &w, e.k.base, right.of.k, KEYS * 4);
    check_gradient(name, "v", &e, &w, e.v.base, right.of.v, KEYS * 3);
    check_gradient(name, "sink", &e, &w, sinks, right.of.sinks, HEADS);
    check_gradient(name, "bias", &e, &w, bias, right.of.bias, HEADS * KEYS);
    if (betas) {
        check_gradient(name, "beta", &e, &w, betas, right.of.betas, HEADS * QUERIES);
    } else {
        check_parameters(name, &e, &w, &right.of.policies[0]);
    }
    reference_gradients_free(&right);
    example_free(&e);
}

TEST(the_references_gradients_are_derivatives_of_its_loss) {
    for (size_t i = 0; i < POLICIES; i++) {
        check_reference(policies[i], false, i);
    }
    for (size_t i = 0; i < PLAIN; i++) {
        check_reference(plain[i], true, i);
    }
}

/* ---- the library against the reference ---- */

typedef struct features {
    bool statistics, bias, betas, no_output;
} features;

/* A shape with something of everything, by number. */
static example example_of(size_t i, size_t queries, size_t keys) {
    example e = example_new((example_shape){.batch = 1 + i % 2,
                                            .heads = i % 3 ? 4 : 2,
                                            .kv_heads = i % 3 == 1 ? 2 : 1,
                                            .queries = queries,
                                            .keys = keys,
                                            .head_dim = 1 + 7 * i % 41,
                                            .value_dim = 1 + 5 * i % 37,
                                            .seed = i});
    e.attention.flags = i % 4 == 1 ? WHET_CAUSAL : 0;
    e.attention.offset = (int64_t)(keys / 2);
    e.attention.window = i % 5 == 2 ? keys / 3 + 1 : 0;
    e.attention.softcap = i % 3 == 2 ? 5 : 0;
    if (i % 2) {
        example_sinks(&e);
    }
    if (i % 4 == 3) {
        example_mask(&e, MASK_HEADS | MASK_QUERIES, i % 8 == 3 ? WHET_F32 : WHET_F16, i % 3);
    }
    if (i % 5 > 2) {
        example_alibi(&e);
    }
    return e;
}

static void check_example(example *e, features with, size_t i, const char *what) {
    if (with.betas) {
        example_betas(e);
    }
    if (with.bias) {
        example_bias(e, (unsigned)(i % 4), i % 3 == 1);
    }
    backward_run w = backward_run_new(e, WHET_F32);
    if (with.statistics) {
        backward_run_statistics(&w, e);
    }
    if (with.no_output) {
        w.gradients.out.data = NULL;
    }
    backward_run_now(&w, NULL);
    CHECK_MSG(w.status == WHET_OK, "%s: status %d", what, (int)w.status);
    backward_run_compare(&w, what);
    example_free(e);
}

/* Each policy at every short length, and at a third of the long ones, which take the reference
 * longest. */
static void check_sizes(const char *const *names, size_t count, features with) {
    static const size_t sizes[] = {1, 2, 16, 33, 127, 193, 301};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = sizes[i] > 33 ? i % 3 : 0; j<count; j += sizes[i]> 33 ? 3 : 1) {
            char what[96];
            size_t queries = sizes[(3 * i + j) % 5];
            snprintf(what, sizeof what, "%s: %zu queries, %zu keys", names[j], queries, sizes[i]);
            example e = example_of(3 * i + j, queries, sizes[i]);
            example_policy(&e, names[j]);
            check_example(&e, with, i + j, what);
        }
    }
    backward_run_print_worst();
}

TEST(policies_of_two_parts_have_gradients_of_both) {
    check_sizes(policies, POLICIES, (features){.betas = false});
}

TEST(gradients_of_statistics_add_to_that_of_the_output) {
    check_sizes(policies, POLICIES, (features){.statistics = true});
}

TEST(statistics_alone_have_gradients) {
    check_sizes(policies, POLICIES, (features){.statistics = true, .no_output = true});
}

TEST(a_bias_of_keys_has_a_gradient) { check_sizes(policies, POLICIES, (features){.bias = true}); }

TEST(given_betas_have_gradients) { check_sizes(plain, PLAIN, (features){.betas = true}); }

TEST(all_of_them_go_together) {
    check_sizes(policies, POLICIES, (features){.statistics = true, .bias = true});
    check_sizes(plain, PLAIN, (features){.statistics = true, .bias = true, .betas = true});
}

TEST(heads_with_policies_of_their_own_go_together) {
    for (size_t i = 0; i < 8; i++) {
        example e = example_new((example_shape){.batch = 2,
                                                .heads = POLICIES,
                                                .kv_heads = i % 2 ? 4 : 1,
                                                .queries = 19 + i,
                                                .keys = 230,
                                                .head_dim = 16,
                                                .seed = i});
        example_policies(&e, policies, POLICIES);
        example_sinks(&e);
        e.attention.flags = WHET_CAUSAL;
        e.attention.offset = 100;
        check_example(&e, (features){.statistics = i % 4 > 1, .bias = i > 3}, i, "mixture");
    }
    backward_run_print_worst();
}

TEST(types_and_layouts_go_in_any_combination) {
    static const whet_type types[] = {WHET_F32, WHET_F16, WHET_BF16};
    for (size_t i = 0; i < 36; i++) {
        example e = example_new((example_shape){.batch = 2,
                                                .heads = 4,
                                                .kv_heads = 2,
                                                .queries = 37,
                                                .keys = 45,
                                                .head_dim = 19,
                                                .value_dim = 21,
                                                .q_type = types[i % 3],
                                                .k_type = example_cache_types[i / 3 % CACHE_TYPES],
                                                .v_type = example_cache_types[i % CACHE_TYPES],
                                                .layout = (example_layout)(i % LAYOUTS),
                                                .seed = i});
        example_policy(&e, policies[i % POLICIES]);
        check_example(&e, (features){.statistics = i % 2, .bias = i % 3 < 2}, i, policies[i % 20]);
    }
    backward_run_print_worst();
}

/* ---- digits ---- */

TEST(values_may_have_much_in_common) {
    for (size_t i = 0; i < 2 * POLICIES; i++) {
        example e = example_new((example_shape){.heads = 2,
                                                .queries = i % 2 ? 60 : 5,
                                                .keys = i % 3 ? 277 : 33,
                                                .head_dim = 24,
                                                .sharpness = 1 + (double)(i % 4),
                                                .seed = i});
        example_policy(&e, policies[i / 2]);
        for (size_t at = 0; at < 2 * e.v.extent[2] * 24; at++) {
            ((float *)(void *)e.v.base)[at] += i % 2 ? 100 : -100;
        }
        check_example(&e, (features){.statistics = true}, i, policies[i / 2]);
    }
    backward_run_print_worst();
}

/* ---- rows that see nothing ---- */

TEST(rows_that_see_no_key_have_gradients_of_their_sinks_alone) {
    for (size_t i = 0; i < POLICIES; i++) {
        example e =
            example_new((example_shape){.queries = 120, .keys = 300, .head_dim = 8, .seed = i});
        example_policy(&e, policies[i]);
        example_sinks(&e);
        e.attention.offset = 289;
        e.attention.window = 8;
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_statistics(&w, &e);
        backward_run_now(&w, NULL);
        CHECK_INT(w.status, WHET_OK);
        CHECK_MSG(w.gradients.betas[119] == 0, "%s", policies[i]);
        backward_run_compare(&w, policies[i]);
        example_free(&e);
    }
}

TEST(without_keys_the_sinks_get_all_of_logsumexp) {
    example e = example_new((example_shape){.heads = 2, .queries = 40, .keys = 0, .head_dim = 9});
    example_sinks(&e);
    backward_run w = backward_run_new(&e, WHET_F32);
    backward_run_statistics(&w, &e);
    backward_run_now(&w, NULL);
    CHECK_INT(w.status, WHET_OK);
    for (size_t head = 0; head < 2; head++) {
        double sum = 0;
        for (size_t i = 0; i < 40; i++) {
            sum += (double)w.gradients.logsumexp[head * 40 + i];
        }
        CHECK_NEAR((double)w.gradients.sinks[head], sum, 1e-5);
    }
    example_free(&e);
}

/* ---- what is not finite ---- */

TEST(gradients_of_statistics_that_are_not_finite_spoil_their_rows) {
    for (size_t n = 0; n < 3 * POLICIES; n++) {
        size_t i = n / 3;
        example e = example_new((example_shape){
            .batch = 2, .heads = 4, .kv_heads = 2, .queries = 40, .keys = 70, .head_dim = 9});
        example_policy(&e, policies[i]);
        example_sinks(&e);
        example_bias(&e, MASK_BATCH | MASK_HEADS, 0);
        e.attention.flags = WHET_CAUSAL;
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_statistics(&w, &e);
        const float *const arrays[] = {w.gradients.logsumexp, w.gradients.entropy,
                                       w.gradients.entropy_after};
        if (arrays[n % 3]) {
            float *array;
            memcpy(&array, &arrays[n % 3], sizeof array);
            array[(4 + 2) * 40 + 13] = NAN;
            array[(4 + 3) * 40 + 2] = -INFINITY;
            backward_run_now(&w, NULL);
            CHECK_INT(w.status, WHET_NOT_FINITE);
            CHECK_INT(w.first_bad_row, (4 + 2) * 40 + 13);
            CHECK(isnan(w.gradients.betas[(4 + 2) * 40 + 13]));
            backward_run_compare(&w, policies[i]);
        }
        example_free(&e);
    }
}

/* ---- bit for bit ---- */

/* One task for a slice or several, every policy in its turn. */
static example problem(size_t i) {
    example e = example_new((example_shape){.batch = i % 2 ? 3 : 1,
                                            .heads = i < 6 ? 2 : 6,
                                            .kv_heads = i < 6 ? 1 : 3,
                                            .queries = i % 3 ? 301 : 20,
                                            .keys = 230,
                                            .head_dim = 21,
                                            .value_dim = 18,
                                            .seed = i});
    example_policy(&e, policies[i % POLICIES]);
    example_sinks(&e);
    example_alibi(&e);
    example_bias(&e, (unsigned)(i % 4), i % 3);
    e.attention.flags = i % 3 == 1 ? WHET_CAUSAL : 0;
    return e;
}

TEST(any_number_of_threads_gives_the_same_gradients) {
    for (size_t i = 0; i < 14; i++) {
        example e = problem(i);
        backward_run w = backward_run_new(&e, WHET_F32);
        if (i % 4 == 3) {
            backward_run_statistics(&w, &e);
        }
        backward_run_now(&w, NULL);
        CHECK_INT(w.status, WHET_OK);
        size_t size, again;
        unsigned char *expected = backward_run_bytes(&w, &size);
        for (size_t threads = 2; threads < 6; threads += 3) {
            whet_pool *pool = NULL;
            REQUIRE(whet_pool_create(threads, &pool) == WHET_OK);
            whet_executor executor = whet_pool_executor(pool);
            memset(w.gradients.betas, 0x55, sizeof(float));
            memset(w.gradients.bias.data, 0x55, sizeof(float));
            backward_run_now(&w, &executor);
            unsigned char *bytes = backward_run_bytes(&w, &again);
            CHECK_MSG(same_bytes(bytes, expected, size), "%zu threads: problem %zu", threads, i);
            free(bytes);
            whet_pool_destroy(pool);
        }
        free(expected);
        example_free(&e);
    }
}

TEST(each_gradient_is_the_same_without_the_others) {
    for (size_t i = 0; i < 14; i++) {
        example e = problem(i);
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_now(&w, NULL);
        size_t size, again;
        unsigned char *expected = backward_run_bytes(&w, &size);
        const whet_gradients all = w.gradients;
        for (int only = 0; only < 2; only++) {
            w.gradients =
                (whet_gradients){.size = sizeof all, .attention = all.attention, .out = all.out};
            w.gradients.betas = only ? NULL : all.betas;
            w.gradients.bias = only ? all.bias : (whet_key_bias_out){.data = NULL};
            memset(all.betas, only ? 0 : 0x55, only ? 0 : sizeof(float));
            memset(all.bias.data, 0x55, only ? sizeof(float) : 0);
            backward_run_now(&w, NULL);
            CHECK_INT(w.status, WHET_OK);
        }
        w.gradients = all;
        unsigned char *bytes = backward_run_bytes(&w, &again);
        CHECK_MSG(same_bytes(bytes, expected, size), "problem %zu", i);
        free(bytes);
        free(expected);
        example_free(&e);
    }
}

TEST(the_gradient_of_a_bias_sums_over_the_axes_it_lacks) {
    for (size_t i = 0; i < 32; i++) {
        example e = example_new((example_shape){.batch = 1 + i % 3,
                                                .heads = i % 5 ? 6 : 12,
                                                .kv_heads = i % 2 ? 3 : 2,
                                                .queries = 31 + 60 * (i % 4),
                                                .keys = 195 + i,
                                                .head_dim = 8,
                                                .seed = i});
        example_policy(&e, i % 7 ? "adaptive" : "entmax15");
        example_bias(&e, (unsigned)(i % 4), 0);
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_bias_gradient(&w, &e, (unsigned)(i / 4 % 4));
        backward_run_now(&w, NULL);
        CHECK_INT(w.status, WHET_OK);
        backward_run_compare(&w, "axes");
        example_free(&e);
    }
    backward_run_print_worst();
}

TEST(the_gradient_of_a_bias_goes_where_its_strides_say) {
    example e = example_new(
        (example_shape){.batch = 2, .heads = 3, .queries = 33, .keys = 200, .head_dim = 8});
    example_bias(&e, MASK_BATCH | MASK_HEADS, 0);
    backward_run w = backward_run_new(&e, WHET_F32);
    backward_run_now(&w, NULL);
    const float *expected = w.gradients.bias.data;
    float *spread = example_memory(&e, (size_t)2 * 3 * 200 * 2 * sizeof *spread);
    memset(spread, 0x55, (size_t)2 * 3 * 200 * 2 * sizeof *spread);
    /* [key][head][batch] from the last key to the first, with a gap behind each number */
    w.gradients.bias = (whet_key_bias_out){.data = spread + 199 * 12, .stride = {8, 16, -48}};
    backward_run_now(&w, NULL);
    CHECK_INT(w.status, WHET_OK);
    size_t wrong = 0, touched = 0;
    for (size_t j = 0; j < 200; j++) {
        for (size_t i = 0; i < 6; i++) { /* batch * 3 + head */
            const float *at = spread + (199 - j) * 12 + i % 3 * 4 + i / 3 * 2;
            uint32_t gap;
            memcpy(&gap, at + 1, sizeof gap);
            wrong += !same_bytes(at, expected + i * 200 + j, sizeof(float));
            touched += gap != 0x55555555u;
        }
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(touched, 0);
    example_free(&e);
}

/* ---- memory ---- */

/* Planning looks at no data, so that any address will do. */
static void *somewhere(size_t gigabytes) {
    return (void *)((uintptr_t)gigabytes << 30); /* NOLINT(performance-no-int-to-ptr) */
}

static double memory_of(size_t n, size_t heads) {
    whet_gradients g = {.size = sizeof g, .entropy = somewhere(1), .betas = somewhere(60)};
    g.attention = (whet_attention){.size = sizeof g.attention,
                                   .heads = heads,
                                   .queries = n,
                                   .keys = n,
                                   .head_dim = 64,
                                   .q = {.data = somewhere(1)},
                                   .k = {.data = somewhere(1)},
                                   .v = {.data = somewhere(1)},
                                   .bias = {.data = somewhere(1)},
                                   .stats = somewhere(1)};
    g.bias.data = somewhere(70);
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_attention_backward_plan(&g, &plan);
    CHECK_MSG(status == WHET_OK, "%zu: %d", n, (int)status);
    return (double)plan.scratch_bytes + (double)plan.workspace_bytes;
}

TEST(memory_grows_with_the_length_and_not_with_its_square) {
    for (size_t heads = 1; heads <= 16; heads *= 4) {
        double ratio = memory_of(262144, heads) / memory_of(1024, heads);
        CHECK_MSG(ratio < 280, "%zu heads: %g times", heads, ratio);
    }
}

/* ---- descriptions ---- */

static float *moved(const float *at, size_t bytes) {
    float *result;
    uintptr_t address = (uintptr_t)at + bytes;
    memcpy(&result, &address, sizeof result);
    return result;
}

TEST(wrong_descriptions_are_refused_and_nothing_is_written) {
    example e = problem(7);
    example_policy(&e, "softmax");
    example_betas(&e);
    backward_run w = backward_run_new(&e, WHET_F32);
    backward_run_statistics(&w, &e);
    size_t size, again;
    unsigned char *before = backward_run_bytes(&w, &size);
    const whet_gradients sound = w.gradients;
    const whet_policy softmax1 = whet_policy_softmax1(), adaptive = whet_policy_adaptive();
#define REFUSED(change, expected)                                                                  \
    do {                                                                                           \
        whet_gradients *g = &w.gradients;                                                          \
        *g = sound;                                                                                \
        change;                                                                                    \
        backward_run_now(&w, NULL);                                                                \
        CHECK_INT(w.status, expected);                                                             \
        w.gradients = sound;                                                                       \
        unsigned char *after = backward_run_bytes(&w, &again);                                     \
        CHECK(same_bytes(after, before, size));                                                    \
        free(after);                                                                               \
    } while (0)
    /* addresses and strides that no float can have */
    REFUSED(g->logsumexp = moved(g->logsumexp, 2), WHET_ERROR_ARGUMENT);
    REFUSED(g->entropy = moved(g->entropy, 1), WHET_ERROR_ARGUMENT);
    REFUSED(g->entropy_after = moved(g->entropy_after, 3), WHET_ERROR_ARGUMENT);
    REFUSED(g->betas = moved(g->betas, 2), WHET_ERROR_ARGUMENT);
    REFUSED(g->attention.betas = moved(g->attention.betas, 2), WHET_ERROR_ARGUMENT);
    REFUSED(g->bias.data = moved(g->bias.data, 2), WHET_ERROR_ARGUMENT);
    REFUSED(g->bias.stride[1] = 6, WHET_ERROR_ARGUMENT);
    REFUSED(g->attention.bias.data = moved(g->attention.bias.data, 2), WHET_ERROR_ARGUMENT);
    REFUSED(g->attention.bias.stride[2] = 5, WHET_ERROR_ARGUMENT);
    /* what was not given has no gradient, and without an output something else has to have one */
    REFUSED(g->attention.bias.data = NULL, WHET_ERROR_ARGUMENT);
    REFUSED(g->out.data = NULL;
            g->logsumexp = g->entropy = g->entropy_after = NULL, WHET_ERROR_ARGUMENT);
    REFUSED(g->attention.policies = &adaptive; g->attention.policy_count = 1, WHET_ERROR_ARGUMENT);
    REFUSED(g->attention.policies = &softmax1;
            g->attention.policy_count = 1, WHET_ERROR_UNSUPPORTED);
    /* out of range */
    REFUSED(g->entropy = moved(NULL, (size_t)-64), WHET_ERROR_OVERFLOW);
    REFUSED(g->betas = moved(NULL, (size_t)-64), WHET_ERROR_OVERFLOW);
    REFUSED(g->bias.stride[2] = PTRDIFF_MAX / 4 * 4, WHET_ERROR_OVERFLOW);
    REFUSED(g->attention.bias.stride[2] = PTRDIFF_MAX / 4 * 4, WHET_ERROR_OVERFLOW);
    /* outputs upon inputs, upon each other and upon themselves */
    REFUSED(g->betas = moved(g->logsumexp, 0), WHET_ERROR_OVERLAP);
    REFUSED(g->betas = moved(g->attention.betas, 4), WHET_ERROR_OVERLAP);
    REFUSED(g->q.data = moved(g->entropy, 0), WHET_ERROR_OVERLAP);
    REFUSED(g->sinks = moved(g->entropy_after, 0), WHET_ERROR_OVERLAP);
    REFUSED(g->bias.data = moved(g->attention.bias.data, 0), WHET_ERROR_OVERLAP);
    REFUSED(g->alibi_slopes = moved(g->attention.bias.data, 4), WHET_ERROR_OVERLAP);
    REFUSED(g->betas = g->bias.data, WHET_ERROR_OVERLAP);
    REFUSED(g->k.data = g->betas, WHET_ERROR_OVERLAP);
    REFUSED(g->bias.stride[0] = g->bias.stride[1] = 4, WHET_ERROR_OVERLAP);
#undef REFUSED
    backward_run_now(&w, NULL);
    CHECK_INT(w.status, WHET_OK);
    free(before);
    example_free(&e);
}
