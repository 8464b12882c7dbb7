/*
 * Plans: the work is divided by the shape alone, tasks of a phase may run in any
 * order and on any thread, and whatever drives them gets the same bits.
 */
#include "attention/example.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/isa.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__wasm__)
enum { HAS_THREADS = 0 };
#else
#include <pthread.h>
enum { HAS_THREADS = 1 };
#endif

/* ---- problems of every kind ---- */

enum { PROBLEMS = 12, HEAD_DIM = 43, VALUE_DIM = 27 }; /* which fill no vector */

/* Few queries over long caches and many queries, plain and adaptive, with bad rows and without. */
static example problem(size_t i) {
    static const char *const policies[] = {"softmax", "adaptive", "target:1.5", "fixed:2"};
    example_shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .seed = i};
    bool few = i % 2 == 0;
    if (i % 4 == 0) { /* several key heads to a task */
        shape.heads = 8;
        shape.kv_heads = 4;
        shape.layout = TOKENS_FIRST;
    }
    shape.queries = few ? 3 : 70;
    shape.keys = !few ? 200 : i < 6 ? 2200 : 300; /* several chunks, or one */
    shape.head_dim = HEAD_DIM;
    shape.value_dim = VALUE_DIM;
    shape.k_type = i % 3 == 1 ? WHET_F16 : WHET_F32;
    example e = example_new(shape);
    example_policy(&e, policies[i / 2 % 4]);
    if (i % 3) {
        e.attention.flags = WHET_CAUSAL;
        e.attention.offset = (int64_t)shape.keys - (int64_t)shape.queries;
    }
    if (i >= 6) {
        example_mask(&e, MASK_QUERIES | MASK_HEADS, WHET_F32, 0);
        example_sinks(&e);
        example_set(&e.q, 1, 2, 1, 0, NAN);
        example_set(&e.q, 1, 3, 0, 0, NAN);
        example_bias(&e, MASK_HEADS, 0);
    }
    if (i / 2 % 4 == 0) {
        example_betas(&e);
    }
    return e;
}

/* What came of a problem; out, statistics and largest logits as bytes. */
typedef struct outcome {
    whet_status status;
    uint64_t first_bad_row;
    size_t out_bytes, stats_bytes, max_logits_bytes;
    unsigned char *out, *stats, *max_logits;
} outcome;

static outcome outcome_of(example *e) {
    size_t rows = 2 * e->attention.heads * e->attention.queries;
    outcome o = {.out_bytes = rows * VALUE_DIM * sizeof(float),
                 .stats_bytes = rows * sizeof(whet_stats),
                 .max_logits_bytes = e->attention.heads * sizeof(float),
                 .first_bad_row = UINT64_MAX};
    o.out = malloc(o.out_bytes);
    o.stats = malloc(o.stats_bytes);
    o.max_logits = malloc(o.max_logits_bytes);
    REQUIRE(o.out && o.stats && o.max_logits);
    memset(o.out, 0xcc, o.out_bytes);
    memset(o.max_logits, 0xcc, o.max_logits_bytes);
    memset(o.stats, 0xcc, o.stats_bytes);
    e->attention.out = (whet_tensor_out){.data = o.out, .type = WHET_F32};
    e->attention.stats = (whet_stats *)(void *)o.stats;
    e->attention.max_logits = (float *)(void *)o.max_logits;
    return o;
}

static void outcome_free(outcome *o) {
    free(o->out);
    free(o->stats);
    free(o->max_logits);
}

static outcome by_forward(example *e, const whet_executor *executor, bool with_stats) {
    outcome o = outcome_of(e);
    if (!with_stats) {
        e->attention.stats = NULL;
    }
    o.status = whet_attention_forward(&e->attention, executor, &o.first_bad_row);
    return o;
}

static void check_same(const char *what, size_t i, const outcome *a, const outcome *b) {
    CHECK_MSG(a->status == b->status && a->first_bad_row == b->first_bad_row,
              "%s: problem %zu: status %d, row %lld, not %d, %lld", what, i, (int)a->status,
              (long long)a->first_bad_row, (int)b->status, (long long)b->first_bad_row);
    CHECK_MSG(same_bytes(a->out, b->out, a->out_bytes), "%s: problem %zu: outputs", what, i);
    CHECK_MSG(same_bytes(a->stats, b->stats, a->stats_bytes), "%s: problem %zu: statistics", what,
              i);
    CHECK_MSG(same_bytes(a->max_logits, b->max_logits, a->max_logits_bytes),
              "%s: problem %zu: largest logits", what, i);
}

/* ---- tasks one by one ---- */

typedef enum task_order { FORWARDS, BACKWARDS_ORDER, SHUFFLED } task_order;

static void put_in_order(size_t *tasks, size_t count, task_order order, struct rng *rng) {
    for (size_t i = 0; i < count; i++) {
        tasks[i] = order == BACKWARDS_ORDER ? count - 1 - i : i;
    }
    for (size_t i = count; order == SHUFFLED && i > 1; i--) {
        size_t j = (size_t)rng_integer(rng, 0, (int64_t)i - 1);
        size_t swap = tasks[i - 1];
        tasks[i - 1] = tasks[j];
        tasks[j] = swap;
    }
}

static void *aligned_memory(example *e, size_t bytes) {
    size_t rounded = (bytes + WHET_ALIGNMENT - 1) / WHET_ALIGNMENT * WHET_ALIGNMENT;
    return example_memory(e, rounded); /* a multiple, so that the start is aligned too */
}

/* A driver as plain as can be; what a task finds in its memory is garbage. */
static outcome by_tasks(example *e, task_order order) {
    outcome o = outcome_of(e);
    struct rng rng = rng_seeded(7);
    whet_plan plan = {.size = sizeof plan};
    o.status = whet_attention_plan(&e->attention, &plan);
    REQUIRE(o.status == WHET_OK);
    plan.workspace = aligned_memory(e, plan.workspace_bytes);
    void *scratch = aligned_memory(e, plan.scratch_bytes);
    for (unsigned phase = 0; phase < plan.phases; phase++) {
        size_t *tasks = calloc(plan.tasks[phase] + 1, sizeof *tasks);
        REQUIRE(tasks != NULL);
        put_in_order(tasks, plan.tasks[phase], order, &rng);
        for (size_t i = 0; i < plan.tasks[phase]; i++) {
            uint64_t row = UINT64_MAX;
            memset(scratch, order == FORWARDS ? 0xff : 0x3f, plan.scratch_bytes);
            whet_status status = whet_attention_run_task(&plan, phase, tasks[i], scratch, &row);
            CHECK(status == WHET_OK || status == WHET_NOT_FINITE);
            if (status == WHET_NOT_FINITE) {
                o.status = status;
                o.first_bad_row = row < o.first_bad_row ? row : o.first_bad_row;
            }
        }
        free(tasks);
    }
    return o;
}

TEST(tasks_may_run_in_any_order) {
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        outcome expected = by_forward(&e, NULL, true);
        CHECK_INT(expected.status, i < 6 ? WHET_OK : WHET_NOT_FINITE);
        static const char *const names[] = {"in order", "backwards", "shuffled"};
        for (task_order order = FORWARDS; order <= SHUFFLED; order++) {
            outcome o = by_tasks(&e, order);
            check_same(names[order], i, &o, &expected);
            outcome_free(&o);
        }
        outcome_free(&expected);
        example_free(&e);
    }
}

/* A task that is run twice does the same again. */
TEST(tasks_may_be_repeated) {
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        outcome expected = by_forward(&e, NULL, true);
        outcome o = outcome_of(&e);
        whet_plan plan = {.size = sizeof plan};
        REQUIRE(whet_attention_plan(&e.attention, &plan) == WHET_OK);
        plan.workspace = aligned_memory(&e, plan.workspace_bytes);
        void *scratch = aligned_memory(&e, plan.scratch_bytes);
        for (unsigned phase = 0; phase < plan.phases; phase++) {
            for (size_t task = 0; task < 2 * plan.tasks[phase]; task++) {
                whet_attention_run_task(&plan, phase, task / 2, scratch, NULL);
            }
        }
        o.status = expected.status;
        o.first_bad_row = expected.first_bad_row;
        check_same("repeated", i, &o, &expected);
        outcome_free(&o);
        outcome_free(&expected);
        example_free(&e);
    }
}

/* ---- executors ---- */

TEST(any_number_of_threads_gives_the_same_bits) {
    static const size_t threads[] = {3, 1, 2, 8};
    for (size_t t = 0; t < size_or_emulated(4, 1); t++) {
        whet_pool *pool = NULL;
        REQUIRE(whet_pool_create(threads[t], &pool) == WHET_OK);
        CHECK_INT(whet_pool_threads(pool), HAS_THREADS ? threads[t] : 1);
        whet_executor executor = whet_pool_executor(pool);
        for (size_t i = 0; i < PROBLEMS; i++) {
            example e = problem(i);
            for (int with_stats = 0; with_stats < 2; with_stats++) {
                outcome expected = by_forward(&e, NULL, with_stats);
                outcome o = by_forward(&e, &executor, with_stats);
                check_same("pool", i, &o, &expected);
                outcome_free(&o);
                outcome_free(&expected);
            }
            example_free(&e);
        }
        whet_pool_destroy(pool);
    }
}

/* One after the other from the last to the first, each time as another worker. */
static void backwards(void *context, size_t tasks, whet_task_function function, void *argument) {
    size_t *calls = context;
    for (size_t task = tasks; task-- > 0;) {
        function(argument, task, task % 5);
        ++*calls;
    }
}

enum { MOST_TASKS = 64 };

#if defined(__wasm__)
static void all_at_once(void *context, size_t tasks, whet_task_function function, void *argument) {
    (void)context;
    for (size_t task = 0; task < tasks; task++) {
        function(argument, task, task);
    }
}
#else
/* A thread for every task. */
typedef struct thread_task {
    whet_task_function function;
    void *argument;
    size_t task;
} thread_task;

static void *run_thread(void *argument) {
    thread_task *t = argument;
    t->function(t->argument, t->task, t->task);
    return NULL;
}

static void all_at_once(void *context, size_t tasks, whet_task_function function, void *argument) {
    pthread_t threads[MOST_TASKS];
    thread_task each[MOST_TASKS];
    (void)context;
    REQUIRE(tasks <= MOST_TASKS);
    for (size_t i = 0; i < tasks; i++) {
        each[i] = (thread_task){function, argument, i};
        REQUIRE(pthread_create(&threads[i], NULL, run_thread, &each[i]) == 0);
    }
    for (size_t i = 0; i < tasks; i++) {
        pthread_join(threads[i], NULL);
    }
}
#endif

TEST(executors_of_the_callers_give_the_same_bits) {
    size_t calls = 0;
    const whet_executor one_by_one = {5, backwards, &calls};
    const whet_executor threads = {MOST_TASKS, all_at_once, NULL};
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        outcome expected = by_forward(&e, NULL, true);
        outcome o = by_forward(&e, &one_by_one, true);
        check_same("backwards", i, &o, &expected);
        outcome_free(&o);
        whet_plan plan = {.size = sizeof plan};
        REQUIRE(whet_attention_plan(&e.attention, &plan) == WHET_OK);
        size_t most = 0;
        for (unsigned phase = 0; phase < plan.phases; phase++) {
            most = plan.tasks[phase] > most ? plan.tasks[phase] : most;
        }
        if (most <= MOST_TASKS) {
            o = by_forward(&e, &threads, true);
            check_same("a thread a task", i, &o, &expected);
            outcome_free(&o);
        }
        outcome_free(&expected);
        example_free(&e);
    }
    CHECK(calls > PROBLEMS);
}

static void demanding(void *context, size_t tasks, whet_task_function function, void *argument) {
    CHECK(tasks > 0);
    backwards(context, tasks, function, argument);
}

TEST(executors_are_never_called_for_nothing) {
    size_t calls = 0;
    const whet_executor executor = {5, demanding, &calls};
    float q[4] = {1, 2, 3, 4}, out[4] = {1, 1, 1, 1};
    whet_attention a = {.size = sizeof a,
                        .heads = 1,
                        .queries = 1,
                        .head_dim = 4,
                        .q = {.data = q},
                        .out = {.data = out}};
    CHECK_INT(whet_attention_forward(&a, &executor, NULL), WHET_OK);
    CHECK(calls > 0 && out[0] == 0 && out[3] == 0);
}

/* ---- plans ---- */

TEST(a_plan_tells_its_needs_and_nothing_of_threads) {
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        outcome o = outcome_of(&e);
        whet_plan first = {.size = sizeof first};
        whet_plan second;
        memset(&second, 0x55, sizeof second);
        second.size = sizeof second;
        CHECK_INT(whet_attention_plan(&e.attention, &first), WHET_OK);
        CHECK_INT(whet_attention_plan(&e.attention, &second), WHET_OK);
        CHECK(first.phases >= 1 && first.phases <= WHET_PHASES_MAX);
        CHECK(first.phases == second.phases && first.scratch_bytes == second.scratch_bytes &&
              first.workspace_bytes == second.workspace_bytes);
        size_t tasks = 0;
        for (unsigned phase = 0; phase < first.phases; phase++) {
            CHECK(first.tasks[phase] > 0 && first.tasks[phase] == second.tasks[phase]);
            tasks += first.tasks[phase];
        }
        CHECK_MSG(tasks >= 4, "problem %zu: %zu tasks are few for several threads", i, tasks);
        CHECK(first.workspace == NULL);
        whet_executor executor = {3, backwards, NULL};
        size_t one = whet_attention_memory(&first, NULL);
        size_t three = whet_attention_memory(&first, &executor);
        CHECK(one >= first.scratch_bytes + first.workspace_bytes);
        CHECK(three >= 3 * first.scratch_bytes + first.workspace_bytes);
        CHECK(three - one >= 2 * first.scratch_bytes);
        executor.workers = SIZE_MAX;
        CHECK(whet_attention_memory(&first, &executor) == SIZE_MAX);
        outcome_free(&o);
        example_free(&e);
    }
}

TEST(tasks_that_do_not_exist_are_refused) {
    for (size_t i = 0; i < 2; i++) {
        example e = problem(i);
        outcome o = outcome_of(&e);
        whet_plan plan = {.size = sizeof plan};
        REQUIRE(whet_attention_plan(&e.attention, &plan) == WHET_OK);
        plan.workspace = aligned_memory(&e, plan.workspace_bytes);
        void *scratch = aligned_memory(&e, plan.scratch_bytes);
        uint64_t row = 4711;
        CHECK_INT(whet_attention_run_task(&plan, plan.phases, 0, scratch, &row),
                  WHET_ERROR_ARGUMENT);
        CHECK_INT(whet_attention_run_task(&plan, 99, 0, scratch, &row), WHET_ERROR_ARGUMENT);
        for (unsigned phase = 0; phase < plan.phases; phase++) {
            CHECK_INT(whet_attention_run_task(&plan, phase, plan.tasks[phase], scratch, &row),
                      WHET_ERROR_ARGUMENT);
            CHECK_INT(whet_attention_run_task(&plan, phase, SIZE_MAX, scratch, &row),
                      WHET_ERROR_ARGUMENT);
        }
        CHECK_INT(whet_attention_run_task(&plan, 0, 0, NULL, &row), WHET_ERROR_ARGUMENT);
        CHECK_INT(whet_attention_run_task(NULL, 0, 0, scratch, &row), WHET_ERROR_ARGUMENT);
        if (plan.workspace_bytes > 0) {
            plan.workspace = NULL;
            CHECK_INT(whet_attention_run_task(&plan, 0, 0, scratch, &row), WHET_ERROR_ARGUMENT);
        }
        CHECK_INT(row, 4711);
        for (size_t at = 0; at < o.out_bytes; at++) {
            CHECK(o.out[at] == 0xcc);
        }
        outcome_free(&o);
        example_free(&e);
    }
}

/* ---- execute ---- */

TEST(executing_in_the_callers_memory_gives_the_same_bits) {
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(2, &pool) == WHET_OK);
    const whet_executor executors[2] = {whet_pool_executor(pool), {0}};
    for (size_t i = 0; i < PROBLEMS; i++) {
        example e = problem(i);
        outcome expected = by_forward(&e, NULL, true);
        for (size_t x = 0; x < 2; x++) {
            const whet_executor *executor = x ? NULL : &executors[0];
            outcome o = outcome_of(&e);
            whet_plan plan = {.size = sizeof plan};
            REQUIRE(whet_attention_plan(&e.attention, &plan) == WHET_OK);
            void *memory = aligned_memory(&e, whet_attention_memory(&plan, executor));
            o.status = whet_attention_execute(&plan, executor, memory, &o.first_bad_row);
            check_same("execute", i, &o, &expected);
            CHECK(plan.workspace == NULL);
            /* once more in the same memory, as it was left */
            memset(o.out, 0xcc, o.out_bytes);
            o.first_bad_row = UINT64_MAX;
            o.status = whet_attention_execute(&plan, executor, memory, &o.first_bad_row);
            check_same("executed again", i, &o, &expected);
            outcome_free(&o);
        }
        outcome_free(&expected);
        example_free(&e);
    }
    whet_pool_destroy(pool);
}

TEST(memory_and_executors_that_cannot_serve_are_refused) {
    example e = problem(0);
    outcome o = outcome_of(&e);
    whet_plan plan = {.size = sizeof plan};
    size_t calls = 0;
    REQUIRE(whet_attention_plan(&e.attention, &plan) == WHET_OK);
    char *memory = aligned_memory(&e, whet_attention_memory(&plan, NULL) + WHET_ALIGNMENT);
    CHECK_INT(whet_attention_execute(&plan, NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_execute(&plan, NULL, memory + 4, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_execute(NULL, NULL, memory, NULL), WHET_ERROR_ARGUMENT);
    const whet_executor idle = {0, backwards, &calls};
    const whet_executor empty = {5, NULL, NULL};
    CHECK_INT(whet_attention_execute(&plan, &idle, memory, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_execute(&plan, &empty, memory, NULL), WHET_ERROR_ARGUMENT);
    CHECK(whet_attention_forward(&e.attention, &idle, NULL) >= WHET_ERROR_ARGUMENT);
    CHECK(whet_attention_forward(&e.attention, &empty, NULL) >= WHET_ERROR_ARGUMENT);
    CHECK_INT(calls, 0);
    for (size_t at = 0; at < o.out_bytes; at++) {
        CHECK(o.out[at] == 0xcc);
    }
    outcome_free(&o);
    example_free(&e);
}

/* ---- memory at length ---- */

/* Plans never look at the data, so that it need not exist: places that are a tebibyte apart, or
 * half a gibibyte where addresses have 32 bits. */
#if UINTPTR_MAX > UINT32_MAX
enum { PLACE_SHIFT = 40, LONGEST = 1 << 24 };
#else
enum { PLACE_SHIFT = 29, LONGEST = 1 << 20 };
#endif
static void *imaginary_address(uintptr_t place) {
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): nobody goes there */
    return (void *)(place << PLACE_SHIFT);
}

/* A description of any size. */
static whet_attention imaginary(size_t queries, size_t keys, size_t dim) {
    whet_attention a = {.size = sizeof a, .heads = 1, .queries = queries, .keys = keys};
    a.head_dim = dim;
    a.q.data = imaginary_address(1);
    a.k.data = imaginary_address(2);
    a.v.data = imaginary_address(3);
    a.out.data = imaginary_address(4);
    return a;
}

static whet_plan plan_of(const whet_attention *a) {
    whet_plan plan = {.size = sizeof plan};
    REQUIRE(whet_attention_plan(a, &plan) == WHET_OK);
    return plan;
}

TEST(scratch_at_131072_keys_is_below_32_mib) {
    static const char *const policies[] = {"softmax", "fixed:2",  "adaptive", "adaptive:hold",
                                           "exp:5",   "target:2", "ssmax:1",  "length:64"};
    static const size_t dims[] = {64, 128, 576};
    static const size_t queries[] = {1, 16, 17, 1000, 131072};
    size_t largest = 0;
    for (size_t p = 0; p < 8; p++) {
        whet_policy policy;
        REQUIRE(whet_policy_parse(policies[p], &policy, NULL, 0) == WHET_OK);
        for (size_t at = 0; at < 3 * 5 * 2 * 2; at++) {
            whet_attention a = imaginary(queries[at % 5], 131072, dims[at / 5 % 3]);
            a.policies = &policy;
            a.flags = at / 15 % 2 ? WHET_CAUSAL : 0;
            if (at / 30) {
                a.stats = imaginary_address(5);
            }
            whet_plan plan = plan_of(&a);
            CHECK_MSG(plan.scratch_bytes < (size_t)32 << 20, "%s, %zu queries, dim %zu: %zu bytes",
                      policies[p], a.queries, a.head_dim, plan.scratch_bytes);
            largest = plan.scratch_bytes > largest ? plan.scratch_bytes : largest;
        }
    }
    printf("     largest scratch at 131,072 keys: %.1f MiB\n", (double)largest / (1 << 20));
}

TEST(memory_grows_no_faster_than_the_number_of_keys) {
    static const char *const policies[] = {"softmax", "adaptive", "target:2"};
    static const size_t queries[] = {1, 16, 17, 1000, 131072};
    for (size_t p = 0; p < 3; p++) {
        whet_policy policy;
        REQUIRE(whet_policy_parse(policies[p], &policy, NULL, 0) == WHET_OK);
        for (size_t q = 0; q < 5; q++) {
            for (size_t keys = 1024; keys <= LONGEST; keys *= 2) {
                whet_attention a = imaginary(queries[q], keys, 64);
                a.policies = &policy;
                whet_plan plan = plan_of(&a);
                size_t total = plan.scratch_bytes + plan.workspace_bytes;
                size_t rows = queries[q] < 64 ? queries[q] : 64;
                size_t linear = ((size_t)40 << 20) + 6 * rows * keys;
                CHECK_MSG(total < linear, "%s, %zu x %zu: %zu bytes", policies[p], a.queries, keys,
                          total);
            }
        }
    }
}

/* A cache of 20,000 positions, its key heads interleaved or one after the other. */
static whet_attention imaginary_cache(size_t kv_heads, size_t heads_per_kv, whet_type type,
                                      bool by_position) {
    whet_attention a = imaginary(1, 20000, 64);
    ptrdiff_t row = (ptrdiff_t)reference_row_size(type, 64);
    a.heads = kv_heads * heads_per_kv;
    a.kv_heads = kv_heads;
    a.k.type = a.v.type = type;
    a.k.stride[0] = row * 20000 * (ptrdiff_t)kv_heads;
    a.k.stride[1] = by_position ? row : row * 20000;
    a.k.stride[2] = by_position ? row * (ptrdiff_t)kv_heads : row;
    memcpy(a.v.stride, a.k.stride, sizeof a.v.stride);
    return a;
}

/* However they are divided into tasks. */
TEST(memory_for_a_cache_serves_all_shorter_ones) {
    for (size_t i = 0; i < 160; i++) {
        whet_attention a =
            imaginary_cache(1 + i % 16, i % 5 ? 1 : 3, i % 2 ? WHET_F16 : WHET_Q8_0, i % 4 > 0);
        a.window = i % 3 ? 0 : 1000;
        a.max_logits = i % 7 ? NULL : imaginary_address(6);
        size_t scratch = 0, workspace = 0, wrong = 0;
        for (size_t keys = 0; keys <= 20000; keys += 1 + keys / 100) {
            a.keys = keys;
            whet_plan plan = plan_of(&a);
            wrong += plan.scratch_bytes < scratch || plan.workspace_bytes < workspace;
            scratch = plan.scratch_bytes;
            workspace = plan.workspace_bytes;
        }
        CHECK_MSG(wrong == 0, "%zu key heads, %zu heads, type %d: %zu lengths need more",
                  a.kv_heads, a.heads, (int)a.k.type, wrong);
    }
}
