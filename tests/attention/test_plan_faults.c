/*
 * Memory and threads that cannot be had. Executing a plan in the caller's memory
 * allocates nothing at all; whet_attention_forward, whet_attention_backward and
 * whet_pool_create answer WHET_ERROR_MEMORY, whichever of their allocations fails, and lose
 * nothing.
 */
#include "support/check.h"
#include "whet.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The linker sends every allocation of the program here. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **pointer, size_t alignment, size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **pointer, size_t alignment, size_t size);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
char *__wrap_strdup(const char *text);

static long until_failure = -1; /* allocations that still succeed; -1: all */
static long calls;

static bool fails(void) {
    calls++;
    if (until_failure < 0 || until_failure-- > 0) {
        return false;
    }
    until_failure = 0; /* once memory is gone it stays gone */
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *pointer, size_t size) {
    return fails() ? NULL : __real_realloc(pointer, size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}
int __wrap_posix_memalign(void **pointer, size_t alignment, size_t size) {
    return fails() ? ENOMEM : __real_posix_memalign(pointer, alignment, size);
}
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument) {
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, function, argument);
}
char *__wrap_strdup(const char *text) { return fails() ? NULL : __real_strdup(text); }

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

/* The way back through it, once it has been gone forth. */
static whet_gradients way_back(size_t count) {
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
        whet_gradients g = way_back(queries[i % 6 / 2]);
        const whet_executor *with = i % 2 ? &executor : NULL;
        whet_plan plan;
        long before = calls;
        until_failure = 0;
        whet_status planned =
            back ? whet_attention_backward_plan(&g, &plan) : whet_attention_plan(&a, &plan);
        size_t bytes = planned == WHET_OK ? whet_attention_memory(&plan, with) : 0;
        until_failure = -1;
        CHECK_INT(planned, WHET_OK);
        CHECK_INT(calls, before);
        size_t room = (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
        void *memory = aligned_alloc(WHET_ALIGNMENT, room);
        REQUIRE(memory != NULL);
        before = calls;
        until_failure = 0;
        whet_status executed = whet_attention_execute(&plan, with, memory, NULL);
        until_failure = -1;
        CHECK_INT(executed, WHET_OK);
        CHECK_INT(calls, before);
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
            until_failure = 0;
            whet_status status = whet_softmax(&rows, &each, NULL);
            until_failure = -1;
            CHECK_MSG(status == WHET_OK, "%s: %d", names[i], (int)status);
        }
    }
}

TEST(forward_answers_when_memory_is_gone) {
    for (size_t i = 0; i < 3; i++) {
        whet_attention a = problem(queries[i]);
        memset(out, 0x77, sizeof out);
        uint64_t row = 4711;
        until_failure = 0;
        whet_status status = whet_attention_forward(&a, NULL, &row);
        until_failure = -1;
        CHECK_INT(status, WHET_ERROR_MEMORY);
        CHECK_INT(row, 4711);
        for (size_t at = 0; at < sizeof out; at++) {
            CHECK(((unsigned char *)out)[at] == 0x77);
        }
        CHECK_INT(whet_attention_forward(&a, NULL, NULL), WHET_OK);
    }
}

TEST(backward_answers_when_memory_is_gone) {
    for (size_t i = 0; i < 3; i++) {
        whet_gradients g = way_back(queries[i]);
        memset(gradient_of_k, 0x77, sizeof gradient_of_k);
        uint64_t row = 4711;
        until_failure = 0;
        whet_status status = whet_attention_backward(&g, NULL, &row);
        until_failure = -1;
        CHECK_INT(status, WHET_ERROR_MEMORY);
        CHECK_INT(row, 4711);
        for (size_t at = 0; at < sizeof gradient_of_k; at++) {
            CHECK(((unsigned char *)gradient_of_k)[at] == 0x77);
        }
        CHECK_INT(whet_attention_backward(&g, NULL, NULL), WHET_OK);
    }
}

/* Allocations and threads one after the other: whichever fails, the answer is the same. */
TEST(a_pool_is_made_whole_or_not_at_all) {
    enum { THREADS = 4 };
    for (long successes = 0;; successes++) {
        REQUIRE(successes < 100);
        whet_pool *pool = (whet_pool *)(void *)&policy; /* anything but NULL */
        until_failure = successes;
        whet_status status = whet_pool_create(THREADS, &pool);
        bool enough = until_failure > 0 || (until_failure == 0 && status == WHET_OK);
        until_failure = -1;
        if (status == WHET_OK) {
            CHECK_INT(whet_pool_threads(pool), THREADS);
            whet_pool_destroy(pool);
        } else {
            CHECK_INT(status, WHET_ERROR_MEMORY);
            CHECK(pool == NULL);
        }
        if (enough) {
            CHECK_INT(status, WHET_OK);
            CHECK(successes >= THREADS); /* a pool, its threads */
            break;
        }
    }
}
