/* An executor for simulated ranks: see sampling.h. */
#include "sampling.h"
#include "prefill.h"
#include <smpi/smpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of each kind so many tasks are run; the first ones, which touch memory for the first time, do not
 * count. */
enum { SAMPLES = 24, UNCOUNTED = 8, KINDS_MAX = 64 };

typedef struct task_kind {
    const char *what;
    size_t call;
    row_function row;
    int count;
    double seconds[SAMPLES];
    double typical; /* the median of those that count */
} task_kind;

/* Of all ranks: smpirun leaves globals alone (-no-privatize). */
static task_kind kinds[KINDS_MAX];
static size_t kind_count;

/* Blocks by their shape and place in the execution of a block, rows of prefill by what is done to
 * them, phases of decode by their order. */
static task_kind *find_kind(sampling *s, void *argument) {
    task_kind wanted = {.what = s->kind ? s->kind : s->is_prefill ? "rows" : "decode"};
    if (s->is_prefill && !s->kind)
        wanted.row = ((const row_work *)argument)->function;
    else
        wanted.call = s->call++;
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].what == wanted.what && kinds[i].call == wanted.call &&
            kinds[i].row == wanted.row)
            return &kinds[i];
    if (kind_count == KINDS_MAX)
        abort();
    kinds[kind_count] = wanted;
    return &kinds[kind_count++];
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void take_sample(task_kind *kind, double seconds) {
    if (kind->count == SAMPLES)
        return;
    double sorted[SAMPLES];
    int first = kind->count < UNCOUNTED ? kind->count : UNCOUNTED;
    kind->seconds[kind->count++] = seconds;
    int counted = kind->count - first;
    memcpy(sorted, kind->seconds + first, (size_t)counted * sizeof *sorted);
    qsort(sorted, (size_t)counted, sizeof *sorted, compare);
    kind->typical = sorted[counted / 2];
}

/* smpicc makes it the simulated clock. */
#undef clock_gettime

/* Of the processor, spent by this thread. */
static double processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A simulated host computes 1e9 operations a second. */
static void spend(double seconds) { smpi_execute_flops_benched(1e9 * seconds); }

void sampling_pay(sampling *s) {
    spend(s->owed);
    s->owed = 0;
}

static void parallel_for(void *context, size_t tasks, whet_task_function function, void *argument) {
    sampling *s = context;
    size_t rounds = (tasks + s->cores - 1) / s->cores;
    if (!s->is_sampled) {
        for (size_t task = 0; task < tasks; task++)
            function(argument, task, 0);
        return;
    }
    task_kind *kind = find_kind(s, argument);
    for (size_t round = 0; round < rounds && kind->count < SAMPLES; round++) {
        double start = processor_time();
        function(argument, round, 0);
        take_sample(kind, processor_time() - start);
    }
    s->seconds += (double)rounds * kind->typical;
    s->owed += (double)rounds * kind->typical;
    if (!s->is_prefill)
        sampling_pay(s);
}

whet_executor sampling_executor(sampling *s) { return (whet_executor){s->cores, parallel_for, s}; }

void sampling_restart(sampling *s) {
    s->call = 0;
    s->seconds = s->owed = 0;
}

/* ---- what the linker puts in place of functions that mpi/ calls ---- */

whet_status __real_whet_attention_execute(const whet_plan *plan, const whet_executor *executor,
                                          void *memory, uint64_t *first_bad_row);
whet_status __wrap_whet_attention_execute(const whet_plan *plan, const whet_executor *executor,
                                          void *memory, uint64_t *first_bad_row);

/* A block of prefill: with values or without, on the diagonal or below it. */
whet_status __wrap_whet_attention_execute(const whet_plan *plan, const whet_executor *executor,
                                          void *memory, uint64_t *first_bad_row) {
    const whet_attention *a = &plan->description.attention;
    static const char *const kinds[2][2] = {{"statistics", "statistics, diagonal"},
                                            {"values", "values, diagonal"}};
    bool is_diagonal = (a->flags & WHET_CAUSAL) && a->offset + 1 < (int64_t)a->keys;
    sampling *s = executor && executor->parallel_for == parallel_for ? executor->context : NULL;
    if (s) {
        s->kind = kinds[a->value_dim > 1][is_diagonal];
        s->call = 0;
    }
    whet_status status = __real_whet_attention_execute(plan, executor, memory, first_bad_row);
    if (s)
        s->kind = NULL;
    return status;
}

bool __real_whet_mpi_ring_next(ring *r);
bool __wrap_whet_mpi_ring_next(ring *r);

/* Where a rank waits for keys and values, having computed with those before. */
bool __wrap_whet_mpi_ring_next(ring *r) {
    const spread *p = (const void *)((const char *)r - offsetof(spread, r));
    if (p->base.executor.parallel_for == parallel_for)
        sampling_pay(p->base.executor.context);
    return __real_whet_mpi_ring_next(r);
}

void __real_whet_mpi_swap(communicator *c, const void *out, size_t out_bytes, int to, void *in,
                          size_t in_bytes, int from);
void __wrap_whet_mpi_swap(communicator *c, const void *out, size_t out_bytes, int to, void *in,
                          size_t in_bytes, int from);

static double swap_seconds;

void sampling_set_swap(double seconds) { swap_seconds = seconds; }

/* A message of a reduction, and what is done with it. */
void __wrap_whet_mpi_swap(communicator *c, const void *out, size_t out_bytes, int to, void *in,
                          size_t in_bytes, int from) {
    if (swap_seconds > 0)
        spend(swap_seconds);
    __real_whet_mpi_swap(c, out, out_bytes, to, in, in_bytes, from);
}

/* ---- memory ---- */

bool __real_whet_mpi_ring_init(ring *r);
bool __wrap_whet_mpi_ring_init(ring *r);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static bool shares_memory, is_ring;

void sampling_share_memory(bool is_shared) { shares_memory = is_shared; }

void *sampling_allocate(size_t bytes) {
    return shares_memory ? SMPI_SHARED_MALLOC(bytes) : __real_aligned_alloc(WHET_ALIGNMENT, bytes);
}

/* Keys and values that travel. */
bool __wrap_whet_mpi_ring_init(ring *r) {
    is_ring = true;
    bool is_good = __real_whet_mpi_ring_init(r);
    is_ring = false;
    return is_good;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return is_ring ? sampling_allocate(bytes) : __real_aligned_alloc(alignment, bytes);
}
