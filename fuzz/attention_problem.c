/*
 * An input's bytes as a description of attention: shapes, tensors, masks,
 * limits, policies and statistics, some of them wrong on purpose.
 */
#include "attention_problem.h"
#include "policy.h"

/* Multiplications of a problem: few in most, so that there are many problems in a second. */
enum { WORK_FEW = 3000, WORK_MANY = 60000, KEYS_MAX = 2100 };

/* A row of the caller's own type: one signed byte an element, in units given by the context. */
static void bytes_to_f32(const void *row, float *result, size_t n, void *context) {
    const signed char *bytes = row;
    for (size_t i = 0; i < n; i++) {
        result[i] = (float)bytes[i] * *(const float *)context;
    }
}

static size_t choose_dim(fuzz_input *input) {
    if (fuzz_rarely(input, 16)) {
        return 1 + fuzz_below(input, DIM_MAX);
    }
    size_t dim = 1 + fuzz_below(input, 40);
    return dim > 36 ? (dim - 36) * QUANT_BLOCK : dim;
}

static void choose_shape(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    a->size = sizeof *a;
    a->batch = fuzz_below(input, 4);
    a->kv_heads = 1 + fuzz_below(input, 3);
    a->heads = a->kv_heads * (1 + fuzz_below(input, 4));
    a->queries = fuzz_below(input, 60);
    a->keys = fuzz_rarely(input, 8) ? fuzz_below(input, KEYS_MAX) : fuzz_below(input, 256);
    a->head_dim = choose_dim(input);
    a->value_dim = choose_dim(input);
    size_t heads = (a->batch ? a->batch : 1) * a->heads;
    size_t dims = a->head_dim + a->value_dim;
    size_t most = (a->keys + dims) % 32 == 0 ? WORK_MANY : WORK_FEW;
    while (heads * a->queries * a->keys * dims > most) {
        bool is_wide = a->keys > 4 * a->queries || a->queries <= 1;
        *(is_wide ? &a->keys : &a->queries) /= 2;
    }
    if (a->kv_heads == a->heads && fuzz_flag(input)) {
        a->kv_heads = 0;
    }
    if (a->value_dim == a->head_dim) {
        a->value_dim = 0;
    }
}

static void choose_input(problem *made, fuzz_input *input, whet_tensor *tensor, fuzz_array *array,
                         unsigned types, fuzz_temper temper) {
    static const whet_type all[] = {WHET_F32,  WHET_F16,  WHET_BF16, WHET_CUSTOM, WHET_Q8_0,
                                    WHET_Q4_0, WHET_Q4_1, WHET_Q5_0, WHET_Q5_1,   WHET_IQ4_NL};
    array->type = tensor->type = all[fuzz_below(input, types)];
    bool whole = array->count[ELEMENT] % QUANT_BLOCK == 0;
    if (is_quantised(array) && !whole && !fuzz_rarely(input, 16)) {
        array->type = tensor->type = WHET_F16;
    }
    if (is_quantised(array)) {
        made->is_wrong |= !whole;
        array->count[ELEMENT] = (array->count[ELEMENT] + QUANT_BLOCK - 1) / QUANT_BLOCK;
    }
    lay_out(made, input, array, true, tensor->stride);
    fill_array(array, fuzz_bytes(input, 3), temper);
    tensor->data = array->base;
    if (tensor->type == WHET_CUSTOM) {
        tensor->to_f32 = bytes_to_f32;
        tensor->context = &made->unit;
    }
}

static void choose_tensors(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    fuzz_temper temper = (fuzz_temper)fuzz_below(input, 8);
    if (temper >= FUZZ_TEMPERS) {
        temper = FUZZ_TAME;
    }
    made->unit = 1.0f / 32;
    made->q = (fuzz_array){.count = {batches(a), a->heads, a->queries, a->head_dim}};
    made->k = (fuzz_array){.count = {batches(a), kv_heads(a), a->keys, a->head_dim}};
    made->v = (fuzz_array){.count = {batches(a), kv_heads(a), a->keys, value_dim(a)}};
    choose_input(made, input, &a->q, &made->q, 3, temper);
    choose_input(made, input, &a->k, &made->k, 6, temper);
    choose_input(made, input, &a->v, &made->v, 6, fuzz_rarely(input, 4) ? FUZZ_BITS : temper);

    made->out = (fuzz_array){.count = {batches(a), a->heads, a->queries, value_dim(a)}};
    made->out.type = a->out.type = (whet_type)fuzz_below(input, 3);
    lay_out(made, input, &made->out, false, a->out.stride);
    a->out.data = made->out.base;
}

/* A zero stride repeats the mask, except for keys. */
static void choose_mask(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    if (!fuzz_flag(input)) {
        return;
    }
    made->mask = (fuzz_array){.count = {batches(a), a->heads, a->queries, a->keys}};
    made->mask.type = a->mask.type = (whet_type)fuzz_below(input, 2);
    choose_strides(input, &made->mask, false);
    if (fuzz_flag(input)) { /* contiguous keys, repeated for everything else */
        memset(made->mask.stride, 0, sizeof made->mask.stride);
    }
    for (int axis = BATCH; axis < ELEMENT; axis++) {
        if (fuzz_rarely(input, 4)) {
            made->mask.stride[axis] = 0;
        }
    }
    memcpy(a->mask.stride, made->mask.stride, sizeof a->mask.stride);
    if (made->mask.stride[ELEMENT] == 0) {
        made->mask.stride[ELEMENT] = (ptrdiff_t)fuzz_type_size(made->mask.type);
    }
    fuzz_array_allocate(&made->mask, 0);
    fuzz_temper temper = fuzz_rarely(input, 4) ? FUZZ_BITS : FUZZ_MASKED;
    fuzz_fill(&made->mask, fuzz_bytes(input, 2), temper);
    a->mask.data = made->mask.base;
}

/* Likewise, one for each batch, head and key. */
static void choose_bias(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    if (!fuzz_rarely(input, 4)) {
        return;
    }
    made->bias = (fuzz_array){.count = {batches(a), a->heads, 1, a->keys}, .type = WHET_F32};
    choose_strides(input, &made->bias, false);
    for (int axis = BATCH; axis < FUZZ_AXES; axis++) {
        if (fuzz_rarely(input, 4)) {
            made->bias.stride[axis] = 0;
        }
    }
    a->bias.stride[0] = made->bias.stride[BATCH];
    a->bias.stride[1] = made->bias.stride[HEAD];
    a->bias.stride[2] = made->bias.stride[ELEMENT];
    if (made->bias.stride[ELEMENT] == 0) {
        made->bias.stride[ELEMENT] = sizeof(float);
    }
    size_t slack = fuzz_rarely(input, 64) ? fuzz_below(input, 8) : 0;
    made->is_wrong |= slack % sizeof(float) != 0;
    fuzz_array_allocate(&made->bias, slack);
    fuzz_fill(&made->bias, fuzz_bytes(input, 2), fuzz_rarely(input, 4) ? FUZZ_BITS : FUZZ_MASKED);
    a->bias.data = (const float *)(const void *)made->bias.base;
}

/* Policies keep their maps: a temperature beside betas is wrong. */
static void choose_betas(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    if (!fuzz_rarely(input, 4)) {
        return;
    }
    bool may_be_wrong = made->is_wrong || fuzz_rarely(input, 16);
    size_t count = a->policy_count > 1 ? a->policy_count : 1;
    count = count == a->heads || count == 1 ? count : 0; /* as many as there are */
    for (size_t i = 0; made->policies && i < count; i++) {
        whet_policy *policy = &made->policies[i];
        if (!may_be_wrong) {
            *policy = whet_policy_compose(whet_policy_softmax(), *policy);
        }
        made->is_wrong |= policy->temperature != WHET_POLICY_SOFTMAX;
    }
    size_t rows = batches(a) * a->heads * a->queries;
    made->betas = fuzz_allocate(rows * sizeof *made->betas);
    for (size_t i = 0; i < rows; i++) {
        bool is_arbitrary = fuzz_rarely(input, 8);
        made->betas[i] =
            is_arbitrary ? (float)fuzz_double(input) : (float)fuzz_below(input, 16) / 8;
    }
    a->betas = made->betas;
}

static void choose_max_logits(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    bool is_wanted = fuzz_rarely(input, 4);
    made->max_logits_bytes = is_wanted ? a->heads * sizeof(float) : 0;
    made->max_logits = fuzz_allocate(made->max_logits_bytes);
    memset(made->max_logits, FUZZ_CANARY, made->max_logits_bytes);
    a->max_logits = is_wanted ? (float *)(void *)made->max_logits : NULL;
}

static float choose_number(problem *made, fuzz_input *input, float usual, float largest) {
    unsigned how = fuzz_below(input, 8);
    if (how < 4) {
        return 0;
    }
    float number = how < 7 ? usual : (float)fuzz_double(input);
    made->is_tame &= number >= 0 && number <= largest;
    return number;
}

static float *choose_per_head(problem *made, fuzz_input *input, float usual) {
    if (fuzz_below(input, 4) != 1) {
        return NULL;
    }
    size_t heads = made->attention.heads;
    float *values = fuzz_allocate(heads * sizeof *values);
    for (size_t i = 0; i < heads; i++) {
        values[i] = fuzz_rarely(input, 8) ? (float)fuzz_double(input) : usual * (float)i;
        made->is_tame &= fabsf(values[i]) <= 100;
    }
    return values;
}

static void choose_limits(problem *made, fuzz_input *input) {
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX,           INT32_MAX,
                                       INT32_MIN, -(int64_t)INT32_MAX, INT64_C(1) << 40};
    whet_attention *a = &made->attention;
    a->flags = fuzz_flag(input) ? (uint32_t)WHET_CAUSAL : 0;
    if (fuzz_rarely(input, 64)) {
        const uint32_t known = (uint32_t)WHET_CAUSAL | WHET_INVARIANT,
                       bits = (uint32_t)fuzz_bytes(input, 4);
        a->flags = bits >> 31 ? bits : bits & known;
        made->is_wrong |= (a->flags & ~known) != 0;
    }
    if (fuzz_rarely(input, 16)) {
        a->offset = extremes[fuzz_below(input, 6)];
        made->is_wrong |= a->offset > INT32_MAX || a->offset < -(int64_t)INT32_MAX;
    } else if (fuzz_flag(input)) {
        a->offset = (int64_t)a->keys - (int64_t)a->queries;
    } else {
        a->offset = (int64_t)fuzz_below(input, 64) - 32;
    }
    if (fuzz_flag(input)) {
        a->window = fuzz_rarely(input, 8) ? fuzz_hostile_size(input) : fuzz_below(input, 200);
    }
}

static void choose_policies(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    unsigned how = fuzz_below(input, 4);
    if (how == 0) {
        return;
    }
    a->policy_count = how == 1 ? a->heads : how == 2 ? 1 : 0;
    if (fuzz_rarely(input, 64)) {
        a->policy_count = fuzz_hostile_size(input);
    }
    made->is_wrong |= a->policy_count > 1 && a->policy_count != a->heads;
    size_t count = a->policy_count == a->heads ? a->heads : 1;
    made->policies = fuzz_allocate(count * sizeof *made->policies);
    made->beta = 1;
    for (size_t i = 0; i < count; i++) {
        made->policies[i] = fuzz_any_policy(input, &made->beta);
        made->is_wrong |= whet_policy_check(&made->policies[i], NULL, 0) != WHET_OK;
    }
    a->policies = made->policies;
}

static void choose_stats(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    if (!fuzz_flag(input)) {
        made->stats = fuzz_allocate(0);
        return;
    }
    size_t stride = sizeof(whet_stats);
    if (fuzz_rarely(input, 4)) {
        stride = a->stats_stride = sizeof(whet_stats) + fuzz_below(input, 20);
        made->is_wrong |= stride % _Alignof(whet_stats) != 0;
    }
    size_t rows = batches(a) * a->heads * a->queries;
    made->stats_bytes = rows ? (rows - 1) * stride + sizeof(whet_stats) : 0;
    made->stats = fuzz_allocate(made->stats_bytes);
    memset(made->stats, FUZZ_CANARY, made->stats_bytes);
    a->stats = (whet_stats *)(void *)made->stats;
}

void make_problem(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    memset(made, 0, sizeof *made);
    made->is_tame = true;
    choose_shape(made, input);
    choose_policies(made, input);
    choose_stats(made, input);
    choose_limits(made, input);
    choose_tensors(made, input);
    choose_mask(made, input);
    a->scale = choose_number(made, input, 0.25f, 1);
    a->softcap = choose_number(made, input, 2, 1e6f);
    made->is_tame &= a->softcap == 0 || a->softcap > 1e-3f;
    made->is_wrong |= !isfinite(a->scale) || !isfinite(a->softcap) || a->softcap < 0;
    a->alibi_slopes = made->alibi_slopes = choose_per_head(made, input, 0.125f);
    a->sinks = made->sinks = choose_per_head(made, input, 1);
    choose_bias(made, input);
    choose_betas(made, input);
    choose_max_logits(made, input);
}

void free_problem(problem *made) {
    free(made->q.memory);
    free(made->k.memory);
    free(made->v.memory);
    free(made->out.memory);
    free(made->mask.memory);
    free(made->bias.memory);
    free(made->betas);
    free(made->max_logits);
    free(made->stats);
    free(made->sinks);
    free(made->alibi_slopes);
    free(made->policies);
}
