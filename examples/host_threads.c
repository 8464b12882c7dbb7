/*
 * The decoding loop in a host that has threads of its own. The host's pool is wrapped as a
 * whet_executor: one callback that runs a function for every task number and returns when all are
 * done. Results do not depend on how many threads there are; the program compares them bit by bit
 * with those of one thread.
 */
#include "needle.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whet.h>

enum { WORKERS = 3 };

/* The host's pool: workers wait for a job, take task numbers until there are none, and report. */
typedef struct host_pool {
    pthread_mutex_t lock;
    pthread_cond_t job_came, job_done;
    pthread_t threads[WORKERS];
    size_t started, generation, next_task, tasks, busy;
    bool closing;
    whet_task_function function;
    void *argument;
} host_pool;

typedef struct host_worker {
    host_pool *pool;
    size_t number;
} host_worker;

static void must(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "host_threads: %s\n", what);
    exit(EXIT_FAILURE);
}

static void take_tasks(host_pool *pool, size_t worker) {
    while (pool->next_task < pool->tasks) {
        size_t task = pool->next_task++;
        pthread_mutex_unlock(&pool->lock);
        pool->function(pool->argument, task, worker);
        pthread_mutex_lock(&pool->lock);
    }
}

static void *work(void *argument) {
    host_worker *self = argument;
    host_pool *pool = self->pool;
    size_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        if (pool->generation == seen) {
            pthread_cond_wait(&pool->job_came, &pool->lock);
            continue;
        }
        seen = pool->generation;
        take_tasks(pool, self->number);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->job_done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* What whet asks of a host: this function, and the number of workers. */
static void parallel_for(void *context, size_t tasks, whet_task_function function, void *argument) {
    host_pool *pool = context;
    pthread_mutex_lock(&pool->lock);
    pool->function = function;
    pool->argument = argument;
    pool->next_task = 0;
    pool->tasks = tasks;
    pool->busy = WORKERS;
    pool->generation++;
    pthread_cond_broadcast(&pool->job_came);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->job_done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void start(host_pool *pool, host_worker *workers) {
    *pool = (host_pool){.lock = PTHREAD_MUTEX_INITIALIZER,
                        .job_came = PTHREAD_COND_INITIALIZER,
                        .job_done = PTHREAD_COND_INITIALIZER};
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = (host_worker){pool, i};
        must(pthread_create(&pool->threads[i], NULL, work, &workers[i]) == 0, "no threads");
    }
}

static void stop(host_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->job_came);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(pool->threads[i], NULL);
}

static bool same(const float *a, const float *b) {
    for (size_t i = 0; i < QUERY_FLOATS; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

int main(void) {
    float *keys = calloc(CACHE_FLOATS, sizeof(float));
    float *values = calloc(CACHE_FLOATS, sizeof(float));
    must(keys && values, "out of memory");
    static float query[QUERY_FLOATS], alone[QUERY_FLOATS], together[QUERY_FLOATS];
    host_pool pool;
    host_worker workers[WORKERS];
    start(&pool, workers);
    whet_executor executor = {.workers = WORKERS, .parallel_for = parallel_for, .context = &pool};

    whet_policy policy = whet_policy_adaptive();
    ptrdiff_t position = HEAD_DIM * sizeof(float), head = CAPACITY * position;
    whet_attention attention = {
        .size = sizeof attention,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .queries = 1,
        .head_dim = HEAD_DIM,
        .q = {.data = query},
        .k = {.data = keys, .stride = {KV_HEADS * head, head, position, sizeof(float)}},
        .v = {.data = values, .stride = {KV_HEADS * head, head, position, sizeof(float)}},
        .policies = &policy};
    printf("%8s %10s\n", "keys", "adaptive");
    for (size_t length = 1; length <= CAPACITY; length++) {
        next_token(length - 1, query, keys, values);
        attention.keys = length;
        attention.out.data = together;
        must(whet_attention_forward(&attention, &executor, NULL) == WHET_OK, "attention failed");
        attention.out.data = alone;
        must(whet_attention_forward(&attention, NULL, NULL) == WHET_OK, "attention failed");
        must(same(alone, together), "threads changed the result");
        if (worth_printing(length))
            printf("%8zu %10.4f\n", length, (double)together[0]);
    }
    stop(&pool);
    free(values);
    free(keys);
    printf("the same bit for bit on %d threads\n", WORKERS);
    return EXIT_SUCCESS;
}
