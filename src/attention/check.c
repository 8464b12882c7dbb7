/*
 * Checks a description of attention and fills in its defaults: see check.h.
 */
#include "attention/check.h"
#include "base/element_types.h"
#include "base/last_error.h"
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

static whet_status refuse_span(member name, const ptrdiff_t stride[4]) {
    return whet_refuse(WHET_ERROR_OVERFLOW,
                       "%s%s spans more than the address range: strides %td, %td, %td, %td",
                       MEMBER(name), stride[0], stride[1], stride[2], stride[3]);
}

static whet_status refuse_size(member name) {
    return whet_refuse(WHET_ERROR_OVERFLOW, "%s%s has more elements than memory can hold",
                       MEMBER(name));
}

whet_status whet_check_reserved(uint32_t reserved, member name) {
    if (reserved == 0)
        return WHET_OK;
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.reserved is %lu, not 0", MEMBER(name),
                       (unsigned long)reserved);
}

static whet_status refuse_type(member name, whet_type type, const char *allowed) {
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.type is %u (%s), not %s", MEMBER(name),
                       (unsigned)type, element_type_of(type)->name, allowed);
}

whet_status whet_check_aligned(const void *data, member name, size_t alignment) {
    if ((uintptr_t)data % alignment == 0)
        return WHET_OK;
    return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s is not aligned to %zu bytes", MEMBER(name),
                       alignment);
}

/* Elements are read and written as what they are, and so must lie where such may lie. */
static whet_status check_alignment(const void *data, const ptrdiff_t *stride, int axes, member name,
                                   size_t alignment) {
    if ((uintptr_t)data % alignment != 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.data is not aligned to %zu bytes",
                           MEMBER(name), alignment);
    for (int i = 0; i < axes; i++)
        if (stride[i] % (ptrdiff_t)alignment != 0)
            return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.stride[%d] is %td, not a multiple of %zu",
                               MEMBER(name), i, stride[i], alignment);
    return WHET_OK;
}

/*
 * Rows that have no elements of a fixed size count as one element: those of the
 * caller's type, of which only the caller knows how long they are, and those of
 * quantised types, whole blocks of which the scale decides on the alignment. Sets
 * the strides, and the bytes of the smallest piece and what it must be aligned to.
 */
static whet_status check_row_layout(whet_tensor *tensor, member name, extent *size, size_t *element,
                                    size_t *alignment) {
    const element_type *type = element_type_of(tensor->type);
    *element = type->bytes;
    *alignment = type->alignment;
    if (!elements_are_blocks(type))
        return fill_strides(tensor->stride, *size, *element) ? WHET_OK : refuse_size(name);
    if (type->is_callers && !tensor->to_f32)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.to_f32 is NULL with the type custom",
                           MEMBER(name));
    if (type->is_callers && tensor->stride[2] == 0)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "%s%s.stride[2] is 0: the type custom has no default strides",
                           MEMBER(name));
    if (size->dim % type->block != 0)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "%s%s.type is %s, blocks of %zu elements, but its rows have %zu",
                           MEMBER(name), type->name, type->block, size->dim);
    *element = type->is_callers ? 1 : element_row_bytes(type, size->dim);
    size->dim = 1;
    tensor->stride[3] = 0;
    bool fits = type->is_callers || fill_strides(tensor->stride, *size, *element);
    tensor->stride[3] = 0;
    return fits ? WHET_OK : refuse_size(name);
}

/*
 * A stride of 0 among others that are not is most often one that was forgotten. Batches may share
 * memory; for heads that do there is kv_heads, and positions never mean to.
 */
static whet_status check_zero_strides(const whet_tensor *tensor, member name, extent size,
                                      bool is_cache) {
    if (tensor->stride[2] == 0 && size.positions > 1)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.stride[2] is 0 with %zu %s", MEMBER(name),
                           size.positions, is_cache ? "keys" : "queries");
    if (tensor->stride[1] == 0 && size.heads > 1)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.stride[1] is 0 with %zu %s", MEMBER(name),
                           size.heads, is_cache ? "key heads" : "query heads");
    return WHET_OK;
}

/* Keys and values may be of types that are converted by the row; queries may not. */
whet_status whet_check_input(whet_tensor *tensor, member name, extent size, bool is_cache,
                             memory_range *range) {
    const element_type *type = element_type_of(tensor->type);
    if (!tensor->data)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.data is NULL", MEMBER(name));
    if (!(is_cache ? type->is_cache : type->is_input))
        return refuse_type(name, tensor->type, is_cache ? "an element type" : "f32, f16 or bf16");
    size_t element, alignment;
    whet_status status = check_row_layout(tensor, name, &size, &element, &alignment);
    if (status == WHET_OK)
        status = check_zero_strides(tensor, name, size, is_cache);
    if (status == WHET_OK)
        status = check_alignment(tensor->data, tensor->stride, 4, name, alignment);
    if (status != WHET_OK)
        return status;
    return tensor_range(tensor->data, tensor->stride, size, element, range)
               ? WHET_OK
               : refuse_span(name, tensor->stride);
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

whet_status whet_check_output(whet_tensor_out *out, member name, extent size, memory_range *range) {
    const element_type *type = element_type_of(out->type);
    if (!out->data)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s%s.data is NULL", MEMBER(name));
    if (!type->is_output)
        return refuse_type(name, out->type, "f32, f16 or bf16");
    if (!fill_strides(out->stride, size, type->bytes))
        return refuse_size(name);
    whet_status status = check_alignment(out->data, out->stride, 4, name, type->bytes);
    if (status != WHET_OK)
        return status;
    if (!tensor_range(out->data, out->stride, size, type->bytes, range))
        return refuse_span(name, out->stride);
    if (!collides(out->stride, size, type->bytes))
        return WHET_OK;
    return whet_refuse(
        WHET_ERROR_OVERLAP, "%s%s.stride %td, %td, %td, %td puts two elements in one place",
        MEMBER(name), out->stride[0], out->stride[1], out->stride[2], out->stride[3]);
}

whet_status whet_check_mask(whet_attention *a, const char *owner, memory_range *range) {
    member name = {owner, "mask"};
    if (!a->mask.data)
        return WHET_OK;
    const element_type *type = element_type_of(a->mask.type);
    if (!type->is_mask)
        return refuse_type(name, a->mask.type, "f32 or f16");
    if (a->mask.stride[3] == 0)
        a->mask.stride[3] = (ptrdiff_t)type->bytes;
    extent size = {a->batch, a->heads, a->queries, a->keys};
    whet_status status = check_alignment(a->mask.data, a->mask.stride, 4, name, type->bytes);
    if (status != WHET_OK || a->keys == 0)
        return status; /* without keys it covers nothing */
    return tensor_range(a->mask.data, a->mask.stride, size, type->bytes, range)
               ? WHET_OK
               : refuse_span(name, a->mask.stride);
}

/* How many rows there are; false if more than a size can say. */
static bool count_rows(const whet_attention *a, size_t *rows) {
    return size_multiply(a->batch, a->heads, rows) && size_multiply(*rows, a->queries, rows);
}

whet_status whet_check_stats(whet_attention *a, const char *owner, memory_range *range) {
    if (!a->stats)
        return WHET_OK;
    member name = {owner, "stats"};
    size_t rows, stride = a->stats_stride ? a->stats_stride : sizeof(whet_stats);
    a->stats_stride = stride;
    whet_status status = whet_check_aligned(a->stats, name, _Alignof(whet_stats));
    if (status != WHET_OK)
        return status;
    if (stride < sizeof(whet_stats) || stride > PTRDIFF_MAX || stride % _Alignof(whet_stats) != 0)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "%sstats_stride is %zu, not a multiple of %zu from %zu on", owner,
                           stride, _Alignof(whet_stats), sizeof(whet_stats));
    if (!count_rows(a, &rows))
        return refuse_size(name);
    *range = range_at(a->stats, sizeof(whet_stats));
    if (range_extend(range, rows, (ptrdiff_t)stride))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERFLOW,
                       "%sstats spans more than the address range: %zu rows, stats_stride %zu",
                       owner, rows, stride);
}

whet_status whet_check_elements(const void *data, member name, size_t count, size_t element,
                                memory_range *range) {
    if (!data || count == 0)
        return WHET_OK;
    *range = range_at(data, element);
    return range_extend(range, count, (ptrdiff_t)element) ? WHET_OK : refuse_size(name);
}

whet_status whet_check_row_floats(const whet_attention *a, const float *data, member name,
                                  memory_range *range) {
    size_t rows;
    if (!data)
        return WHET_OK;
    if (!count_rows(a, &rows))
        return refuse_size(name);
    return whet_check_elements(data, name, rows, sizeof(float), range);
}

whet_status whet_check_bias(const whet_attention *a, const char *owner, memory_range *range) {
    if (!a->bias.data || a->keys == 0)
        return WHET_OK;
    const ptrdiff_t *stride = a->bias.stride;
    *range = range_at(a->bias.data, sizeof(float));
    if (range_extend(range, a->keys, stride[2]) && range_extend(range, a->heads, stride[1]) &&
        range_extend(range, a->batch, stride[0]))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERFLOW,
                       "%sbias spans more than the address range: strides %td, %td, %td", owner,
                       stride[0], stride[1], stride[2]);
}

static whet_status check_policies(whet_attention *a, const char *owner) {
    if (!a->policies && a->policy_count > 1)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%spolicies is NULL, but policy_count is %zu",
                           owner, a->policy_count);
    if (!a->policies) {
        a->policies = &whet_plain_policy;
        a->policy_count = 1;
    }
    if (a->policy_count == 0)
        a->policy_count = 1;
    if (a->policy_count != 1 && a->policy_count != a->heads)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%spolicy_count is %zu, not 1 or heads (%zu)",
                           owner, a->policy_count, a->heads);
    for (size_t i = 0; i < a->policy_count; i++)
        if (whet_policy_check(&a->policies[i], NULL, 0) != WHET_OK)
            return whet_refuse(WHET_ERROR_POLICY, "%spolicies[%zu]: %s", owner, i,
                               whet_last_error());
    /* a beta that is given takes the place of one that is not chosen */
    for (size_t i = 0; a->betas && i < a->policy_count; i++)
        if (!whet_beta_is_one(&a->policies[i]))
            return whet_refuse(
                WHET_ERROR_ARGUMENT,
                "%sbetas is given, but policies[%zu] has a temperature of its own: use "
                "softmax or a map",
                owner, i);
    return WHET_OK;
}

/* Sets the stride of the bias's keys, too, where that is left out. */
static whet_status check_arrays_aligned(whet_attention *a, const char *owner) {
    const struct {
        const void *data;
        const char *name;
        size_t alignment;
    } arrays[] = {{a->sinks, "sinks", _Alignof(float)},
                  {a->alibi_slopes, "alibi_slopes", _Alignof(float)},
                  {a->betas, "betas", _Alignof(float)},
                  {a->max_logits, "max_logits", _Alignof(float)},
                  {a->positions, "positions", _Alignof(int64_t)}};
    whet_status status = WHET_OK;
    for (size_t i = 0; status == WHET_OK && i < COUNT_OF(arrays); i++)
        status = whet_check_aligned(arrays[i].data, (member){owner, arrays[i].name},
                                    arrays[i].alignment);
    if (a->bias.stride[2] == 0)
        a->bias.stride[2] = sizeof(float);
    if (status == WHET_OK && a->bias.data)
        status = check_alignment(a->bias.data, a->bias.stride, 3, (member){owner, "bias"},
                                 _Alignof(float));
    return status;
}

static whet_status check_heads(const whet_attention *a, const char *owner) {
    if (a->heads == 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%sheads is 0", owner);
    if (a->heads % a->kv_heads != 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%sheads is %zu, not a multiple of kv_heads (%zu)",
                           owner, a->heads, a->kv_heads);
    if (a->head_dim < 1 || a->head_dim > HEAD_DIM_MAX)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%shead_dim is %zu, not 1 to %d", owner,
                           a->head_dim, HEAD_DIM_MAX);
    if (a->value_dim > HEAD_DIM_MAX)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%svalue_dim is %zu, not 1 to %d", owner,
                           a->value_dim, HEAD_DIM_MAX);
    return WHET_OK;
}

/* Positions are computed in 64 bits without further checks, and rows counted in 32. */
static whet_status check_sizes(const whet_attention *a, const char *owner) {
    const struct {
        const char *name;
        size_t size;
    } sizes[] = {
        {"batch", a->batch}, {"heads", a->heads}, {"queries", a->queries}, {"keys", a->keys}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        if (sizes[i].size > INT32_MAX)
            return whet_refuse(WHET_ERROR_OVERFLOW, "%s%s is %zu, more than 2147483647", owner,
                               sizes[i].name, sizes[i].size);
    if (a->offset > INT32_MAX || a->offset < -(int64_t)INT32_MAX)
        return whet_refuse(WHET_ERROR_OVERFLOW, "%soffset is %lld, beyond 2147483647 in size",
                           owner, (long long)a->offset);
    return WHET_OK;
}

static whet_status check_reserved(const whet_attention *a, const char *owner) {
    whet_status status = whet_check_reserved(a->q.reserved, (member){owner, "q"});
    if (status == WHET_OK)
        status = whet_check_reserved(a->k.reserved, (member){owner, "k"});
    if (status == WHET_OK)
        status = whet_check_reserved(a->v.reserved, (member){owner, "v"});
    if (status == WHET_OK)
        status = whet_check_reserved(a->out.reserved, (member){owner, "out"});
    if (status == WHET_OK)
        status = whet_check_reserved(a->mask.reserved, (member){owner, "mask"});
    return status;
}

static whet_status check_numbers(const whet_attention *a, const char *owner) {
    if (a->flags & ~((uint32_t)WHET_CAUSAL | WHET_INVARIANT))
        return whet_refuse(WHET_ERROR_ARGUMENT, "%sflags is 0x%lx, which has unknown bits", owner,
                           (unsigned long)a->flags);
    if (!isfinite(a->scale))
        return whet_refuse(WHET_ERROR_ARGUMENT, "%sscale is not finite", owner);
    if (!isfinite(a->softcap) || a->softcap < 0)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%ssoftcap is not finite or below 0", owner);
    if (!(a->skip >= 0 && a->skip < 1))
        return whet_refuse(WHET_ERROR_ARGUMENT, "%sskip is %g, not 0 to below 1", owner,
                           (double)a->skip);
    if (a->skip > 0 && (a->flags & WHET_INVARIANT))
        return whet_refuse(WHET_ERROR_UNSUPPORTED,
                           "%sskip is %g with WHET_INVARIANT: which values are left out depends on "
                           "the queries that are computed together",
                           owner, (double)a->skip);
    return WHET_OK;
}

whet_status whet_fill_description(whet_attention *a, const char *owner) {
    if (a->batch == 0)
        a->batch = 1;
    if (a->kv_heads == 0)
        a->kv_heads = a->heads;
    if (a->value_dim == 0)
        a->value_dim = a->head_dim;
    whet_status status = check_heads(a, owner);
    if (status == WHET_OK)
        status = check_arrays_aligned(a, owner);
    if (status == WHET_OK)
        status = check_sizes(a, owner);
    if (status == WHET_OK)
        status = check_reserved(a, owner);
    if (status == WHET_OK)
        status = check_numbers(a, owner);
    if (a->scale == 0 && status == WHET_OK)
        a->scale = 1.0f / sqrtf((float)a->head_dim);
    return status == WHET_OK ? check_policies(a, owner) : status;
}

memory_range *whet_list_range(range_list *list, member name) {
    list->of[list->count].name = name;
    list->of[list->count].range = (memory_range){0, 0};
    return &list->of[list->count++].range;
}

static whet_status check_pair(const range_list *outputs, size_t i, const range_list *others,
                              size_t j) {
    if (!range_overlap(outputs->of[i].range, others->of[j].range))
        return WHET_OK;
    return whet_refuse(WHET_ERROR_OVERLAP, "%s%s overlaps %s%s", MEMBER(outputs->of[i].name),
                       MEMBER(others->of[j].name));
}

whet_status whet_check_overlaps(const range_list *inputs, const range_list *outputs) {
    whet_status status = WHET_OK;
    for (size_t i = 0; i < outputs->count; i++) {
        for (size_t j = 0; status == WHET_OK && j < inputs->count; j++)
            status = check_pair(outputs, i, inputs, j);
        for (size_t j = 0; status == WHET_OK && j < i; j++)
            status = check_pair(outputs, i, outputs, j);
    }
    return status;
}

/* Ranges of keys and values only where there are any. */
static whet_status check_inputs(whet_attention *a, range_list *inputs) {
    const extent q_size = {a->batch, a->heads, a->queries, a->head_dim};
    const extent k_size = {a->batch, a->kv_heads, a->keys, a->head_dim};
    const extent v_size = {a->batch, a->kv_heads, a->keys, a->value_dim};
    const member q = {"", "q"}, k = {"", "k"}, v = {"", "v"}, betas = {"", "betas"};
    whet_status status = whet_check_input(&a->q, q, q_size, false, whet_list_range(inputs, q));
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->k, k, k_size, true, whet_list_range(inputs, k));
    if (status == WHET_OK && a->keys > 0)
        status = whet_check_input(&a->v, v, v_size, true, whet_list_range(inputs, v));
    if (status == WHET_OK)
        status = whet_check_mask(a, "", whet_list_range(inputs, (member){"", "mask"}));
    if (status == WHET_OK)
        status = whet_check_bias(a, "", whet_list_range(inputs, (member){"", "bias"}));
    if (status == WHET_OK)
        status = whet_check_row_floats(a, a->betas, betas, whet_list_range(inputs, betas));
    return status;
}

/* Arrays with an element for each head, policy or query. */
static whet_status check_small_inputs(const whet_attention *a, range_list *inputs) {
    size_t queries;
    if (!size_multiply(a->batch, a->queries, &queries))
        return refuse_size((member){"", "q"});
    const struct {
        const void *data;
        member name;
        size_t count, element;
    } arrays[] = {{a->positions, {"", "positions"}, queries, sizeof(int64_t)},
                  {a->sinks, {"", "sinks"}, a->heads, sizeof(float)},
                  {a->alibi_slopes, {"", "alibi_slopes"}, a->heads, sizeof(float)},
                  {a->policies, {"", "policies"}, a->policy_count, sizeof(whet_policy)}};
    whet_status status = WHET_OK;
    for (size_t i = 0; status == WHET_OK && i < COUNT_OF(arrays); i++)
        status = whet_check_elements(arrays[i].data, arrays[i].name, arrays[i].count,
                                     arrays[i].element, whet_list_range(inputs, arrays[i].name));
    return status;
}

whet_status whet_check_tensors(whet_attention *a) {
    range_list inputs = {.count = 0}, outputs = {.count = 0};
    const extent out_size = {a->batch, a->heads, a->queries, a->value_dim};
    const member out = {"", "out"}, max_logits = {"", "max_logits"};
    whet_status status = check_inputs(a, &inputs);
    if (status == WHET_OK)
        status = check_small_inputs(a, &inputs);
    if (status == WHET_OK)
        status = whet_check_output(&a->out, out, out_size, whet_list_range(&outputs, out));
    if (status == WHET_OK)
        status = whet_check_stats(a, "", whet_list_range(&outputs, (member){"", "stats"}));
    if (status == WHET_OK)
        status = whet_check_elements(a->max_logits, max_logits, a->heads, sizeof(float),
                                     whet_list_range(&outputs, max_logits));
    return status == WHET_OK ? whet_check_overlaps(&inputs, &outputs) : status;
}
