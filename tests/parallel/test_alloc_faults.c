/*
 * The library when it runs out of memory or threads: every allocation and every
 * thread creation fails in turn. The call reports it, leaks nothing and changes
 * no output. Functions that promise not to allocate do not.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/emulated.h"
#include "support/faults.h"
#include "support/random.h"
#include "support/sanitizers.h"
#include "whet.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAULTS_MAX = 100 }; /* more than any call makes */

static const fault_kind kinds[] = {FAULT_ONCE, FAULT_FOR_GOOD};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* ---- the pool ---- */

static long fail_pool_creation(size_t threads, fault_kind kind) {
    for (long k = 1; k <= FAULTS_MAX; k++) {
        whet_pool *pool = (whet_pool *)&pool; /* anything but NULL */
        faults_begin(k, kind);
        whet_status status = whet_pool_create(threads, &pool);
        if (!faults_struck()) {
            CHECK_INT(status, WHET_OK);
            whet_pool_destroy(pool);
            faults_end();
            CHECK_INT(faults_live(), 0);
            return k - 1;
        }
        faults_end();
        CHECK_INT(status, WHET_ERROR_MEMORY);
        CHECK(pool == NULL);
        CHECK_INT(faults_live(), 0);
    }
    return FAULTS_MAX;
}

TEST(a_pool_that_cannot_be_created_is_an_error_and_leaks_nothing) {
    for (size_t threads = 1; threads <= 8; threads++) {
        for (size_t i = 0; i < KINDS; i++) {
            /* the pool, its list of threads, and something for each thread */
            long faults = fail_pool_creation(threads, kinds[i]);
            CHECK(faults >= 2 + (long)threads - 1 && faults < FAULTS_MAX);
        }
    }
}

static void count_task(void *argument, size_t task, size_t worker) {
    (void)task;
    (void)worker;
    atomic_fetch_add((atomic_size_t *)argument, 1);
}

static size_t tasks_run(whet_pool *pool, size_t tasks) {
    atomic_size_t count = 0;
    whet_executor executor = whet_pool_executor(pool);
    executor.parallel_for(executor.context, tasks, count_task, &count);
    return atomic_load(&count);
}

TEST(loops_allocate_nothing) {
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(4, &pool) == WHET_OK);
    faults_begin(1, FAULT_FOR_GOOD);
    size_t count = 0;
    for (size_t i = 0; i < 100; i++) {
        count += tasks_run(pool, 10);
    }
    faults_end();
    CHECK_INT(count, 1000);
    CHECK_INT(faults_seen(), 0);
    whet_pool_destroy(pool);
}

/* The child of a fork, in which the pool starts as many of its threads as it can. */
static _Noreturn void loop_in_child(whet_pool *pool, long k, fault_kind kind) {
    alarm(100);
    faults_begin(k, kind);
    bool is_right = tasks_run(pool, 50) == 50 && tasks_run(pool, 50) == 50;
    bool was_struck = faults_struck();
    whet_pool_destroy(pool);
    faults_end();
    _exit(!is_right || faults_live() != 0 ? 1 : was_struck ? 2 : 0);
}

TEST(after_fork_a_pool_works_with_the_threads_it_gets) {
    if (WITH_THREAD_SANITIZER) {
        SKIP("ThreadSanitizer does not support threads started after fork");
    }
    if (emulated()) {
        SKIP("qemu-user does not support threads started after fork");
    }
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(4, &pool) == WHET_OK);
    for (size_t i = 0; i < KINDS; i++) {
        int code = 2;
        for (long k = 1; k <= FAULTS_MAX && code == 2; k++) {
            int status = 0;
            pid_t child = fork();
            if (child == 0) {
                loop_in_child(pool, k, kinds[i]);
            }
            REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
            code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        }
        CHECK_INT(code, 0);
    }
    whet_pool_destroy(pool);
}

/* ---- attention ---- */

enum { HEADS = 4, QUERIES_MAX = 40, KEYS = 70, DIM = 24 };

typedef struct problem {
    float q[HEADS * QUERIES_MAX * DIM];
    float k[HEADS * KEYS * DIM];
    float v[HEADS * KEYS * DIM];
    float out[HEADS * QUERIES_MAX * DIM];
    whet_stats stats[HEADS * QUERIES_MAX];
    whet_policy policy;
    whet_attention attention;
} problem;

/* Few queries are decoding, many are a prefill. */
static void set_up(problem *p, size_t queries, whet_policy policy) {
    struct rng rng = rng_seeded(queries);
    rng_fill_normal(&rng, p->q, sizeof p->q / sizeof p->q[0], 0, 1);
    rng_fill_normal(&rng, p->k, sizeof p->k / sizeof p->k[0], 0, 1);
    rng_fill_normal(&rng, p->v, sizeof p->v / sizeof p->v[0], 0, 1);
    memset(p->out, 0x5a, sizeof p->out);
    memset(p->stats, 0x5a, sizeof p->stats);
    p->policy = policy;
    p->attention = (whet_attention){
        .size = sizeof p->attention,
        .heads = HEADS,
        .queries = queries,
        .keys = KEYS,
        .head_dim = DIM,
        .q = {.data = p->q},
        .k = {.data = p->k},
        .v = {.data = p->v},
        .out = {.data = p->out},
        .stats = p->stats,
        .policies = &p->policy,
    };
}

static bool is_untouched(const void *memory, size_t bytes) {
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != 0x5a) {
            return false;
        }
    }
    return true;
}

static void fail_attention(problem *p, const whet_executor *executor, fault_kind kind) {
    for (long k = 1; k <= FAULTS_MAX; k++) {
        uint64_t first_bad = 12345;
        faults_begin(k, kind);
        whet_status status = whet_attention_forward(&p->attention, executor, &first_bad);
        faults_end();
        CHECK_INT(faults_live(), 0);
        CHECK_INT(first_bad, 12345);
        if (!faults_struck()) {
            CHECK_INT(status, WHET_OK);
            CHECK(k > 1); /* something failed before */
            return;
        }
        CHECK_INT(status, WHET_ERROR_MEMORY);
        CHECK(is_untouched(p->out, sizeof p->out));
        CHECK(is_untouched(p->stats, sizeof p->stats));
    }
    CHECK(false);
}

TEST(attention_without_memory_changes_no_output) {
    static problem p;
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    static const size_t queries[] = {1, 3, QUERIES_MAX};
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        for (size_t kind = 0; kind < KINDS; kind++) {
            set_up(&p, queries[i], whet_policy_adaptive());
            fail_attention(&p, NULL, kinds[kind]);
            set_up(&p, queries[i], whet_policy_target(1, 256));
            fail_attention(&p, &executor, kinds[kind]);
        }
    }
    whet_pool_destroy(pool);
}

TEST(plans_tasks_and_execute_allocate_nothing) {
    static problem p;
    static const size_t queries[] = {1, QUERIES_MAX};
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        whet_plan plan = {.size = sizeof plan};
        set_up(&p, queries[i], whet_policy_adaptive());
        REQUIRE(whet_attention_plan(&p.attention, &plan) == WHET_OK);
        void *memory = aligned_alloc(WHET_ALIGNMENT, whet_attention_memory(&plan, NULL));
        REQUIRE(memory != NULL);
        faults_begin(1, FAULT_FOR_GOOD);
        whet_status planned = whet_attention_plan(&p.attention, &plan);
        whet_status status = whet_attention_execute(&plan, NULL, memory, NULL);
        faults_end();
        CHECK_INT(planned, WHET_OK);
        CHECK_INT(status, WHET_OK);
        CHECK_INT(faults_seen(), 0);
        free(memory);
    }
}

static void never(void *context, size_t tasks, whet_task_function function, void *argument) {
    (void)context, (void)tasks, (void)function, (void)argument;
    CHECK(false);
}

TEST(a_plan_too_large_for_memory_is_an_error) {
    static problem p;
    set_up(&p, 1, whet_policy_adaptive());
    whet_executor executor = {.workers = SIZE_MAX / 2, .parallel_for = never};
    CHECK_INT(whet_attention_forward(&p.attention, &executor, NULL), WHET_ERROR_MEMORY);
    CHECK(is_untouched(p.out, sizeof p.out));
}

/* ---- rows ---- */

TEST(rows_and_policies_allocate_nothing) {
    enum { N = 20000 };
    static float in[N];
    static float out[N];
    struct rng rng = rng_seeded(1);
    rng_fill_normal(&rng, in, N, 0, 2);
    whet_stats stats;
    whet_policy_gradient parameter_grads;
    const whet_policy_info *info;
    for (size_t i = 0; (info = whet_policy_table(i)) != NULL; i++) {
        whet_policy policy;
        char name[600];
        faults_begin(1, FAULT_FOR_GOOD);
        whet_status parsed = whet_policy_parse(info->example, &policy, NULL, 0);
        whet_policy_name(&policy, name, sizeof name);
        whet_rows rows = {
            .size = sizeof rows, .rows = 1, .n = N, .in = in, .out = out, .stats = &stats};
        whet_status status = whet_softmax(&rows, &policy, NULL);
        rows.stats = NULL;
        whet_status again = whet_softmax(&rows, &policy, NULL);
        whet_rows_backward back = {.size = sizeof back,
                                   .rows = 1,
                                   .n = N,
                                   .in = in,
                                   .grad_out = in,
                                   .grad_in = out,
                                   .policy_grad = &parameter_grads};
        whet_status backward = whet_softmax_backward(&back, &policy, NULL);
        faults_end();
        CHECK_INT(parsed, WHET_OK);
        CHECK_INT(status, WHET_OK);
        CHECK_INT(again, WHET_OK);
        CHECK_INT(backward, WHET_OK);
        CHECK_MSG(faults_seen() == 0, "%s", info->example);
    }
}
