/*
 * The backward pass as a plan: what descriptions are refused and why, the same bits
 * whatever drives the tasks, rows and keys that are not finite, and memory that
 * grows with the length and not with its square.
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

/* ---- problems of every kind ---- */

enum { PROBLEMS = 10 };

/* One stream and many, few rows and many, every parameter. */
static example problem(size_t i) {
    static const char *const policies[] = {"softmax",   "adaptive",       "target:1.5", "fixed:2",
                                           "sparsemax", "stick-breaking", "entmax:1.3", "softmax1"};
    static const char *const mixed[] = {"topk:7",  "adaptive", "sigmoid",
                                        "softmax", "hardmax",  "entmax15"};
    example e = example_new((example_shape){.batch = i % 2 ? 3 : 1,
                                            .heads = i < 4 ? 1 : 6,
                                            .kv_heads = i < 4 ? 1 : 3,
                                            .queries = i % 3 ? 301 : 20,
                                            .keys = 230,
                                            .head_dim = 21,
                                            .value_dim = 18,
                                            .seed = i});
    if (i < 8) {
        example_policy(&e, policies[i % 8]);
    } else {
        example_policies(&e, mixed, 6);
    }
    example_sinks(&e);
    example_alibi(&e);
    if (i % 3 == 1) {
        e.attention.flags = WHET_CAUSAL;
    }
    return e;
}

/* ---- drivers ---- */

static void check_same(const backward_run *w, const unsigned char *expected, const char *what,
                       size_t i) {
    size_t size;
    unsigned char *bytes = backward_run_bytes(w, &size);
    CHECK_MSG(same_bytes(bytes, expected, size), "%s: problem %zu", what, i);
    free(bytes);
}

TEST(any_number_of_threads_gives_the_same_gradients) {
    static const size_t threads[] = {1, 2, 3, 7};
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_now(&w, NULL);
        CHECK_INT(w.status, WHET_OK);
        size_t size;
        unsigned char *expected = backward_run_bytes(&w, &size);
        for (size_t t = 0; t < 4; t++) {
            whet_pool *pool = NULL;
            REQUIRE(whet_pool_create(threads[t], &pool) == WHET_OK);
            whet_executor executor = whet_pool_executor(pool);
            backward_run_now(&w, &executor);
            CHECK_INT(w.status, WHET_OK);
            check_same(&w, expected, "pool", i);
            whet_pool_destroy(pool);
        }
        free(expected);
        example_free(&e);
    }
}

/* From the last task to the first, workers in turn. */
static void run_backwards(void *context, size_t tasks, whet_task_function function,
                          void *argument) {
    for (size_t task = tasks; task-- > 0;) {
        function(argument, task, task % *(size_t *)context);
    }
}

TEST(an_executor_of_ones_own_gives_the_same_gradients) {
    size_t workers = 3;
    const whet_executor executor = {workers, run_backwards, &workers};
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_now(&w, NULL);
        size_t size;
        unsigned char *expected = backward_run_bytes(&w, &size);
        backward_run_now(&w, &executor);
        check_same(&w, expected, "executor", i);
        free(expected);
        example_free(&e);
    }
}

static void *aligned_memory(example *e, size_t bytes) {
    return example_memory(e, (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT);
}

TEST(what_tasks_find_in_their_memory_does_not_matter) {
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_now(&w, NULL);
        size_t size;
        unsigned char *expected = backward_run_bytes(&w, &size);
        whet_plan plan = {.size = sizeof plan};
        REQUIRE(whet_attention_backward_plan(&w.gradients, &plan) == WHET_OK);
        plan.workspace = aligned_memory(&e, plan.workspace_bytes);
        void *scratch = aligned_memory(&e, plan.scratch_bytes);
        for (unsigned phase = 0; phase < plan.phases; phase++) {
            for (size_t task = plan.tasks[phase]; task-- > 0;) {
                memset(scratch, 0xff, plan.scratch_bytes);
                CHECK_INT(whet_attention_run_task(&plan, phase, task, scratch, NULL), WHET_OK);
                CHECK_INT(whet_attention_run_task(&plan, phase, task, scratch, NULL), WHET_OK);
            }
        }
        check_same(&w, expected, "tasks", i);
        CHECK_INT(whet_attention_run_task(&plan, plan.phases, 0, scratch, NULL),
                  WHET_ERROR_ARGUMENT);
        CHECK_INT(whet_attention_run_task(&plan, 0, plan.tasks[0], scratch, NULL),
                  WHET_ERROR_ARGUMENT);
        free(expected);
        example_free(&e);
    }
}

TEST(each_gradient_is_the_same_without_the_others) {
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_now(&w, NULL);
        size_t size;
        unsigned char *expected = backward_run_bytes(&w, &size);
        const whet_gradients all = w.gradients;
        for (int only = 0; only < 6; only++) {
            w.gradients = all;
            w.gradients.q.data = only == 0 ? all.q.data : NULL;
            w.gradients.k.data = only == 1 ? all.k.data : NULL;
            w.gradients.v.data = only == 2 ? all.v.data : NULL;
            w.gradients.policies = only == 3 ? all.policies : NULL;
            w.gradients.sinks = only == 4 ? all.sinks : NULL;
            w.gradients.alibi_slopes = only == 5 ? all.alibi_slopes : NULL;
            backward_run_now(&w, NULL);
            CHECK_INT(w.status, WHET_OK);
        }
        w.gradients = all;
        check_same(&w, expected, "one by one", i);
        free(expected);
        example_free(&e);
    }
}

/* ---- nothing there ---- */

TEST(without_keys_or_queries_gradients_are_zero) {
    for (int i = 0; i < 2; i++) {
        example e = example_new(
            (example_shape){.heads = 2, .queries = i ? 0 : 40, .keys = i ? 40 : 0, .head_dim = 9});
        example_sinks(&e);
        backward_run w = backward_run_new(&e, WHET_F32);
        backward_run_now(&w, NULL);
        CHECK_INT(w.status, WHET_OK);
        size_t size;
        unsigned char *bytes = backward_run_bytes(&w, &size);
        size_t other = 0;
        for (size_t at = 0; at < size; at++) {
            other += bytes[at] != 0;
        }
        CHECK_INT(other, 0);
        free(bytes);
        example_free(&e);
    }
}

TEST(with_nothing_asked_for_there_is_nothing_to_do) {
    example e = problem(0);
    backward_run w = backward_run_new(&e, WHET_F32);
    w.gradients = (whet_gradients){
        .size = sizeof w.gradients, .attention = w.gradients.attention, .out = w.gradients.out};
    whet_plan plan = {.size = sizeof plan};
    CHECK_INT(whet_attention_backward_plan(&w.gradients, &plan), WHET_OK);
    CHECK_INT(plan.phases, 0);
    CHECK_INT(whet_attention_backward(&w.gradients, NULL, NULL), WHET_OK);
    example_free(&e);
}

/* ---- what is not finite ---- */

TEST(masked_keys_and_values_may_hold_anything) {
    static const char *const policies[] = {"softmax", "adaptive", "target:1",       "sparsemax",
                                           "sigmoid", "topk:9",   "stick-breaking", "softmax1"};
    for (size_t i = 0; i < 16; i++) {
        example e = example_new((example_shape){
            .heads = 2, .kv_heads = 1, .queries = 50, .keys = 260, .head_dim = 19, .seed = i});
        example_policy(&e, policies[i % 8]);
        float *mask = example_mask(&e, i / 2 % 2 ? MASK_QUERIES : 0, WHET_F32, 0);
        e.attention.softcap = i > 7 ? 10 : 0;
        for (size_t row = 0; row < (i / 2 % 2 ? 50u : 1u); row++) {
            mask[row * 260 + 7] = mask[row * 260 + 200] = -INFINITY;
        }
        for (size_t kind = 0; kind < 2; kind++) {
            example_set_row(&e.k, 0, 0, kind ? 7 : 200, kind ? NAN : INFINITY);
            example_set_row(&e.v, 0, 0, kind ? 7 : 200, kind ? INFINITY : NAN);
        }
        backward_run_check(&e, WHET_F32, "masked NaN");
    }
}

TEST(rows_that_are_not_finite_spoil_what_they_see_and_are_named) {
    static const char *const policies[] = {"softmax",   "adaptive", "topk:9",
                                           "sparsemax", "sigmoid",  "stick-breaking"};
    static const char *const mixed[] = {"hardmax", "adaptive", "softmax1", "entmax15"};
    for (size_t n = 0; n < 35; n++) {
        char what[32];
        size_t i = n % 5, policy = n / 5;
        snprintf(what, sizeof what, "bad %zu", n);
        example e = example_new((example_shape){.batch = 2,
                                                .heads = 4,
                                                .kv_heads = 2,
                                                .queries = 70,
                                                .keys = 70,
                                                .head_dim = 19,
                                                .seed = i});
        if (policy < 6) {
            example_policy(&e, policies[policy]);
        } else {
            example_policies(&e, mixed, 4);
        }
        example_sinks(&e);
        e.attention.flags = WHET_CAUSAL;
        if (i == 0) {
            example_set(&e.q, 1, 2, 30, 5, NAN);
        } else if (i == 1) {
            example_set(&e.k, 1, 1, 60, 5, NAN);
        } else if (i == 2) {
            example_set(&e.v, 1, 1, 65, 5, INFINITY);
        }
        backward_run w = backward_run_new(&e, WHET_F32);
        if (i == 3) {
            example_set(&w.out, 1, 2, 40, 3, NAN);
        }
        if (i == 4) {
            example_set(&w.out, 1, 3, 69, 3, -INFINITY);
        }
        static const uint64_t first[] = {(4 + 2) * 70 + 30, (4 + 2) * 70 + 60, (4 + 2) * 70 + 65,
                                         (4 + 2) * 70 + 40, (4 + 3) * 70 + 69};
        backward_run_now(&w, NULL);
        CHECK_INT(w.status, WHET_NOT_FINITE);
        CHECK_INT(w.first_bad_row, first[i]);
        backward_run_compare(&w, what);
        example_free(&e);
    }
}

/* ---- memory ---- */

/* Planning looks at no data, so that any address will do. */
static void *somewhere(size_t gigabytes) {
    return (void *)((uintptr_t)gigabytes << 30); /* NOLINT(performance-no-int-to-ptr) */
}

static double memory_of(size_t n, size_t heads, size_t window) {
    const whet_policy map = whet_policy_sparsemax(); /* which needs more than a temperature */
    whet_gradients g = {.size = sizeof g, .out = {.data = somewhere(1)}};
    g.attention = (whet_attention){.size = sizeof g.attention,
                                   .heads = heads,
                                   .queries = n,
                                   .keys = n,
                                   .head_dim = 64,
                                   .window = window,
                                   .policies = &map,
                                   .q = {.data = somewhere(1)},
                                   .k = {.data = somewhere(1)},
                                   .v = {.data = somewhere(1)},
                                   .stats = somewhere(1)};
    g.q.data = somewhere(8);
    g.k.data = somewhere(16);
    g.v.data = somewhere(24);
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_attention_backward_plan(&g, &plan);
    CHECK_MSG(status == WHET_OK, "%zu: %d", n, (int)status);
    return (double)plan.scratch_bytes + (double)plan.workspace_bytes;
}

TEST(memory_grows_with_the_length_and_not_with_its_square) {
    for (size_t heads = 1; heads <= 16; heads *= 4) {
        for (size_t n = 1024; n <= 131072; n *= 2) {
            double ratio = memory_of(2 * n, heads, 0) / memory_of(n, heads, 0);
            CHECK_MSG(ratio < 2.2, "%zu rows, %zu heads: %g times", n, heads, ratio);
            CHECK(memory_of(n, heads, 64) <= memory_of(n, heads, 0));
        }
        double ratio = memory_of(262144, heads, 0) / memory_of(1024, heads, 0);
        CHECK_MSG(ratio < 280, "%zu heads: %g times", heads, ratio);
    }
}

/* ---- descriptions ---- */

static whet_status plan_of(const whet_gradients *g) {
    whet_plan plan = {.size = sizeof plan};
    return whet_attention_backward_plan(g, &plan);
}

TEST(wrong_descriptions_are_refused) {
    example e = problem(5);
    backward_run w = backward_run_new(&e, WHET_F32);
    whet_gradients g = w.gradients;
    whet_plan plan = {.size = sizeof plan};
    CHECK_INT(plan_of(&g), WHET_OK);
    CHECK_INT(whet_attention_backward_plan(NULL, &plan), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_backward_plan(&g, NULL), WHET_ERROR_ARGUMENT);
    const size_t sizes[] = {0, sizeof plan - 8, sizeof plan + 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        whet_plan before;
        memset(&plan, 0x5a, sizeof plan);
        plan.size = sizes[i];
        memcpy(&before, &plan, sizeof before);
        CHECK_INT(whet_attention_backward_plan(&g, &plan), WHET_ERROR_ARGUMENT);
        CHECK(same_bytes(&plan, &before, sizeof plan));
    }
    CHECK_INT(whet_attention_backward(NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
#define REFUSED(change, status)                                                                    \
    do {                                                                                           \
        g = w.gradients;                                                                           \
        change;                                                                                    \
        CHECK_INT(plan_of(&g), status);                                                            \
    } while (0)
    REFUSED(g.size--, WHET_ERROR_ARGUMENT);
    REFUSED(g.attention.size++, WHET_ERROR_ARGUMENT);
    REFUSED(g.attention.stats = NULL, WHET_ERROR_ARGUMENT);
    REFUSED(g.attention.head_dim = 0, WHET_ERROR_ARGUMENT);
    REFUSED(g.attention.q.data = NULL, WHET_ERROR_ARGUMENT);
    REFUSED(g.attention.k.data = NULL, WHET_ERROR_ARGUMENT);
    REFUSED(g.attention.v.data = NULL, WHET_ERROR_ARGUMENT);
    REFUSED(g.out.data = NULL, WHET_ERROR_ARGUMENT);
    REFUSED(g.out.type = WHET_Q8_0, WHET_ERROR_ARGUMENT);
    REFUSED(g.out.type = WHET_CUSTOM, WHET_ERROR_ARGUMENT);
    REFUSED(g.out.reserved = 1, WHET_ERROR_ARGUMENT);
    REFUSED(g.q.type = WHET_Q4_0, WHET_ERROR_ARGUMENT);
    REFUSED(g.k.type = WHET_CUSTOM, WHET_ERROR_ARGUMENT);
    REFUSED(g.v.reserved = 1, WHET_ERROR_ARGUMENT);
    REFUSED(g.v.data = (char *)g.v.data + 2, WHET_ERROR_ARGUMENT);
    REFUSED(g.attention.sinks = NULL, WHET_ERROR_ARGUMENT);        /* but its gradient is wanted */
    REFUSED(g.attention.alibi_slopes = NULL, WHET_ERROR_ARGUMENT); /* likewise */
    REFUSED(g.attention.queries = SIZE_MAX / 8, WHET_ERROR_OVERFLOW);
    REFUSED(g.attention.batch = INT32_MAX; g.attention.q.stride[0] = PTRDIFF_MAX / 4 * 4;
            g.attention.q.stride[1] = g.attention.q.stride[2] = 4, WHET_ERROR_OVERFLOW);
    /* gradients of what cannot be written */
    REFUSED(g.attention.k.type = WHET_CUSTOM, WHET_ERROR_UNSUPPORTED);
    REFUSED(g.attention.v.type = WHET_Q8_0, WHET_ERROR_UNSUPPORTED);
    whet_policy wrong = whet_policy_fixed(-1);
    REFUSED(g.attention.policies = &wrong, WHET_ERROR_POLICY);
    /* outputs upon inputs and upon each other */
    REFUSED(g.q.data = e.q.base, WHET_ERROR_OVERLAP);
    REFUSED(g.k.data = e.k.base, WHET_ERROR_OVERLAP);
    REFUSED(g.v.data = e.k.base, WHET_ERROR_OVERLAP);
    REFUSED(g.q.data = w.out.base, WHET_ERROR_OVERLAP);
    REFUSED(g.q.data = g.attention.stats, WHET_ERROR_OVERLAP);
    REFUSED(g.v.data = g.k.data, WHET_ERROR_OVERLAP);
    REFUSED(g.q.data = g.policies, WHET_ERROR_OVERLAP);
    REFUSED(g.sinks = g.alibi_slopes, WHET_ERROR_OVERLAP);
    REFUSED(memcpy(&g.sinks, &g.attention.sinks, sizeof g.sinks), WHET_ERROR_OVERLAP);
    REFUSED(g.k.stride[0] = g.k.stride[1] = g.k.stride[2] = g.k.stride[3] = 4, WHET_ERROR_OVERLAP);
#undef REFUSED
    example_free(&e);
}

TEST(refused_calls_write_nothing) {
    example e = problem(4);
    backward_run w = backward_run_new(&e, WHET_F32);
    size_t size;
    unsigned char *before = backward_run_bytes(&w, &size);
    w.gradients.v.data = w.gradients.k.data;
    backward_run_now(&w, NULL);
    CHECK_INT(w.status, WHET_ERROR_OVERLAP);
    CHECK(w.first_bad_row == UINT64_MAX);
    check_same(&w, before, "refused", 4);
    free(before);
    example_free(&e);
}
