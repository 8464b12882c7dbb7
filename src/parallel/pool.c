/*
 * whet_pool: threads that wait for a loop, share its tasks by counting up one number, and
 * wait again. A loop is a generation; a worker takes part in a generation once, and the
 * caller, who takes part too, leaves when every worker that joined has left. Attention is
 * several loops in quick succession, and waking a thread takes longer than a short loop:
 * waiting threads spin for a few microseconds before they sleep. Threads do not survive
 * fork(), so a pool in a child process starts its threads again.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/last_error.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct loop {
    whet_task_function function;
    void *argument;
    size_t tasks;
    _Atomic size_t next;
} loop;

/* A thread of the pool and the argument it starts with. */
typedef struct pool_thread {
    pthread_t thread;
    whet_pool *pool;
    size_t number; /* from 1 on; the caller of a loop is 0 */
} pool_thread;

/* In place of a process while the threads of a new one are being started. */
#define STARTING ((pid_t)-1)

struct whet_pool {
    size_t threads;        /* the caller included */
    size_t started;        /* threads of this pool that are running */
    _Atomic pid_t process; /* whose threads these are, or STARTING */
    pool_thread *own;      /* threads - 1 of them */
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    /* These two change under the lock only, and are looked at without it while waiting. */
    _Atomic uint64_t generation;
    _Atomic size_t joined; /* workers inside the present loop */
    loop *present;         /* NULL between loops */
    bool stopping;
    atomic_flag busy; /* a loop is under way */
};

static void run_tasks(loop *l, size_t worker) {
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);
        if (task >= l->tasks)
            return;
        l->function(l->argument, task, worker);
    }
}

/* How often to look before going to sleep: 20 to 60 microseconds, by how long a processor makes a
 * pause. */
enum { LOOKS = 1500 };

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* takes about as long as a pause there; yield takes no time at all */
#endif
}

static void await_loop(whet_pool *pool, uint64_t seen) {
    for (int look = 0; look < LOOKS && atomic_load(&pool->generation) == seen; look++)
        pause_briefly();
}

static void await_leaving(whet_pool *pool) {
    for (int look = 0; look < LOOKS && atomic_load(&pool->joined) > 0; look++)
        pause_briefly();
}

static void *worker_main(void *argument) {
    const pool_thread *self = argument;
    whet_pool *pool = self->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stopping && (!pool->present || pool->generation == seen))
            pthread_cond_wait(&pool->begin, &pool->lock);
        if (pool->stopping)
            break;
        seen = pool->generation;
        loop *l = pool->present;
        pool->joined++;
        pthread_mutex_unlock(&pool->lock);
        run_tasks(l, self->number);
        pthread_mutex_lock(&pool->lock);
        if (--pool->joined == 0)
            pthread_cond_signal(&pool->end);
        pthread_mutex_unlock(&pool->lock);
        await_loop(pool, seen);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

enum { STACK_BYTES = 1 << 20 };

static bool start_thread(whet_pool *pool, size_t number) {
    pool_thread *own = &pool->own[number - 1];
    own->pool = pool;
    own->number = number;
    /* Threads take their stack's size from the process's limit, which may be less than tasks use.
     */
    pthread_attr_t attributes;
    size_t stack = 0;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < STACK_BYTES)
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
    bool is_started = pthread_create(&own->thread, &attributes, worker_main, own) == 0;
    pthread_attr_destroy(&attributes);
    return is_started;
}

/* Locks and threads from scratch; returns how many threads could be started. */
static size_t start_threads(whet_pool *pool) {
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    atomic_flag_clear(&pool->busy);
    pool->generation = 0;
    pool->joined = 0;
    pool->present = NULL;
    pool->stopping = false;
    pool->started = 0;
    while (pool->started + 1 < pool->threads && start_thread(pool, pool->started + 1))
        pool->started++;
    atomic_store_explicit(&pool->process, getpid(), memory_order_release);
    return pool->started;
}

static void stop_threads(whet_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->generation++; /* nothing left to watch */
    pool->stopping = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->started; i++)
        pthread_join(pool->own[i].thread, NULL);
    pthread_cond_destroy(&pool->begin);
    pthread_cond_destroy(&pool->end);
    pthread_mutex_destroy(&pool->lock);
}

static size_t processors(void) {
#if defined(CPU_COUNT)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (size_t)CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (size_t)n : 1;
}

whet_status whet_pool_create(size_t threads, whet_pool **result) {
    if (!result)
        return whet_refuse(WHET_ERROR_ARGUMENT, "pool is NULL");
    *result = NULL;
    if (threads == 0)
        threads = processors();
    whet_pool *pool = calloc(1, sizeof *pool);
    pool_thread *own = calloc(threads, sizeof *own);
    if (!pool || !own) {
        free(pool);
        free(own);
        return whet_refuse(WHET_ERROR_MEMORY, "out of memory for a pool with threads = %zu",
                           threads);
    }
    pool->threads = threads;
    pool->own = own;
    size_t started = start_threads(pool) + 1;
    if (started < threads) {
        whet_pool_destroy(pool);
        return whet_refuse(WHET_ERROR_MEMORY, "threads is %zu, but only %zu could be started",
                           threads, started);
    }
    *result = pool;
    return WHET_OK;
}

void whet_pool_destroy(whet_pool *pool) {
    if (!pool)
        return;
    if (pool->process == getpid())
        stop_threads(pool);
    free(pool->own);
    free(pool);
}

size_t whet_pool_threads(const whet_pool *pool) { return pool ? pool->threads : 1; }

static void run_alone(size_t tasks, whet_task_function function, void *argument, size_t worker) {
    for (size_t task = 0; task < tasks; task++)
        function(argument, task, worker);
}

/* After fork(), one of the calling threads starts the pool's threads again; any others see an
 * empty pool meanwhile and run their loops alone. */
static bool has_threads(whet_pool *pool) {
    pid_t self = getpid();
    pid_t known = atomic_load_explicit(&pool->process, memory_order_acquire);
    if (known == self)
        return pool->started > 0;
    if (known == STARTING || !atomic_compare_exchange_strong(&pool->process, &known, STARTING))
        return false;
    return start_threads(pool) > 0;
}

static void pool_parallel_for(void *context, size_t tasks, whet_task_function function,
                              void *argument) {
    whet_pool *pool = context;
    if (tasks <= 1 || !pool || !has_threads(pool) || atomic_flag_test_and_set(&pool->busy)) {
        run_alone(tasks, function, argument, 0);
        return;
    }
    loop l = {.function = function, .argument = argument, .tasks = tasks};
    pthread_mutex_lock(&pool->lock);
    pool->present = &l;
    pool->generation++;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    run_tasks(&l, 0);
    pthread_mutex_lock(&pool->lock);
    pool->present = NULL; /* threads that have not joined yet need not */
    pthread_mutex_unlock(&pool->lock);
    await_leaving(pool);
    pthread_mutex_lock(&pool->lock);
    while (pool->joined > 0)
        pthread_cond_wait(&pool->end, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    atomic_flag_clear(&pool->busy);
}

whet_executor whet_pool_executor(whet_pool *pool) {
    return (whet_executor){whet_pool_threads(pool), pool_parallel_for, pool};
}
