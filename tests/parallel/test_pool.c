/*
 * whet_pool: every task runs once, workers have distinct numbers, nested and
 * concurrent loops, creation and destruction, and pools after fork().
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/emulated.h"
#include "support/sanitizers.h"
#include "whet.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MAX = 8, TASKS_MAX = 1000 };

/* Without this, sanitizers end a program that asks for more memory than there is. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static whet_pool *pool_of(size_t threads) {
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(threads, &pool) == WHET_OK);
    REQUIRE(pool != NULL);
    return pool;
}

static void run_loop(whet_pool *pool, size_t tasks, whet_task_function function, void *argument) {
    whet_executor executor = whet_pool_executor(pool);
    executor.parallel_for(executor.context, tasks, function, argument);
}

/* How often each task ran. Tasks write without a lock, so that a missing barrier shows. */
typedef struct tally {
    unsigned runs[TASKS_MAX];
} tally;

static void count_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    ((tally *)argument)->runs[task]++;
}

static bool each_ran_once(const tally *counts, size_t tasks) {
    for (size_t i = 0; i < TASKS_MAX; i++) {
        if (counts->runs[i] != (i < tasks ? 1u : 0u)) {
            return false;
        }
    }
    return true;
}

/* Runs a loop over `tasks` tasks; true if each of them ran once. */
static bool loop_is_complete(whet_pool *pool, size_t tasks) {
    tally counts;
    memset(&counts, 0, sizeof counts);
    run_loop(pool, tasks, count_task, &counts);
    return each_ran_once(&counts, tasks);
}

TEST(a_pool_has_the_threads_asked_for) {
    for (size_t threads = 1; threads <= THREADS_MAX; threads++) {
        whet_pool *pool = pool_of(threads);
        CHECK_INT(whet_pool_threads(pool), threads);
        CHECK_INT(whet_pool_executor(pool).workers, threads);
        whet_pool_destroy(pool);
    }
}

TEST(zero_threads_mean_one_for_each_processor) {
    whet_pool *pool = pool_of(0);
    CHECK(whet_pool_threads(pool) >= 1);
    CHECK(loop_is_complete(pool, 100));
    whet_pool_destroy(pool);
}

TEST(null_is_refused_by_create_and_ignored_by_destroy) {
    CHECK_INT(whet_pool_create(2, NULL), WHET_ERROR_ARGUMENT);
    whet_pool_destroy(NULL);
}

TEST(more_threads_than_memory_holds_are_an_error) {
    whet_pool *pool = (whet_pool *)&pool;
    CHECK_INT(whet_pool_create(SIZE_MAX, &pool), WHET_ERROR_MEMORY);
    CHECK(pool == NULL);
}

TEST(every_task_runs_exactly_once) {
    static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 64, TASKS_MAX};
    for (size_t threads = 1; threads <= THREADS_MAX; threads++) {
        whet_pool *pool = pool_of(threads);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            CHECK_MSG(loop_is_complete(pool, sizes[i]), "%zu threads, %zu tasks", threads,
                      sizes[i]);
        }
        whet_pool_destroy(pool);
    }
}

/* Which workers are running, to check that no two calls share a number. */
typedef struct attendance {
    size_t workers;
    atomic_bool present[THREADS_MAX];
    atomic_size_t wrong;
    atomic_size_t most; /* running at once */
    atomic_size_t now;
} attendance;

static void attend(void *argument, size_t task, size_t worker) {
    attendance *list = argument;
    (void)task;
    if (worker >= list->workers || atomic_exchange(&list->present[worker], true)) {
        atomic_fetch_add(&list->wrong, 1);
        return;
    }
    size_t now = atomic_fetch_add(&list->now, 1) + 1;
    size_t most = atomic_load(&list->most);
    while (now > most && !atomic_compare_exchange_weak(&list->most, &most, now)) {
    }
    for (int i = 0; i < 3; i++) {
        sched_yield(); /* lets the others run */
    }
    atomic_fetch_sub(&list->now, 1);
    atomic_store(&list->present[worker], false);
}

TEST(running_workers_have_distinct_numbers) {
    for (size_t threads = 1; threads <= THREADS_MAX; threads++) {
        whet_pool *pool = pool_of(threads);
        attendance list = {.workers = threads};
        run_loop(pool, 500, attend, &list);
        CHECK_INT(atomic_load(&list.wrong), 0);
        CHECK(atomic_load(&list.most) >= 1 && atomic_load(&list.most) <= threads);
        whet_pool_destroy(pool);
    }
}

/* Two tasks that wait for each other end only if two threads run them at the same time. */
static void wait_for_other(void *argument, size_t task, size_t worker) {
    atomic_int *arrived = argument;
    (void)task;
    (void)worker;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 2) {
        sched_yield();
    }
}

TEST(two_threads_work_at_the_same_time) {
    whet_pool *pool = pool_of(2);
    for (int i = 0; i < 100; i++) {
        atomic_int arrived = 0;
        run_loop(pool, 2, wait_for_other, &arrived);
        CHECK_INT(atomic_load(&arrived), 2);
    }
    whet_pool_destroy(pool);
}

/* Loops inside the tasks of a loop, on the same pool. */
typedef struct nested {
    whet_pool *pool;
    atomic_size_t complete;
    int depth;
} nested;

static void loop_inside(void *argument, size_t task, size_t worker) {
    nested *outer = argument;
    (void)worker;
    if (outer->depth > 1) {
        nested inner = {.pool = outer->pool, .depth = outer->depth - 1};
        run_loop(outer->pool, 3, loop_inside, &inner);
        atomic_fetch_add(&outer->complete, atomic_load(&inner.complete) == 3 ? 1 : 0);
    } else {
        atomic_fetch_add(&outer->complete, loop_is_complete(outer->pool, 10 + task) ? 1 : 0);
    }
}

TEST(loops_may_be_nested) {
    for (size_t threads = 1; threads <= 4; threads++) {
        whet_pool *pool = pool_of(threads);
        for (int depth = 1; depth <= 3; depth++) {
            nested outer = {.pool = pool, .depth = depth};
            run_loop(pool, 20, loop_inside, &outer);
            CHECK_INT(atomic_load(&outer.complete), 20);
        }
        whet_pool_destroy(pool);
    }
}

static void *loop_many_times(void *argument) {
    size_t complete = 0;
    for (int i = 0; i < 300; i++) {
        complete += loop_is_complete(argument, 17) ? 1 : 0;
    }
    CHECK_INT(complete, 300);
    return NULL;
}

/* Loops on one pool from several threads; false if the threads could not be created. */
static bool loops_at_once(whet_pool *pool, size_t callers) {
    pthread_t threads[THREADS_MAX];
    size_t started = 0;
    while (started < callers &&
           pthread_create(&threads[started], NULL, loop_many_times, pool) == 0) {
        started++;
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return started == callers;
}

TEST(several_threads_may_loop_at_once) {
    for (size_t threads = 1; threads <= 4; threads++) {
        whet_pool *pool = pool_of(threads);
        CHECK(loops_at_once(pool, 4));
        CHECK(loop_is_complete(pool, 100));
        whet_pool_destroy(pool);
    }
}

TEST(twenty_thousand_small_loops_end) {
    whet_pool *pool = pool_of(4);
    size_t complete = 0;
    for (size_t i = 0; i < 20000; i++) {
        complete += loop_is_complete(pool, i % 6) ? 1 : 0;
    }
    CHECK_INT(complete, 20000);
    whet_pool_destroy(pool);
}

TEST(a_pool_may_be_destroyed_right_after_a_loop) {
    for (int i = 0; i < 300; i++) {
        whet_pool *pool = pool_of(1 + (size_t)i % 5);
        if (i % 3 != 0) {
            CHECK(loop_is_complete(pool, 1 + (size_t)i % 9));
        }
        whet_pool_destroy(pool);
    }
}

TEST(pools_do_not_interfere) {
    whet_pool *pools[4];
    for (size_t i = 0; i < 4; i++) {
        pools[i] = pool_of(1 + i);
    }
    for (size_t i = 0; i < 200; i++) {
        CHECK(loop_is_complete(pools[i % 4], i));
    }
    for (size_t i = 0; i < 4; i++) {
        whet_pool_destroy(pools[i]);
    }
}

/* ---- fork ---- */

/* A child that uses its pool starts threads, which ThreadSanitizer and qemu do not support after
 * fork(). */
static void skip_if_threads_are_watched(void) {
    if (WITH_THREAD_SANITIZER) {
        SKIP("ThreadSanitizer does not support threads started after fork");
    }
    if (emulated()) {
        SKIP("qemu-user does not support threads started after fork");
    }
}

/* Starts a child that runs `function` on the pool; it is killed if it does not end in time. */
static pid_t start_child(bool (*function)(whet_pool *pool), whet_pool *pool) {
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        _exit(function(pool) ? 0 : 1);
    }
    return child;
}

static bool child_succeeded(pid_t child) {
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool use_and_destroy(whet_pool *pool) {
    bool complete = true;
    for (size_t i = 0; i < 50; i++) {
        complete = loop_is_complete(pool, i) && complete;
    }
    complete = whet_pool_threads(pool) == 3 && complete;
    whet_pool_destroy(pool);
    return complete;
}

static bool use_at_the_same_time(whet_pool *pool) {
    atomic_int arrived = 0;
    run_loop(pool, 2, wait_for_other, &arrived);
    whet_pool_destroy(pool);
    return true;
}

static bool destroy_unused(whet_pool *pool) {
    whet_pool_destroy(pool);
    return true;
}

static bool use_and_leave(whet_pool *pool) { return loop_is_complete(pool, 20); }

static bool use_in_a_grandchild(whet_pool *pool) {
    bool complete = loop_is_complete(pool, 20);
    complete = child_succeeded(start_child(use_and_destroy, pool)) && complete;
    return use_and_destroy(pool) && complete;
}

static void *loop_a_few_times(void *argument) {
    bool complete = true;
    for (size_t i = 0; i < 5; i++) {
        complete = loop_is_complete(argument, 10) && complete;
    }
    return complete ? argument : NULL;
}

/* The first loops in the child come from several threads, while the pool has no threads yet. */
static bool use_from_several_threads(whet_pool *pool) {
    pthread_t threads[4];
    bool complete = true;
    for (size_t i = 0; i < 4; i++) {
        complete = pthread_create(&threads[i], NULL, loop_a_few_times, pool) == 0 && complete;
    }
    for (size_t i = 0; complete && i < 4; i++) {
        void *result = NULL;
        complete = pthread_join(threads[i], &result) == 0 && result == pool;
    }
    whet_pool_destroy(pool);
    return complete;
}

static void check_child(bool (*function)(whet_pool *pool)) {
    whet_pool *pool = pool_of(3);
    CHECK(loop_is_complete(pool, 30));
    pid_t child = start_child(function, pool);
    CHECK(loop_is_complete(pool, 30)); /* while the parent's continues */
    CHECK(child_succeeded(child));
    CHECK(loop_is_complete(pool, 30));
    whet_pool_destroy(pool);
}

TEST(after_fork_the_child_uses_and_destroys_its_copy) {
    skip_if_threads_are_watched();
    check_child(use_and_destroy);
}

TEST(after_fork_the_child_has_threads_again) {
    skip_if_threads_are_watched();
    check_child(use_at_the_same_time);
}

TEST(after_fork_the_child_may_destroy_what_it_never_used) { check_child(destroy_unused); }

TEST(after_fork_the_child_may_leave_without_destroying) {
    skip_if_threads_are_watched();
    check_child(use_and_leave);
}

TEST(after_fork_the_child_may_fork_again) {
    skip_if_threads_are_watched();
    check_child(use_in_a_grandchild);
}

TEST(after_fork_threads_of_the_child_may_loop_at_once) {
    skip_if_threads_are_watched();
    for (int i = 0; i < 50; i++) {
        check_child(use_from_several_threads);
    }
}

TEST(after_fork_the_child_may_call_exit) {
    skip_if_threads_are_watched();
    whet_pool *pool = pool_of(3);
    pid_t child = fork();
    if (child == 0) {
        exit(loop_is_complete(pool, 20) ? 0 : 1); /* with everything that exit() runs */
    }
    CHECK(child_succeeded(child));
    whet_pool_destroy(pool);
}

/* A thread that runs loops until it should stop. */
typedef struct endless {
    whet_pool *pool;
    atomic_bool stop;
} endless;

static void *loop_until_told(void *argument) {
    endless *looping = argument;
    while (!atomic_load(&looping->stop)) {
        CHECK(loop_is_complete(looping->pool, 50));
    }
    return NULL;
}

TEST(fork_may_happen_in_the_middle_of_a_loop) {
    skip_if_threads_are_watched();
    endless looping = {.pool = pool_of(3)};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, loop_until_told, &looping) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(child_succeeded(start_child(use_and_destroy, looping.pool)));
    }
    atomic_store(&looping.stop, true);
    pthread_join(thread, NULL);
    whet_pool_destroy(looping.pool);
}
