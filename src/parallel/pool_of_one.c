/*
 * whet_pool where there are no threads, as in WebAssembly: a pool of any size is the calling
 * thread alone. CMake chooses between this file and pool.c.
 */
#include "base/last_error.h"
#include <stdlib.h>

struct whet_pool {
    size_t unused;
};

whet_status whet_pool_create(size_t threads, whet_pool **result) {
    (void)threads;
    if (!result)
        return whet_refuse(WHET_ERROR_ARGUMENT, "pool is NULL");
    *result = calloc(1, sizeof **result);
    return *result ? WHET_OK : whet_refuse(WHET_ERROR_MEMORY, "out of memory for a pool");
}

void whet_pool_destroy(whet_pool *pool) { free(pool); }

size_t whet_pool_threads(const whet_pool *pool) {
    (void)pool;
    return 1;
}

static void run_alone(void *context, size_t tasks, whet_task_function function, void *argument) {
    (void)context;
    for (size_t task = 0; task < tasks; task++)
        function(argument, task, 0);
}

whet_executor whet_pool_executor(whet_pool *pool) { return (whet_executor){1, run_alone, pool}; }
