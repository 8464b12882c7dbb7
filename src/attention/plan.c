/*
 * Checks a description of attention, fills in its defaults, chooses the path
 * and lets it divide the work. After this nothing can be out of range, so that
 * tasks need not check anything.
 */
#include "attention/checks.h"
#include "base/checked.h"
#include "base/types.h"
#include <math.h>
#include <string.h>

/* Up to this many query rows to a key head, reading the cache is what costs; and a single query
 * is split along the keys however many heads it has, or one thread would do it all. */
#define DECODE_ROWS 32

static bool all_zero(const ptrdiff_t stride[4]) {
    return !stride[0] && !stride[1] && !stride[2] && !stride[3];
}

/* Contiguous strides where none are given; elements are contiguous unless said otherwise. False on
 * overflow. */
static bool fill_strides(ptrdiff_t stride[4], extent size, size_t element) {
    bool contiguous = all_zero(stride);
    if (stride[3] == 0)
        stride[3] = (ptrdiff_t)element;
    if (!contiguous)
        return true;
    return !__builtin_mul_overflow((ptrdiff_t)size.dim, stride[3], &stride[2]) &&
           !__builtin_mul_overflow((ptrdiff_t)size.positions, stride[2], &stride[1]) &&
           !__builtin_mul_overflow((ptrdiff_t)size.heads, stride[1], &stride[0]);
}

/* The memory a tensor covers; false if it leaves the address range. */
static bool tensor_range(const void *data, const ptrdiff_t stride[4], extent size, size_t element,
                         memory_range *range) {
    *range = range_at(data, element);
    return range_extend(range, size.dim, stride[3]) &&
           range_extend(range, size.positions, stride[2]) &&
           range_extend(range, size.heads, stride[1]) && range_extend(range, size.batch, stride[0]);
}

/* Elements are read and written as what they are, and so must lie where such may lie. */
static bool is_aligned(const void *data, const ptrdiff_t stride[4], size_t alignment) {
    bool aligned = (uintptr_t)data % alignment == 0;
    for (int i = 0; i < 4; i++)
        aligned = aligned && stride[i] % (ptrdiff_t)alignment == 0;
    return aligned;
}

/*
 * Rows that have no elements of a fixed size count as one element: those of the
 * caller's type, of which only the caller knows how long they are, and those of
 * quantised types, whole blocks of which the scale decides on the alignment. Sets
 * the strides, and the bytes of the smallest piece and what it must be aligned to.
 */
static whet_status check_row_layout(whet_tensor *tensor, extent *size, size_t *element,
                                    size_t *alignment) {
    size_t block = type_block_bytes(tensor->type);
    *element = *alignment = type_bytes(tensor->type);
    if (tensor->type == WHET_CUSTOM) {
        if (!tensor->to_f32 || tensor->stride[2] == 0)
            return WHET_ERROR_ARGUMENT;
        *element = *alignment = 1;
    } else if (block) {
        if (size->dim % QUANT_BLOCK != 0)
            return WHET_ERROR_ARGUMENT;
        *element = size->dim / QUANT_BLOCK * block;
        *alignment = sizeof(uint16_t);
    } else {
        return fill_strides(tensor->stride, *size, *element) ? WHET_OK : WHET_ERROR_OVERFLOW;
    }
    size->dim = 1;
    tensor->stride[3] = 0;
    bool fits = !block || fill_strides(tensor->stride, *size, *element);
    tensor->stride[3] = 0;
    return fits ? WHET_OK : WHET_ERROR_OVERFLOW;
}

/* Keys and values may be of types that are converted by the row; queries may not. */
whet_status whet_check_input(whet_tensor *tensor, extent size, bool is_cache, memory_range *range) {
    bool by_row = tensor->type == WHET_CUSTOM || type_block_bytes(tensor->type) > 0;
    if (!tensor->data || (by_row ? !is_cache : type_bytes(tensor->type) == 0))
        return WHET_ERROR_ARGUMENT;
    size_t element, alignment;
    whet_status status = check_row_layout(tensor, &size, &element, &alignment);
    if (status != WHET_OK)
        return status;
    /* heads and batches may share memory, positions hardly ever mean to */
    if (tensor->stride[2] == 0 && size.positions > 1)
        return WHET_ERROR_ARGUMENT;
    if (!is_aligned(tensor->data, tensor->stride, alignment))
        return WHET_ERROR_ARGUMENT;
    return tensor_range(tensor->data, tensor->stride, size, element, range) ? WHET_OK
                                                                            : WHET_ERROR_OVERFLOW;
}

/* Two output elements in one place would make the result depend on the order of tasks. */
static bool collides(const ptrdiff_t stride[4], extent size, size_t element) {
    size_t count[4] = {size.batch, size.heads, size.positions, size.dim};
    size_t reach[4];
    int order[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        reach[i] = stride[i] < 0 ? (size_t)0 - (size_t)stride[i] : (size_t)stride[i];
    for (int i = 0; i < 4; i++)
        for (int j = i + 1; j < 4; j++)
            if (reach[order[j]] < reach[order[i]]) {
                int swap = order[i];
                order[i] = order[j];
                order[j] = swap;
            }
    size_t covered = element;
    for (int i = 0; i < 4; i++) {
        int axis = order[i];
        if (count[axis] <= 1)
            continue;
        if (reach[axis] < covered)
            return true;
        covered += (count[axis] - 1) * reach[axis];
    }
    return false;
}

whet_status whet_check_output(whet_tensor_out *out, extent size, memory_range *range) {
    if (!out->data || out->type > WHET_BF16)
        return WHET_ERROR_ARGUMENT;
    size_t element = type_bytes(out->type);
    if (!fill_strides(out->stride, size, element))
        return WHET_ERROR_OVERFLOW;
    if (!is_aligned(out->data, out->stride, element))
        return WHET_ERROR_ARGUMENT;
    if (!tensor_range(out->data, out->stride, size, element, range))
        return WHET_ERROR_OVERFLOW;
    return collides(out->stride, size, element) ? WHET_ERROR_OVERLAP : WHET_OK;
}

whet_status whet_check_mask(whet_attention *a, memory_range *range) {
    *range = (memory_range){0, 0};
    if (!a->mask.data)
        return WHET_OK;
    if (a->mask.type > WHET_F16)
        return WHET_ERROR_ARGUMENT;
    size_t element = type_bytes(a->mask.type);
    if (a->mask.stride[3] == 0)
        a->mask.stride[3] = (ptrdiff_t)element;
    extent size = {a->batch, a->heads, a->queries, a->keys};
    if (!is_aligned(a->mask.data, a->mask.stride, element))
        return WHET_ERROR_ARGUMENT;
    if (a->keys == 0)
        return WHET_OK; /* and covers nothing */
    return tensor_range(a->mask.data, a->mask.stride, size, element, range) ? WHET_OK
                                                                            : WHET_ERROR_OVERFLOW;
}

whet_status whet_check_stats(whet_attention *a, memory_range *range) {
    *range = (memory_range){0, 0};
    if (!a->stats)
        return WHET_OK;
    size_t rows;
    if (a->stats_stride == 0)
        a->stats_stride = sizeof(whet_stats);
    if (a->stats_stride < sizeof(whet_stats) || a->stats_stride > PTRDIFF_MAX ||
        (uintptr_t)a->stats % _Alignof(whet_stats) != 0 ||
        a->stats_stride % _Alignof(whet_stats) != 0)
        return WHET_ERROR_ARGUMENT;
    if (!size_multiply(a->batch, a->heads, &rows) || !size_multiply(rows, a->queries, &rows))
        return WHET_ERROR_OVERFLOW;
    *range = range_at(a->stats, sizeof(whet_stats));
    return range_extend(range, rows, (ptrdiff_t)a->stats_stride) ? WHET_OK : WHET_ERROR_OVERFLOW;
}

/* The policy of heads that were given none. */
static const whet_policy plain_softmax = {.kind = WHET_POLICY_SOFTMAX,
                                          .strength = 1,
                                          .threshold = -INFINITY,
                                          .floor = -INFINITY,
                                          .hold = INFINITY};

static whet_status check_policies(whet_attention *a) {
    if (!a->policies && a->policy_count > 1)
        return WHET_ERROR_ARGUMENT;
    if (!a->policies) {
        a->policies = &plain_softmax;
        a->policy_count = 1;
    }
    if (a->policy_count == 0)
        a->policy_count = 1;
    if (a->policy_count != 1 && a->policy_count != a->heads)
        return WHET_ERROR_ARGUMENT;
    for (size_t i = 0; i < a->policy_count; i++)
        if (whet_policy_check(&a->policies[i], NULL, 0) != WHET_OK)
            return WHET_ERROR_POLICY;
    return WHET_OK;
}

whet_status whet_fill_description(whet_attention *a) {
    if (a->batch == 0)
        a->batch = 1;
    if (a->kv_heads == 0)
        a->kv_heads = a->heads;
    if (a->value_dim == 0)
        a->value_dim = a->head_dim;
    if (a->head_dim < 1 || a->head_dim > HEAD_DIM_MAX || a->value_dim > HEAD_DIM_MAX)
        return WHET_ERROR_ARGUMENT;
    if (a->reserved || a->q.reserved || a->k.reserved || a->v.reserved || a->out.reserved ||
        a->mask.reserved)
        return WHET_ERROR_ARGUMENT;
    if ((uintptr_t)a->sinks % _Alignof(float) != 0 ||
        (uintptr_t)a->alibi_slopes % _Alignof(float) != 0)
        return WHET_ERROR_ARGUMENT;
    if (a->heads == 0 || a->heads % a->kv_heads != 0 || (a->flags & ~(uint32_t)WHET_CAUSAL))
        return WHET_ERROR_ARGUMENT;
    if (a->queries > INT32_MAX || a->keys > INT32_MAX || a->offset > INT32_MAX ||
        a->offset < -(int64_t)INT32_MAX || a->batch > INT32_MAX || a->heads > INT32_MAX)
        return WHET_ERROR_OVERFLOW;
    if (a->scale == 0)
        a->scale = 1.0f / sqrtf((float)a->head_dim);
    if (!isfinite(a->scale) || !isfinite(a->softcap) || a->softcap < 0)
        return WHET_ERROR_ARGUMENT;
    return check_policies(a);
}

static whet_status check_tensors(whet_attention *a) {
    memory_range q, k, v, out, mask, stats;
    extent q_size = {a->batch, a->heads, a->queries, a->head_dim};
    extent out_size = {a->batch, a->heads, a->queries, a->value_dim};
    extent k_size = {a->batch, a->kv_heads, a->keys, a->head_dim};
    extent v_size = {a->batch, a->kv_heads, a->keys, a->value_dim};
    whet_status status = whet_check_input(&a->q, q_size, false, &q);
    k = v = (memory_range){0, 0};
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->k, k_size, true, &k);
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->v, v_size, true, &v);
    if (status == WHET_OK)
        status = whet_check_output(&a->out, out_size, &out);
    if (status == WHET_OK)
        status = whet_check_mask(a, &mask);
    if (status == WHET_OK)
        status = whet_check_stats(a, &stats);
    if (status != WHET_OK)
        return status;
    if (range_overlap(out, q) || range_overlap(out, k) || range_overlap(out, v) ||
        range_overlap(out, mask) || range_overlap(out, stats) || range_overlap(stats, q) ||
        range_overlap(stats, k) || range_overlap(stats, v) || range_overlap(stats, mask))
        return WHET_ERROR_OVERLAP;
    return WHET_OK;
}

/* Maps that look for a threshold among all logits of a row. */
static bool is_searched(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_TOPK || policy->kind == WHET_POLICY_HARDMAX ||
           policy->kind == WHET_POLICY_ENTMAX;
}

/* One pass is enough where beta does not depend on the logits and the statistics asked for, if
 * any, come from that same pass. */
static bool one_pass(const whet_attention *a, uint64_t path) {
    for (size_t i = 0; i < a->policy_count; i++) {
        const whet_policy *policy = &a->policies[i];
        bool is_temperature = whet_policy_is_temperature(policy) != 0;
        if (is_temperature ? !whet_policy_is_constant(policy) : is_searched(policy))
            return false;
        if (a->stats && (policy->kind != WHET_POLICY_SOFTMAX || path == PATH_DECODE))
            return false;
    }
    return true;
}

/* For sigmoid the mask tells: see whet_count_visible. */
static bool needs_count(const whet_attention *a) {
    for (size_t i = 0; i < a->policy_count; i++)
        if (whet_policy_is_temperature(&a->policies[i]) && whet_policy_needs_count(&a->policies[i]))
            return true;
    return a->stats != NULL;
}

whet_status whet_shape_streams(const whet_attention *a, plan_shape *shape) {
    size_t rows, streams;
    shape->kernels = whet_kernels_get();
    shape->group = a->heads / a->kv_heads;
    if (!size_multiply(shape->group, a->queries, &rows) ||
        !size_multiply(a->batch, a->kv_heads, &streams))
        return WHET_ERROR_OVERFLOW;
    shape->rows = rows;
    shape->streams = streams;
    return WHET_OK;
}

/* What the policies ask for between them. */
static void look_at_policies(const whet_attention *a, plan_shape *shape) {
    shape->fused = one_pass(a, shape->path);
    shape->counted = needs_count(a);
    shape->summed = a->stats != NULL;
    for (size_t i = 0; i < a->policy_count; i++) {
        const whet_policy *policy = &a->policies[i];
        if (!whet_policy_is_temperature(policy))
            shape->mapped = 1;
        else if (!whet_policy_is_constant(policy))
            shape->summed = 1;
        if (is_searched(policy))
            shape->searched = 1;
        if (policy->kind == WHET_POLICY_STICK_BREAKING)
            shape->backwards = 1;
    }
}

whet_status whet_attention_plan(const whet_attention *attention, whet_plan *plan) {
    if (!attention || attention->size != sizeof *attention || !plan || plan->size != sizeof *plan)
        return WHET_ERROR_ARGUMENT;
    whet_plan result = {.size = sizeof result, .description = {.attention = *attention}};
    whet_attention *a = &result.description.attention;
    whet_status status = whet_fill_description(a);
    if (status == WHET_OK && a->queries > 0)
        status = check_tensors(a);
    if (status != WHET_OK)
        return status;
    if (a->queries == 0) { /* nothing to do: no phases */
        *plan = result;
        return WHET_OK;
    }

    plan_shape shape = {.kernels = NULL};
    status = whet_shape_streams(a, &shape);
    if (status != WHET_OK)
        return status;
    shape.path = shape.rows <= DECODE_ROWS || a->queries == 1 ? PATH_DECODE : PATH_PREFILL;
    look_at_policies(a, &shape);
    bool fits = shape.path == PATH_DECODE ? whet_plan_decode(&result, &shape)
                                          : whet_plan_prefill(&result, &shape);
    if (!fits)
        return WHET_ERROR_OVERFLOW;
    memcpy(result.internal, &shape, sizeof shape);
    *plan = result;
    return WHET_OK;
}

whet_status whet_attention_run_task(const whet_plan *plan, unsigned phase, size_t task,
                                    void *scratch, uint64_t *first_bad_row) {
    if (!plan || plan->size != sizeof *plan || phase >= plan->phases ||
        task >= plan->tasks[phase] || !scratch)
        return WHET_ERROR_ARGUMENT;
    if (plan->workspace_bytes > 0 && !plan->workspace)
        return WHET_ERROR_ARGUMENT;
    plan_shape shape = whet_shape_of(plan);
    if (shape.path == PATH_DECODE)
        return whet_run_decode_task(plan, phase, task, scratch, first_bad_row);
    if (shape.path == PATH_BACKWARD)
        return whet_run_backward_task(plan, phase, task, scratch, first_bad_row);
    return whet_run_prefill_task(plan, task, scratch, first_bad_row);
}
