/*
 * Attention: plan and run on descriptions of every shape: groups of heads,
 * types, strides in any order of axes, negative and broadcast ones, masks,
 * windows and offsets up to the extremes, sinks, soft caps, biases of keys, policies
 * by head, betas of rows, statistics, largest logits. Tensors lie in memory allocated to the byte.
 * A description that is wrong must be refused with nothing written. One that is right is run twice:
 * in one call, and task by task in the opposite order in scratch full of NaN, which must give the
 * same bits; then every row is compared with plain arithmetic, maps that are not a temperature with
 * what whet_softmax makes of the same row. With statistics the backward pass is run as well, twice
 * likewise, and what its gradients have to add up to is checked. Some inputs describe sizes that no
 * memory has, which plans must survive.
 */
#include "attention_problem.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/*
 * Memory for plans, kept from one input to the next: allocating it would take longer than most
 * problems. It is filled with NaN for each run, and what lies behind it must not be touched.
 */
enum { REDZONE = 1024 };

typedef struct kept_memory {
    unsigned char *bytes;
    size_t capacity;
} kept_memory;

static void *take_memory(kept_memory *kept, size_t bytes) {
    if (kept->bytes) {
        ASAN_UNPOISON_MEMORY_REGION(kept->bytes, kept->capacity);
    }
    if (!kept->bytes || bytes + REDZONE > kept->capacity) {
        void *memory;
        free(kept->bytes);
        kept->capacity = 2 * (bytes + REDZONE);
        if (posix_memalign(&memory, WHET_ALIGNMENT, kept->capacity) != 0) {
            exit(0);
        }
        kept->bytes = memory;
    }
    memset(kept->bytes, 0xff, bytes);
    ASAN_POISON_MEMORY_REGION(kept->bytes + bytes, REDZONE);
    return kept->bytes;
}

static kept_memory workspace_memory, scratch_memory;

whet_status run_backwards(whet_plan plan, uint64_t *first_bad) {
    whet_status result = WHET_OK;
    FUZZ_CHECK(plan.phases <= WHET_PHASES_MAX);
    plan.workspace = take_memory(&workspace_memory, plan.workspace_bytes);
    void *scratch = take_memory(&scratch_memory, plan.scratch_bytes);
    for (unsigned phase = 0; phase < plan.phases; phase++) {
        for (size_t task = plan.tasks[phase]; task-- > 0;) {
            uint64_t row = UINT64_MAX;
            whet_status status = whet_attention_run_task(&plan, phase, task, scratch, &row);
            FUZZ_CHECK(status == WHET_OK || status == WHET_NOT_FINITE);
            FUZZ_CHECK((row == UINT64_MAX) == (status == WHET_OK));
            result = status == WHET_OK ? result : status;
            *first_bad = row < *first_bad ? row : *first_bad;
        }
        FUZZ_CHECK(whet_attention_run_task(&plan, phase, plan.tasks[phase], plan.workspace, NULL) ==
                   WHET_ERROR_ARGUMENT);
    }
    return result;
}

whet_status run_at_once(const whet_plan *plan, uint64_t *first_bad) {
    size_t bytes = whet_attention_memory(plan, NULL);
    FUZZ_CHECK(bytes < SIZE_MAX);
    return whet_attention_execute(plan, NULL, take_memory(&scratch_memory, bytes), first_bad);
}

/* The second run must leave what the first did. */
static void check_same_bits(problem *made, const whet_plan *plan, whet_status status,
                            uint64_t first_bad) {
    unsigned char *out = fuzz_copy(made->out.memory, made->out.bytes);
    unsigned char *stats = fuzz_copy(made->stats, made->stats_bytes);
    unsigned char *max_logits = fuzz_copy(made->max_logits, made->max_logits_bytes);
    memset(made->out.memory, FUZZ_CANARY, made->out.bytes);
    memset(made->stats, FUZZ_CANARY, made->stats_bytes);
    memset(made->max_logits, FUZZ_CANARY, made->max_logits_bytes);
    uint64_t again = UINT64_MAX;
    FUZZ_CHECK(run_backwards(*plan, &again) == status);
    FUZZ_CHECK(again == first_bad);
    FUZZ_CHECK(fuzz_same(made->out.memory, out, made->out.bytes));
    FUZZ_CHECK(fuzz_same(made->stats, stats, made->stats_bytes));
    FUZZ_CHECK(fuzz_same(made->max_logits, max_logits, made->max_logits_bytes));
    free(max_logits);
    free(stats);
    free(out);
}

static void run_problem(fuzz_input *input) {
    problem made;
    make_problem(&made, input);
    uint64_t first_bad = UINT64_MAX;
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_attention_plan(&made.attention, &plan);
    if (status == WHET_OK && made.attention.keys % 16 == 1) {
        status = whet_attention_forward(&made.attention, NULL, &first_bad);
    } else if (status == WHET_OK) {
        status = run_at_once(&plan, &first_bad);
    }
    if (status >= WHET_ERROR_ARGUMENT) {
        FUZZ_CHECK(made.is_wrong);
        FUZZ_CHECK(first_bad == UINT64_MAX);
        FUZZ_CHECK(fuzz_is_canary(made.out.memory, made.out.bytes));
        FUZZ_CHECK(fuzz_is_canary(made.stats, made.stats_bytes));
        FUZZ_CHECK(fuzz_is_canary(made.max_logits, made.max_logits_bytes));
    } else {
        FUZZ_CHECK(!made.is_wrong || made.attention.queries == 0 || made.attention.keys == 0);
        FUZZ_CHECK((first_bad == UINT64_MAX) == (status == WHET_OK));
        check_same_bits(&made, &plan, status, first_bad);
        if (made.is_tame && !isnan(made.beta)) {
            check_rows(&made, status, first_bad);
        }
        FUZZ_CHECK(fuzz_gaps_are_untouched(&made.out));
        if (made.attention.stats && made.attention.queries > 0 && made.attention.keys > 0) {
            run_backward(&made, input, status);
        }
    }
    free_problem(&made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = {data, size};
    if (fuzz_below(&input, 8) == 1) {
        run_hostile(&input);
    } else {
        run_problem(&input);
    }
    return 0;
}
