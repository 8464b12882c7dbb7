/*
 * Plans for sizes that no memory has. The pointers lead nowhere, so that a plan
 * that follows one is found out. It may take the description if its tensors fit
 * the range of addresses; then what it asks for must not have wrapped around.
 */
#include "attention_problem.h"

#include <sys/mman.h>

enum { PAGE = 4096 };

/* Whether a tensor stays in the range of addresses, or is beyond it by no more than a little. */
static bool fits_memory(const whet_attention *a, size_t heads, size_t positions, size_t dim,
                        const ptrdiff_t stride[FUZZ_AXES], whet_type type) {
    const size_t block = type_block_bytes(type) > 0 ? QUANT_BLOCK : 1;
    const size_t count[FUZZ_AXES] = {batches(a), heads, positions, dim / block};
    double low = 0;
    double high = 0;
    double contiguous = (double)fuzz_type_size(type);
    bool is_default = true;
    for (int axis = FUZZ_AXES - 1; axis >= 0; axis--) {
        if (count[axis] == 0) {
            return true;
        }
        contiguous *= (double)count[axis];
        if (axis == ELEMENT && block > 1) {
            continue; /* its stride means nothing */
        }
        double reach = ((double)count[axis] - 1) * (double)stride[axis];
        low += fmin(0, reach);
        high += fmax(0, reach);
        is_default &= stride[axis] == 0;
    }
    return is_default ? contiguous < 0x1.0001p64 : low > -0x1.0001p64 && high < 0x1.0001p64;
}

static void choose_hostile_strides(fuzz_input *input, ptrdiff_t stride[FUZZ_AXES]) {
    if (fuzz_flag(input)) {
        for (int axis = 0; axis < FUZZ_AXES; axis++) {
            stride[axis] = (ptrdiff_t)(fuzz_hostile_size(input) & ~(uint64_t)3);
        }
    }
}

/* Three pages that cannot even be read. */
static char *inaccessible_pages(void) {
    static void *pages;
    if (!pages) {
        pages = mmap(NULL, (size_t)3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (pages == MAP_FAILED) {
        exit(0);
    }
    return pages;
}

/* Plans of the backward pass, whose outputs may overlap in any way. */
static void run_hostile_backward(const whet_attention *a, fuzz_input *input) {
    whet_gradients g = {.size = sizeof g, .attention = *a, .out = {.data = a->q.data}};
    char *nowhere = inaccessible_pages();
    unsigned wanted = fuzz_below(input, 8);
    g.q.data = wanted & 1 ? nowhere + PAGE : NULL;
    g.k.data = wanted & 2 ? nowhere + PAGE + PAGE / 2 : NULL;
    g.v.data = wanted & 4 ? nowhere + PAGE + PAGE / 4 : NULL;
    choose_hostile_strides(input, g.out.stride);
    choose_hostile_strides(input, g.q.stride);
    choose_hostile_strides(input, g.k.stride);
    whet_plan plan = {.size = sizeof plan};
    if (whet_attention_backward_plan(&g, &plan) != WHET_OK || plan.phases == 0) {
        return;
    }
    bool is_read = a->queries > 0 && a->keys > 0;
    FUZZ_CHECK(!is_read ||
               fits_memory(a, kv_heads(a), a->keys, a->head_dim, a->k.stride, a->k.type));
    FUZZ_CHECK(fits_memory(a, a->heads, a->queries, value_dim(a), g.out.stride, g.out.type));
    FUZZ_CHECK(!g.q.data ||
               fits_memory(a, a->heads, a->queries, a->head_dim, g.q.stride, g.q.type));
    FUZZ_CHECK(!g.k.data ||
               fits_memory(a, kv_heads(a), a->keys, a->head_dim, g.k.stride, g.k.type));
    double least = g.k.data ? (double)a->keys * (double)a->head_dim * sizeof(float) : 1;
    FUZZ_CHECK((double)plan.scratch_bytes + (double)plan.workspace_bytes >= 0.999 * least);
}

static void choose_sizes(fuzz_input *input, whet_attention *a) {
    a->batch = fuzz_hostile_size(input);
    a->heads = fuzz_hostile_size(input);
    a->kv_heads = fuzz_flag(input) ? 0 : fuzz_hostile_size(input);
    a->queries = fuzz_hostile_size(input);
    a->keys = fuzz_hostile_size(input);
    a->head_dim = fuzz_flag(input) ? 1 + fuzz_below(input, DIM_MAX) : fuzz_hostile_size(input);
    a->value_dim = fuzz_flag(input) ? 0 : fuzz_hostile_size(input);
    a->offset = (int64_t)fuzz_hostile_size(input);
    a->window = fuzz_hostile_size(input);
}

static void choose_places(fuzz_input *input, whet_attention *a) {
    char *nowhere = inaccessible_pages();
    a->q.data = a->k.data = a->v.data = nowhere;
    a->out.data = nowhere + PAGE;
    a->k.type = (whet_type)fuzz_below(input, WHET_IQ4_NL + 1);
    a->v.type = (whet_type)fuzz_below(input, WHET_IQ4_NL + 1);
    choose_hostile_strides(input, a->q.stride);
    choose_hostile_strides(input, a->k.stride);
    choose_hostile_strides(input, a->v.stride);
    choose_hostile_strides(input, a->out.stride);
    if (fuzz_rarely(input, 4)) {
        a->bias.data = (const float *)(const void *)nowhere;
        for (int axis = 0; axis < 3; axis++) {
            a->bias.stride[axis] = (ptrdiff_t)(fuzz_hostile_size(input) & ~(uint64_t)3);
        }
    }
    if (fuzz_rarely(input, 4)) {
        a->max_logits = (float *)(void *)(nowhere + PAGE + PAGE / 2);
        a->betas = fuzz_flag(input) ? (const float *)(const void *)nowhere : NULL;
    }
    if (fuzz_rarely(input, 4)) {
        a->stats = (whet_stats *)(void *)(nowhere + 2 * PAGE);
        a->stats_stride = fuzz_hostile_size(input) & ~(uint64_t)7;
    }
}

static void check_plan(const whet_attention *a, const whet_plan *plan, fuzz_input *input) {
    FUZZ_CHECK(fits_memory(a, a->heads, a->queries, a->head_dim, a->q.stride, a->q.type));
    FUZZ_CHECK(fits_memory(a, kv_heads(a), a->keys, a->head_dim, a->k.stride, a->k.type));
    FUZZ_CHECK(fits_memory(a, kv_heads(a), a->keys, value_dim(a), a->v.stride, a->v.type));
    FUZZ_CHECK(fits_memory(a, a->heads, a->queries, value_dim(a), a->out.stride, a->out.type));
    FUZZ_CHECK(plan->scratch_bytes > 0);
    whet_executor many = {.workers = fuzz_hostile_size(input)};
    size_t memory = whet_attention_memory(plan, &many);
    double wanted =
        (double)plan->scratch_bytes * (double)many.workers + (double)plan->workspace_bytes;
    FUZZ_CHECK(memory == SIZE_MAX || (double)memory >= 0.999 * wanted);
}

void run_hostile(fuzz_input *input) {
    whet_attention a = {.size = sizeof a};
    choose_sizes(input, &a);
    whet_policy policy = whet_policy_adaptive();
    a.policies = fuzz_flag(input) ? &policy : NULL;
    choose_places(input, &a);
    whet_plan plan = {.size = sizeof plan};
    if (a.stats && fuzz_flag(input)) {
        run_hostile_backward(&a, input);
    }
    if (whet_attention_plan(&a, &plan) == WHET_OK && plan.phases > 0) {
        check_plan(&a, &plan, input);
    }
}
