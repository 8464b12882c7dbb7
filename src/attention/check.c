/*
 * Checks a description of attention and fills in its defaults: see check.h.
 */
#include "attention/check.h"
#include "base/element_types.h"
#include <math.h>

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
    const element_type *type = element_type_of(tensor->type);
    *element = type->bytes;
    *alignment = type->alignment;
    if (!elements_are_blocks(type))
        return fill_strides(tensor->stride, *size, *element) ? WHET_OK : WHET_ERROR_OVERFLOW;
    if (type->is_callers && (!tensor->to_f32 || tensor->stride[2] == 0))
        return WHET_ERROR_ARGUMENT;
    if (size->dim % type->block != 0)
        return WHET_ERROR_ARGUMENT;
    *element = type->is_callers ? 1 : element_row_bytes(type, size->dim);
    size->dim = 1;
    tensor->stride[3] = 0;
    bool fits = type->is_callers || fill_strides(tensor->stride, *size, *element);
    tensor->stride[3] = 0;
    return fits ? WHET_OK : WHET_ERROR_OVERFLOW;
}

/* Keys and values may be of types that are converted by the row; queries may not. */
whet_status whet_check_input(whet_tensor *tensor, extent size, bool is_cache, memory_range *range) {
    const element_type *type = element_type_of(tensor->type);
    if (!tensor->data || !(is_cache ? type->is_cache : type->is_input))
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
    if (!out->data || !element_type_of(out->type)->is_output)
        return WHET_ERROR_ARGUMENT;
    size_t element = element_type_of(out->type)->bytes;
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
    if (!element_type_of(a->mask.type)->is_mask)
        return WHET_ERROR_ARGUMENT;
    size_t element = element_type_of(a->mask.type)->bytes;
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

/* `count` elements in a row, nothing without an address. False if they leave the address range. */
static bool array_range(const void *data, size_t count, size_t element, memory_range *range) {
    *range = (memory_range){0, 0};
    if (!data)
        return true;
    *range = range_at(data, element);
    return range_extend(range, count, (ptrdiff_t)element);
}

whet_status whet_check_bias(const whet_attention *a, memory_range *range) {
    *range = (memory_range){0, 0};
    if (!a->bias.data || a->keys == 0)
        return WHET_OK;
    *range = range_at(a->bias.data, sizeof(float));
    bool fits = range_extend(range, a->keys, a->bias.stride[2]) &&
                range_extend(range, a->heads, a->bias.stride[1]) &&
                range_extend(range, a->batch, a->bias.stride[0]);
    return fits ? WHET_OK : WHET_ERROR_OVERFLOW;
}

whet_status whet_check_betas(const whet_attention *a, memory_range *range) {
    size_t rows;
    *range = (memory_range){0, 0};
    if (!a->betas)
        return WHET_OK;
    if (!size_multiply(a->batch, a->heads, &rows) || !size_multiply(rows, a->queries, &rows))
        return WHET_ERROR_OVERFLOW;
    return array_range(a->betas, rows, sizeof(float), range) ? WHET_OK : WHET_ERROR_OVERFLOW;
}

static whet_status check_policies(whet_attention *a) {
    if (!a->policies && a->policy_count > 1)
        return WHET_ERROR_ARGUMENT;
    if (!a->policies) {
        a->policies = &whet_plain_policy;
        a->policy_count = 1;
    }
    if (a->policy_count == 0)
        a->policy_count = 1;
    if (a->policy_count != 1 && a->policy_count != a->heads)
        return WHET_ERROR_ARGUMENT;
    for (size_t i = 0; i < a->policy_count; i++)
        if (whet_policy_check(&a->policies[i], NULL, 0) != WHET_OK)
            return WHET_ERROR_POLICY;
    /* a beta that is given takes the place of one that is not chosen */
    for (size_t i = 0; a->betas && i < a->policy_count; i++)
        if (!whet_beta_is_one(&a->policies[i]))
            return WHET_ERROR_ARGUMENT;
    return WHET_OK;
}

static bool is_float_address(const void *data) { return (uintptr_t)data % _Alignof(float) == 0; }

static bool floats_are_aligned(const whet_attention *a) {
    return is_float_address(a->sinks) && is_float_address(a->alibi_slopes) &&
           is_float_address(a->betas) && is_float_address(a->max_logits);
}

/* Sets the stride of keys, too, where that is left out. */
static bool bias_is_aligned(whet_key_bias *bias) {
    if (bias->stride[2] == 0)
        bias->stride[2] = sizeof(float);
    bool aligned = is_float_address(bias->data);
    for (int i = 0; bias->data && i < 3; i++)
        aligned = aligned && bias->stride[i] % (ptrdiff_t)sizeof(float) == 0;
    return aligned;
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
    if (!floats_are_aligned(a) || !bias_is_aligned(&a->bias))
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

static bool any_overlap(const memory_range *outputs, size_t output_count,
                        const memory_range *inputs, size_t input_count) {
    for (size_t i = 0; i < output_count; i++) {
        for (size_t j = 0; j < input_count; j++)
            if (range_overlap(outputs[i], inputs[j]))
                return true;
        for (size_t j = 0; j < i; j++)
            if (range_overlap(outputs[i], outputs[j]))
                return true;
    }
    return false;
}

/* The ranges of everything that is read; those of keys and values only where there are any. */
enum { IN_Q, IN_K, IN_V, IN_MASK, IN_BIAS, IN_BETAS, IN_SINKS, IN_SLOPES, IN_POLICIES, INPUTS };

static whet_status check_inputs(whet_attention *a, memory_range inputs[INPUTS]) {
    extent q_size = {a->batch, a->heads, a->queries, a->head_dim};
    extent k_size = {a->batch, a->kv_heads, a->keys, a->head_dim};
    extent v_size = {a->batch, a->kv_heads, a->keys, a->value_dim};
    whet_status status = whet_check_input(&a->q, q_size, false, &inputs[IN_Q]);
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->k, k_size, true, &inputs[IN_K]);
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->v, v_size, true, &inputs[IN_V]);
    if (status == WHET_OK)
        status = whet_check_mask(a, &inputs[IN_MASK]);
    if (status == WHET_OK)
        status = whet_check_bias(a, &inputs[IN_BIAS]);
    if (status == WHET_OK)
        status = whet_check_betas(a, &inputs[IN_BETAS]);
    if (status != WHET_OK)
        return status;
    bool fit = array_range(a->sinks, a->heads, sizeof(float), &inputs[IN_SINKS]) &&
               array_range(a->alibi_slopes, a->heads, sizeof(float), &inputs[IN_SLOPES]) &&
               array_range(a->policies, a->policy_count, sizeof(whet_policy), &inputs[IN_POLICIES]);
    return fit ? WHET_OK : WHET_ERROR_OVERFLOW;
}

whet_status whet_check_tensors(whet_attention *a) {
    memory_range inputs[INPUTS] = {{0, 0}}, outputs[3] = {{0, 0}};
    extent out_size = {a->batch, a->heads, a->queries, a->value_dim};
    whet_status status = check_inputs(a, inputs);
    if (status == WHET_OK)
        status = whet_check_output(&a->out, out_size, &outputs[0]);
    if (status == WHET_OK)
        status = whet_check_stats(a, &outputs[1]);
    if (status != WHET_OK)
        return status;
    if (!array_range(a->max_logits, a->heads, sizeof(float), &outputs[2]))
        return WHET_ERROR_OVERFLOW;
    return any_overlap(outputs, 3, inputs, INPUTS) ? WHET_ERROR_OVERLAP : WHET_OK;
}
