/*
 * Memory and threads that cannot be had. Executing a plan in the caller's memory
 * allocates nothing at all; whet_attention_forward, whet_attention_backward and
 * whet_pool_create answer WHET_ERROR_MEMORY, whichever of their allocations fails, and lose
 * nothing.
 */
#include "support/check.h"
#include "support/faults.h"
#include "whet.h"

#include <string.h>

/* ---- one problem with few queries, one with many ---- */

enum { HEADS = 2, KEYS = 300, DIM = 16, QUERIES_MAX = 60 };

static float q[HEADS * QUERIES_MAX * DIM];
static float k[HEADS * KEYS * DIM];
static float v[HEADS * KEYS * DIM];
static float out[HEADS * QUERIES_MAX * DIM];
static whet_policy policy;

static whet_attention problem(size_t queries) {
    for (size_t i = 0; i < HEADS * KEYS * DIM; i++) {
        k[i] = (float)(i * 7919 % 1000) / 500 - 1;
        v[i] = (float)(i * 104729 % 1000) / 500 - 1;
        q[i % (HEADS * QUERIES_MAX * DIM)] = v[i] * 3;
    }
    policy = whet_policy_adaptive();
    whet_attention a = {.size = sizeof a, .heads = HEADS, .queries = queries, .keys = KEYS};
    a.head_dim = DIM;
    a.q.data = q;
    a.k.data = k;
    a.v.data = v;
    a.out.data = out;
    a.policies = &policy;
    return a;
}

static const size_t queries[] = {1, 5, QUERIES_MAX};

static whet_stats stats_of_rows[HEADS * QUERIES_MAX];
static float gradient_of_q[HEADS * QUERIES_MAX * DIM];
static float gradient_of_k[HEADS * KEYS * DIM];
static float gradient_of_v[HEADS * KEYS * DIM];
static whet_policy_gradient gradient_of_policy;

/* Its backward pass, after its forward pass. */
static whet_gradients backward_run(size_t count) {
    whet_gradients g = {.size = sizeof g, .attention = problem(count)};
    g.attention.stats = stats_of_rows;
    REQUIRE(whet_attention_forward(&g.attention, NULL, NULL) == WHET_OK);
    g.out.data = q;
    g.q.data = gradient_of_q;
    g.k.data = gradient_of_k;
    g.v.data = gradient_of_v;
    g.policies = &gradient_of_policy;
    return g;
}

TEST(executing_in_the_callers_memory_allocates_nothing) {
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(2, &pool) == WHET_OK);
    const whet_executor executor = whet_pool_executor(pool);
    for (size_t i = 0; i < 12; i++) {
        bool back = i >= 6;
        whet_attention a = problem(queries[i % 6 / 2]);
        whet_gradients g = backward_run(queries[i % 6 / 2]);
        const whet_executor *with = i % 2 ? &executor : NULL;
        whet_plan plan = {.size = sizeof plan};
        faults_begin(1, FAULT_FOR_GOOD);
        whet_status planned =
            back ? whet_attention_backward_plan(&g, &plan) : whet_attention_plan(&a, &plan);
        size_t bytes = planned == WHET_OK ? whet_attention_memory(&plan, with) : 0;
        faults_end();
        CHECK_INT(planned, WHET_OK);
        CHECK_INT(faults_seen(), 0);
        size_t rounded = (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
        void *memory = aligned_alloc(WHET_ALIGNMENT, rounded);
        REQUIRE(memory != NULL);
        faults_begin(1, FAULT_FOR_GOOD);
        whet_status executed = whet_attention_execute(&plan, with, memory, NULL);
        faults_end();
        CHECK_INT(executed, WHET_OK);
        CHECK_INT(faults_seen(), 0);
        free(memory);
    }
    whet_pool_destroy(pool);
}

TEST(rows_allocate_nothing) {
    static const char *const names[] = {"softmax", "adaptive", "target:1", "topk:3", "sparsemax"};
    whet_stats stats[2] = {{0}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        whet_policy each;
        REQUIRE(whet_policy_parse(names[i], &each, NULL, 0) == WHET_OK);
        whet_rows rows = {.size = sizeof rows, .rows = 2, .n = KEYS, .in = k, .out = out};
        for (int with_stats = 0; with_stats < 2; with_stats++) {
            rows.stats = with_stats ? stats : NULL;
            faults_begin(1, FAULT_FOR_GOOD);
            whet_status status = whet_softmax(&rows, &each, NULL);
            faults_end();
            CHECK_MSG(status == WHET_OK, "%s: %d", names[i], (int)status);
        }
    }
}

/* An answer without memory: nothing was written, nothing is left. */
static void check_answer(whet_status status, uint64_t row, const void *written, size_t bytes) {
    faults_end();
    CHECK_INT(status, WHET_ERROR_MEMORY);
    CHECK_INT(faults_live(), 0);
    CHECK_INT(row, 4711);
    for (size_t at = 0; at < bytes; at++) {
        CHECK(((const unsigned char *)written)[at] == 0x77);
    }
}

TEST(forward_answers_when_memory_is_gone) {
    for (size_t i = 0; i < 3; i++) {
        whet_attention a = problem(queries[i]);
        memset(out, 0x77, sizeof out);
        uint64_t row = 4711;
        faults_begin(1, FAULT_FOR_GOOD);
        whet_status status = whet_attention_forward(&a, NULL, &row);
        check_answer(status, row, out, sizeof out);
        CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
    }
}

TEST(backward_answers_when_memory_is_gone) {
    for (size_t i = 0; i < 3; i++) {
        whet_gradients g = backward_run(queries[i]);
        memset(gradient_of_k, 0x77, sizeof gradient_of_k);
        uint64_t row = 4711;
        faults_begin(1, FAULT_FOR_GOOD);
        whet_status status = whet_attention_backward(&g, NULL, &row);
        check_answer(status, row, gradient_of_k, sizeof gradient_of_k);
        CHECK_INT(whet_attention_backward(&g, NULL, NULL), WHET_OK);
    }
}

/* Allocations and threads one after the other: whichever fails, the answer is the same. */
TEST(a_pool_is_made_whole_or_not_at_all) {
    enum { THREADS = 4 };
    for (long k_th = 1;; k_th++) {
        REQUIRE(k_th < 100);
        whet_pool *pool = (whet_pool *)(void *)&policy; /* anything but NULL */
        faults_begin(k_th, FAULT_FOR_GOOD);
        whet_status status = whet_pool_create(THREADS, &pool);
        faults_end();
        if (!faults_struck()) {
            CHECK_INT(status, WHET_OK);
            CHECK_INT(whet_pool_threads(pool), THREADS);
            CHECK(faults_seen() > THREADS); /* a pool, its threads */
            whet_pool_destroy(pool);
            break;
        }
        CHECK_INT(status, WHET_ERROR_MEMORY);
        CHECK(pool == NULL);
        CHECK_INT(faults_live(), 0);
    }
}
