/*
 * The backward pass of a problem: gradients of what can have one, twice with the
 * same bits, and what they have to add up to.
 */
#include "attention_problem.h"

/* The gradients and the memory behind them. */
typedef struct backward_run {
    whet_gradients gradients;
    fuzz_array out, q, k, v;
    whet_policy_gradient *policies;
    float *sinks, *alibi_slopes;
} backward_run;

/* A gradient of something with these counts, or none. */
static void choose_gradient(problem *made, fuzz_input *input, const fuzz_array *of,
                            fuzz_array *array, whet_tensor_out *tensor) {
    memcpy(array->count, of->count, sizeof array->count);
    array->type = tensor->type = (whet_type)fuzz_below(input, 3);
    lay_out(made, input, array, false, tensor->stride);
    tensor->data = of->type == WHET_CUSTOM || fuzz_rarely(input, 8) ? NULL : array->base;
}

static void make_backward_run(backward_run *back, problem *made, fuzz_input *input) {
    whet_gradients *g = &back->gradients;
    const whet_attention *a = &made->attention;
    size_t policies = a->policy_count > 1 ? a->policy_count : 1;
    memset(back, 0, sizeof *back);
    *g = (whet_gradients){.size = sizeof *g, .attention = *a};
    memcpy(back->out.count, made->out.count, sizeof back->out.count);
    back->out.type = g->out.type = (whet_type)fuzz_below(input, 3);
    lay_out(made, input, &back->out, true, g->out.stride);
    fuzz_fill(&back->out, fuzz_bytes(input, 2), fuzz_rarely(input, 4) ? FUZZ_BITS : FUZZ_TAME);
    g->out.data = back->out.base;
    choose_gradient(made, input, &made->q, &back->q, &g->q);
    choose_gradient(made, input, &made->k, &back->k, &g->k);
    choose_gradient(made, input, &made->v, &back->v, &g->v);
    back->policies = fuzz_allocate(policies * sizeof *back->policies);
    back->sinks = fuzz_allocate(a->heads * sizeof *back->sinks);
    back->alibi_slopes = fuzz_allocate(a->heads * sizeof *back->alibi_slopes);
    g->policies = fuzz_flag(input) ? back->policies : NULL;
    g->sinks = a->sinks && fuzz_flag(input) ? back->sinks : NULL;
    g->alibi_slopes = a->alibi_slopes && fuzz_flag(input) ? back->alibi_slopes : NULL;
}

static void free_backward_run(backward_run *back) {
    free(back->out.memory);
    free(back->q.memory);
    free(back->k.memory);
    free(back->v.memory);
    free(back->policies);
    free(back->sinks);
    free(back->alibi_slopes);
}

/* Once more, task by task: the same bits. */
static void check_same_gradients(backward_run *back, const whet_plan *plan, whet_status status,
                                 uint64_t first_bad) {
    fuzz_array *arrays[] = {&back->q, &back->k, &back->v};
    unsigned char *before[3];
    uint64_t again = UINT64_MAX;
    for (size_t i = 0; i < 3; i++) {
        before[i] = fuzz_copy(arrays[i]->memory, arrays[i]->bytes);
        memset(arrays[i]->memory, FUZZ_CANARY, arrays[i]->bytes);
    }
    FUZZ_CHECK(run_backwards(*plan, &again) == status);
    FUZZ_CHECK(again == first_bad);
    for (size_t i = 0; i < 3; i++) {
        FUZZ_CHECK(fuzz_same(arrays[i]->memory, before[i], arrays[i]->bytes));
        free(before[i]);
    }
}

/* Whether a gradient was asked for of keys or values that are not plain numbers. */
static bool cannot_be_written(const problem *made, const whet_gradients *g) {
    return (g->k.data && made->k.type > WHET_BF16) || (g->v.data && made->v.type > WHET_BF16);
}

/* Whether the weights of all heads do, without a sink. */
static bool sum_to_one(const problem *made) {
    size_t count = made->attention.policy_count > 1 ? made->attention.policy_count : 1;
    for (size_t i = 0; made->policies && i < count; i++) {
        uint32_t map = made->policies[i].map;
        if (map == WHET_POLICY_SOFTMAX1 || map == WHET_POLICY_SIGMOID ||
            map == WHET_POLICY_STICK_BREAKING) {
            return false;
        }
    }
    return true;
}

/* Where all is f32, of a usual size and without sinks, the weights of a row add up to one: then
 * values' gradients add up to those of the outputs of rows that see anything. */
static void check_value_sums(const problem *made, const backward_run *back) {
    const whet_attention *a = &made->attention;
    size_t heads_per_kv = a->heads / kv_heads(a);
    for (size_t slice = 0; slice < batches(a) * kv_heads(a); slice++) {
        size_t batch = slice / kv_heads(a), kv_head = slice % kv_heads(a);
        for (size_t i = 0; i < value_dim(a); i++) {
            double sum = 0;
            double size = 1;
            for (size_t key = 0; key < a->keys; key++) {
                sum += (double)fuzz_get(&back->v, batch, kv_head, key, i);
            }
            for (size_t r = 0; r < heads_per_kv * a->queries; r++) {
                row_name row = {batch, kv_head * heads_per_kv + r / a->queries, r % a->queries};
                double grad = (double)fuzz_get(&back->out, batch, row.head, row.query, i);
                bool sees = stats_of(made, &row)->n > 0;
                sum -= sees ? grad : 0;
                size += sees ? fabs(grad) : 0;
            }
            FUZZ_CHECK(fabs(sum) <= 1e-4 * size);
        }
    }
}

void run_backward(problem *made, fuzz_input *input, whet_status forward) {
    backward_run back;
    made->is_wrong = false;
    make_backward_run(&back, made, input);
    uint64_t first_bad = UINT64_MAX;
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_attention_backward_plan(&back.gradients, &plan);
    if (status == WHET_OK && made->attention.keys % 16 == 1) {
        status = whet_attention_backward(&back.gradients, NULL, &first_bad);
    } else if (status == WHET_OK) {
        status = run_at_once(&plan, &first_bad);
    }
    if (status >= WHET_ERROR_ARGUMENT) {
        FUZZ_CHECK(made->is_wrong || cannot_be_written(made, &back.gradients));
        FUZZ_CHECK(fuzz_is_canary(back.q.memory, back.q.bytes));
        FUZZ_CHECK(fuzz_is_canary(back.k.memory, back.k.bytes));
        FUZZ_CHECK(fuzz_is_canary(back.v.memory, back.v.bytes));
    } else {
        const whet_gradients *g = &back.gradients;
        bool anything =
            g->q.data || g->k.data || g->v.data || g->policies || g->sinks || g->alibi_slopes;
        FUZZ_CHECK(!cannot_be_written(made, g));
        FUZZ_CHECK((first_bad == UINT64_MAX) == (status == WHET_OK));
        FUZZ_CHECK(forward == WHET_OK || status == WHET_NOT_FINITE || !anything);
        check_same_gradients(&back, &plan, status, first_bad);
        if (status == WHET_OK && g->v.data && back.v.type == WHET_F32 && !made->sinks &&
            made->is_tame && sum_to_one(made)) {
            check_value_sums(made, &back);
        }
        FUZZ_CHECK(fuzz_gaps_are_untouched(&back.q));
        FUZZ_CHECK(fuzz_gaps_are_untouched(&back.k));
        FUZZ_CHECK(fuzz_gaps_are_untouched(&back.v));
    }
    free_backward_run(&back);
}
