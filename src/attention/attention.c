/*
 * The public calls. A plan is run phase after phase, the tasks of each through
 * an executor. What tasks find wrong with rows is collected without regard to
 * their order, so that it, too, is the same for any number of threads.
 */
#include "attention/backward.h"
#include "attention/decode.h"
#include "attention/invariant.h"
#include "attention/max_logits.h"
#include "attention/prefill.h"
#include "base/checked.h"
#include "base/last_error.h"
#include "whet.h"
#include <stdatomic.h>
#include <stdlib.h>

static whet_status check_task(const whet_plan *plan, unsigned phase, size_t task,
                              const void *scratch) {
    whet_status status = whet_check_plan(plan);
    if (status != WHET_OK)
        return status;
    if (phase >= plan->phases)
        return whet_refuse(WHET_ERROR_ARGUMENT, "phase is %u, but the plan has %u", phase,
                           plan->phases);
    if (task >= plan->tasks[phase])
        return whet_refuse(WHET_ERROR_ARGUMENT, "task is %zu, but phase %u has %zu", task, phase,
                           plan->tasks[phase]);
    if (!scratch)
        return whet_refuse(WHET_ERROR_ARGUMENT, "scratch is NULL");
    if (plan->workspace_bytes > 0 && !plan->workspace)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "plan.workspace is NULL, but the plan needs %zu "
                           "bytes",
                           plan->workspace_bytes);
    return WHET_OK;
}

whet_status whet_attention_run_task(const whet_plan *plan, unsigned phase, size_t task,
                                    void *scratch, uint64_t *first_bad_row) {
    whet_status status = check_task(plan, phase, task, scratch);
    if (status != WHET_OK)
        return status;
    plan_shape shape = whet_shape_of(plan);
    if (whet_is_max_logits_phase(plan, &shape, phase)) {
        whet_run_max_logits_task(plan, &shape, task);
        return WHET_OK;
    }
    if (shape.path == PATH_DECODE)
        return whet_run_decode_task(plan, phase, task, scratch, first_bad_row);
    if (shape.path == PATH_BACKWARD)
        return whet_run_backward_task(plan, phase, task, scratch, first_bad_row);
    if (shape.invariant)
        return whet_run_invariant_task(plan, task, scratch, first_bad_row);
    return whet_run_prefill_task(plan, task, scratch, first_bad_row);
}

typedef struct drive {
    const whet_plan *plan;
    unsigned phase;
    char *scratch;
    size_t scratch_stride;
    _Atomic uint64_t first_bad_row; /* UINT64_MAX for none */
} drive;

static void note_bad_row(drive *d, uint64_t row) {
    uint64_t known = atomic_load_explicit(&d->first_bad_row, memory_order_relaxed);
    while (row < known &&
           !atomic_compare_exchange_weak_explicit(&d->first_bad_row, &known, row,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void run_one(void *argument, size_t task, size_t worker) {
    drive *d = argument;
    uint64_t row = UINT64_MAX;
    whet_status status = whet_attention_run_task(d->plan, d->phase, task,
                                                 d->scratch + worker * d->scratch_stride, &row);
    if (status == WHET_NOT_FINITE)
        note_bad_row(d, row);
}

static void run_serially(void *context, size_t tasks, whet_task_function function, void *argument) {
    (void)context;
    for (size_t task = 0; task < tasks; task++)
        function(argument, task, 0);
}

static const whet_executor serial = {1, run_serially, NULL};

static bool memory_layout(const whet_plan *plan, const whet_executor *executor, size_t *workspace,
                          size_t *scratch, size_t *total) {
    size_t all;
    return size_align(plan->workspace_bytes, WHET_ALIGNMENT, workspace) &&
           size_align(plan->scratch_bytes, WHET_ALIGNMENT, scratch) &&
           size_multiply(*scratch, executor->workers, &all) && size_add(all, *workspace, total);
}

static whet_status check_executor(const whet_executor *executor) {
    if (!executor->parallel_for)
        return whet_refuse(WHET_ERROR_ARGUMENT, "executor.parallel_for is NULL");
    if (executor->workers == 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "executor.workers is 0");
    return WHET_OK;
}

static whet_status refuse_memory(const whet_executor *executor) {
    return whet_refuse(WHET_ERROR_OVERFLOW,
                       "executor.workers is %zu: the scratch of all is larger than memory can be",
                       executor->workers);
}

size_t whet_attention_memory(const whet_plan *plan, const whet_executor *executor) {
    size_t workspace, scratch, total;
    if (whet_check_plan(plan) != WHET_OK)
        return SIZE_MAX;
    if (!executor)
        executor = &serial;
    if (executor->workers == 0) {
        whet_refuse(WHET_ERROR_ARGUMENT, "executor.workers is 0");
        return SIZE_MAX;
    }
    if (memory_layout(plan, executor, &workspace, &scratch, &total))
        return total;
    refuse_memory(executor);
    return SIZE_MAX;
}

whet_status whet_attention_execute(const whet_plan *plan, const whet_executor *executor,
                                   void *memory, uint64_t *first_bad_row) {
    size_t workspace, scratch, total;
    if (!executor)
        executor = &serial;
    whet_status status = whet_check_plan(plan);
    if (status != WHET_OK)
        return status;
    status = check_executor(executor);
    if (status != WHET_OK)
        return status;
    if (!memory_layout(plan, executor, &workspace, &scratch, &total))
        return refuse_memory(executor);
    if (total > 0 && !memory)
        return whet_refuse(WHET_ERROR_ARGUMENT, "memory is NULL, but the plan needs %zu bytes",
                           total);
    if ((uintptr_t)memory % WHET_ALIGNMENT != 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "memory is not aligned to WHET_ALIGNMENT (%d)",
                           WHET_ALIGNMENT);
    whet_plan own = *plan;
    own.workspace = memory;
    drive d = {.plan = &own,
               .scratch = (char *)memory + workspace,
               .scratch_stride = scratch,
               .first_bad_row = UINT64_MAX};
    for (d.phase = 0; d.phase < own.phases; d.phase++)
        if (own.tasks[d.phase] > 0) /* executors are promised something to do */
            executor->parallel_for(executor->context, own.tasks[d.phase], run_one, &d);
    uint64_t row = atomic_load(&d.first_bad_row);
    if (row == UINT64_MAX)
        return WHET_OK;
    if (first_bad_row)
        *first_bad_row = row;
    return WHET_NOT_FINITE;
}

/* Runs a plan in memory that is allocated for it. */
static whet_status run_plan(const whet_plan *plan, const whet_executor *executor,
                            uint64_t *first_bad_row) {
    whet_status status = executor ? check_executor(executor) : WHET_OK;
    if (status != WHET_OK || plan->phases == 0)
        return status;
    size_t bytes = whet_attention_memory(plan, executor);
    void *memory = bytes < SIZE_MAX ? aligned_alloc(WHET_ALIGNMENT, bytes) : NULL;
    if (!memory)
        return whet_refuse(WHET_ERROR_MEMORY, "out of memory: the plan needs %zu bytes", bytes);
    status = whet_attention_execute(plan, executor, memory, first_bad_row);
    free(memory);
    return status;
}

whet_status whet_attention_forward(const whet_attention *attention, const whet_executor *executor,
                                   uint64_t *first_bad_row) {
    whet_plan plan;
    plan.size = sizeof plan;
    whet_status status = whet_attention_plan(attention, &plan);
    return status == WHET_OK ? run_plan(&plan, executor, first_bad_row) : status;
}

whet_status whet_attention_backward(const whet_gradients *gradients, const whet_executor *executor,
                                    uint64_t *first_bad_row) {
    whet_plan plan;
    plan.size = sizeof plan;
    whet_status status = whet_attention_backward_plan(gradients, &plan);
    return status == WHET_OK ? run_plan(&plan, executor, first_bad_row) : status;
}
