/*
 * Calls from many threads at once: the library keeps no state, so each thread
 * gets the bits that it would get alone. ThreadSanitizer checks this program in
 * its build.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/random.h"
#include "whet.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 6 };

/* Runs a function on THREADS threads that start together; each gets its number. */
typedef struct crew {
    void (*function)(void *argument, size_t number);
    void *argument;
    atomic_size_t waiting;
    atomic_size_t next;
} crew;

static void *crew_member(void *argument) {
    crew *all = argument;
    size_t number = atomic_fetch_add(&all->next, 1);
    atomic_fetch_sub(&all->waiting, 1);
    while (atomic_load(&all->waiting) > 0) {
        sched_yield(); /* until the last one has started */
    }
    all->function(all->argument, number);
    return NULL;
}

static void run_together(void (*function)(void *argument, size_t number), void *argument) {
    crew all = {.function = function, .argument = argument};
    pthread_t threads[THREADS];
    atomic_store(&all.waiting, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        if (!CHECK(pthread_create(&threads[i], NULL, crew_member, &all) == 0)) {
            abort(); /* the others would wait forever */
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- the instruction set ---- */

static void ask_for_isa(void *argument, size_t number) {
    const char **answers = argument;
    answers[number] = whet_isa();
}

/* Must stay the first test: nothing has used the library before it. */
TEST(the_first_threads_agree_on_the_instruction_set) {
    const char *answers[THREADS] = {NULL};
    run_together(ask_for_isa, answers);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_STR(answers[i], whet_isa());
    }
}

/* ---- rows ---- */

enum { ROWS = 6, N = 700 };

typedef struct row_results {
    float out[ROWS * N];
    whet_stats stats[ROWS];
} row_results;

static float row_input[ROWS * N];

static const char *const row_policies[] = {"softmax",  "adaptive",  "target:1",
                                           "entmax15", "length:16", "topk:9",
                                           "sigmoid",  "ssmax:0.4", "stick-breaking"};
enum { ROW_POLICIES = sizeof row_policies / sizeof row_policies[0] };

static void fill_row_input(void) {
    struct rng rng = rng_seeded(7);
    rng_fill_normal(&rng, row_input, ROWS * N, 0, 2);
    row_input[2 * N + 5] = -INFINITY;
    row_input[4 * N + 5] = NAN; /* every thread finds non-finite rows too */
}

static whet_status sharpen(const char *name, row_results *results, size_t *first_bad) {
    whet_policy policy;
    memset(results, 0, sizeof *results);
    whet_status status = whet_policy_parse(name, &policy, NULL, 0);
    if (status != WHET_OK) {
        return status;
    }
    whet_rows rows = {.size = sizeof rows,
                      .rows = ROWS,
                      .n = N,
                      .in = row_input,
                      .out = results->out,
                      .stats = results->stats};
    return whet_softmax(&rows, &policy, first_bad);
}

static void sharpen_everything(void *argument, size_t number) {
    const row_results *expected = argument;
    row_results *results = malloc(sizeof *results);
    if (!results) {
        CHECK(results != NULL);
        return;
    }
    for (size_t i = 0; i < 2 * ROW_POLICIES; i++) {
        size_t policy = (i + number) % ROW_POLICIES;
        size_t first_bad = 0;
        CHECK_INT(sharpen(row_policies[policy], results, &first_bad), WHET_NOT_FINITE);
        CHECK_INT(first_bad, 4);
        CHECK_MSG(same_bytes(results, &expected[policy], sizeof *results), "%s",
                  row_policies[policy]);
    }
    free(results);
}

TEST(rows_sharpened_at_once_equal_those_sharpened_alone) {
    static row_results expected[ROW_POLICIES];
    fill_row_input();
    for (size_t i = 0; i < ROW_POLICIES; i++) {
        size_t first_bad;
        CHECK_INT(sharpen(row_policies[i], &expected[i], &first_bad), WHET_NOT_FINITE);
    }
    run_together(sharpen_everything, expected);
}

/* Each thread has its own rows of one array, next to those of other threads. */
static void sharpen_own_rows(void *argument, size_t number) {
    row_results *results = argument;
    whet_policy policy = whet_policy_adaptive();
    for (size_t row = number; row < ROWS; row += THREADS) {
        whet_rows rows = {.size = sizeof rows,
                          .rows = 1,
                          .n = N,
                          .in = row_input + row * N,
                          .out = results->out + row * N,
                          .stats = results->stats + row};
        whet_softmax(&rows, &policy, NULL);
    }
}

TEST(threads_may_share_the_rows_of_one_array) {
    static row_results expected, results;
    size_t first_bad;
    fill_row_input();
    CHECK_INT(sharpen("adaptive", &expected, &first_bad), WHET_NOT_FINITE);
    run_together(sharpen_own_rows, &results);
    CHECK(same_bytes(&results, &expected, sizeof results));
}

/* ---- attention ---- */

enum {
    HEADS = 4,
    KV_HEADS = 2,
    QUERIES = 33,
    KEYS = 150,
    DIM = 20,
    OUTPUTS = HEADS * QUERIES * DIM
};

typedef struct attention_results {
    float out[OUTPUTS];
    whet_stats stats[HEADS * QUERIES];
} attention_results;

static float q_input[HEADS * QUERIES * DIM];
static float k_input[KV_HEADS * KEYS * DIM];
static float v_input[KV_HEADS * KEYS * DIM];
static whet_policy head_policies[HEADS];

static void fill_attention_input(void) {
    struct rng rng = rng_seeded(11);
    rng_fill_normal(&rng, q_input, HEADS * QUERIES * DIM, 0, 1);
    rng_fill_normal(&rng, k_input, KV_HEADS * KEYS * DIM, 0, 1);
    rng_fill_normal(&rng, v_input, KV_HEADS * KEYS * DIM, 0, 1);
    head_policies[0] = whet_policy_softmax();
    head_policies[1] = whet_policy_adaptive();
    head_policies[2] = whet_policy_target(2, 256);
    head_policies[3] = whet_policy_length(16);
}

/* One query is decoding, many are a prefill. */
static whet_attention describe(size_t queries, attention_results *results) {
    memset(results, 0, sizeof *results);
    return (whet_attention){
        .size = sizeof(whet_attention),
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .queries = queries,
        .keys = KEYS,
        .head_dim = DIM,
        .q = {.data = q_input},
        .k = {.data = k_input},
        .v = {.data = v_input},
        .out = {.data = results->out},
        .flags = WHET_CAUSAL,
        .offset = KEYS - (int64_t)queries,
        .policies = head_policies,
        .policy_count = HEADS,
        .stats = results->stats,
    };
}

/* The expected result, and the pools to use: one for all threads, one each, or none. */
typedef struct attention_job {
    size_t queries;
    const attention_results *expected;
    whet_pool *shared_pool;
    bool own_pools;
} attention_job;

static void attend(void *argument, size_t number) {
    const attention_job *job = argument;
    attention_results *results = malloc(sizeof *results);
    whet_pool *pool = job->shared_pool;
    if (!CHECK(results != NULL) ||
        (job->own_pools && !CHECK(whet_pool_create(1 + number % 3, &pool) == WHET_OK))) {
        free(results);
        return;
    }
    for (int i = 0; i < 5; i++) {
        whet_attention attention = describe(job->queries, results);
        whet_executor executor = pool ? whet_pool_executor(pool) : (whet_executor){0};
        CHECK_INT(whet_attention_forward(&attention, pool ? &executor : NULL, NULL), WHET_OK);
        CHECK(same_bytes(results, job->expected, sizeof *results));
    }
    if (job->own_pools) {
        whet_pool_destroy(pool);
    }
    free(results);
}

/* Without pools, with one pool for all threads, and with one each. */
static void check_attention(size_t queries) {
    static attention_results expected;
    fill_attention_input();
    whet_attention attention = describe(queries, &expected);
    CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_OK);

    attention_job job = {.queries = queries, .expected = &expected};
    run_together(attend, &job);
    job.own_pools = true;
    run_together(attend, &job);
    job.own_pools = false;
    REQUIRE(whet_pool_create(3, &job.shared_pool) == WHET_OK);
    run_together(attend, &job);
    whet_pool_destroy(job.shared_pool);
}

TEST(prefills_at_once_equal_those_done_alone) { check_attention(QUERIES); }

TEST(decoding_at_once_equals_that_done_alone) { check_attention(1); }

/* Tasks of one plan, each run by the first free thread; every phase has its own threads. */
typedef struct plan_job {
    whet_plan plan;
    unsigned phase;
    atomic_size_t next;
} plan_job;

static void run_tasks(void *argument, size_t number) {
    plan_job *job = argument;
    (void)number;
    void *scratch = aligned_alloc(WHET_ALIGNMENT, (job->plan.scratch_bytes + WHET_ALIGNMENT - 1) /
                                                      WHET_ALIGNMENT * WHET_ALIGNMENT);
    if (!scratch) {
        CHECK(scratch != NULL);
        return;
    }
    for (;;) {
        size_t task = atomic_fetch_add(&job->next, 1);
        if (task >= job->plan.tasks[job->phase]) {
            break;
        }
        CHECK_INT(whet_attention_run_task(&job->plan, job->phase, task, scratch, NULL), WHET_OK);
    }
    free(scratch);
}

TEST(tasks_of_one_plan_run_on_any_threads) {
    static attention_results expected, results;
    static const size_t queries[] = {1, QUERIES};
    fill_attention_input();
    for (size_t i = 0; i < 2; i++) {
        whet_attention attention = describe(queries[i], &expected);
        CHECK_INT(whet_attention_forward(&attention, NULL, NULL), WHET_OK);
        plan_job job = {.plan = {.size = sizeof job.plan}, .phase = 0};
        attention = describe(queries[i], &results);
        REQUIRE(whet_attention_plan(&attention, &job.plan) == WHET_OK);
        size_t bytes = (job.plan.workspace_bytes / WHET_ALIGNMENT + 1) * WHET_ALIGNMENT;
        job.plan.workspace = aligned_alloc(WHET_ALIGNMENT, bytes);
        REQUIRE(job.plan.workspace != NULL);
        for (; job.phase < job.plan.phases; job.phase++) {
            atomic_store(&job.next, 0);
            run_together(run_tasks, &job);
        }
        free(job.plan.workspace);
        CHECK(same_bytes(&results, &expected, sizeof results));
    }
}

/* ---- pools ---- */

static void bring_up_pools(void *argument, size_t number) {
    (void)argument;
    for (int i = 0; i < 20; i++) {
        whet_pool *pool = NULL;
        CHECK_INT(whet_pool_create(1 + number % 4, &pool), WHET_OK);
        whet_pool_destroy(pool);
    }
}

TEST(pools_may_be_made_and_destroyed_at_once) { run_together(bring_up_pools, NULL); }
