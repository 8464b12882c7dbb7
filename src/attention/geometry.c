/* Rows and their addresses: see geometry.h. */
#include "attention/geometry.h"
#include "attention/arena.h"
#include "base/element_types.h"

kv_slice whet_slice_at(const whet_plan *plan, const plan_shape *shape, size_t index) {
    const whet_attention *a = shape->path == PATH_BACKWARD ? &plan->description.gradients.attention
                                                           : &plan->description.attention;
    bool wants_maxima = shape->path != PATH_BACKWARD && a->max_logits;
    return (kv_slice){.attention = a,
                      .row_maxima =
                          wants_maxima ? arena_part(plan->workspace, shape->row_maxima) : NULL,
                      .kernels = shape->kernels,
                      .list = {.step = 1},
                      .heads_per_kv = shape->heads_per_kv,
                      .batch = index / a->kv_heads,
                      .kv_head = index % a->kv_heads};
}

/* x clamped to 0 ... keys. */
static size_t clamp_key(int64_t x, size_t keys) {
    if (x < 0)
        return 0;
    return (uint64_t)x > keys ? keys : (size_t)x;
}

query_row whet_row_of(const kv_slice *slice, size_t r) {
    const whet_attention *a = slice->attention;
    query_row row = {.head = slice->kv_head * slice->heads_per_kv + r % slice->heads_per_kv,
                     .query = r / slice->heads_per_kv,
                     .low = 0,
                     .high = a->keys};
    row.position = (int64_t)row.query + a->offset;
    if (a->window) {
        /* no two positions are farther apart than 2^33 */
        int64_t reach = (uint64_t)a->window >> 33 ? INT64_C(1) << 33 : (int64_t)a->window;
        row.low = clamp_key(row.position - reach + 1, a->keys);
        row.high = clamp_key(row.position + reach, a->keys);
    }
    if (a->flags & WHET_CAUSAL) {
        size_t end = clamp_key(row.position + 1, a->keys);
        if (end < row.high)
            row.high = end;
    }
    if (row.high < row.low)
        row.high = row.low;
    row.token = a->positions ? a->positions[slice->batch * a->queries + row.query] : row.position;
    row.policy = a->policies + (a->policy_count > 1 ? row.head : 0);
    row.temperature = whet_temperature_of(row.policy);
    row.map = whet_map_of(row.policy);
    row.sink = a->sinks ? a->sinks[row.head] : -INFINITY;
    return row;
}

uint64_t whet_row_index(const kv_slice *slice, const query_row *row) {
    const whet_attention *a = slice->attention;
    return ((uint64_t)slice->batch * a->heads + row->head) * a->queries + row->query;
}

whet_stats *whet_row_stats(const kv_slice *slice, const query_row *row) {
    const whet_attention *a = slice->attention;
    if (!a->stats)
        return NULL;
    return (whet_stats *)(void *)((char *)a->stats + whet_row_index(slice, row) * a->stats_stride);
}

whet_status whet_note_bad_row(const kv_slice *slice, const query_row *row, whet_status status,
                              uint64_t *first_bad_row) {
    uint64_t index = whet_row_index(slice, row);
    if (first_bad_row && (status == WHET_OK || index < *first_bad_row))
        *first_bad_row = index;
    return WHET_NOT_FINITE;
}

const float *whet_load_row(const kv_slice *slice, const whet_tensor *tensor, const query_row *row,
                           size_t n, float *buffer) {
    const char *at = (const char *)tensor->data +
                     tensor_offset(tensor->stride, slice->batch, row->head, row->query);
    return load_elements(slice->kernels, element_type_of(tensor->type), at, tensor->stride[3], n,
                         buffer);
}

void whet_load_query(const kv_slice *slice, const query_row *row, float *result) {
    const whet_attention *a = slice->attention;
    const float *q = whet_load_row(slice, &a->q, row, a->head_dim, result);
    slice->kernels->scale(q, a->head_dim, a->scale, result);
}

size_t whet_contiguous_keys(const key_list *list, size_t place, size_t end) {
    if (!list->keys && list->step == 1)
        return end - place;
    size_t first = key_at(list, place), n = 1;
    while (place + n < end && key_at(list, place + n) == first + n)
        n++;
    return n;
}

const char *whet_position_at(const kv_slice *slice, const whet_tensor *tensor, size_t j) {
    return (const char *)tensor->data +
           tensor_offset(tensor->stride, slice->batch, slice->kv_head, key_at(&slice->list, j));
}

const float *whet_load_position(const kv_slice *slice, const whet_tensor *tensor, size_t j,
                                size_t dim, float *buffer) {
    const char *at = whet_position_at(slice, tensor, j);
    const element_type *type = element_type_of(tensor->type);
    if (!type->is_callers)
        return load_elements(slice->kernels, type, at, tensor->stride[3], dim, buffer);
    tensor->to_f32(at, buffer, dim, tensor->context);
    return buffer;
}

bool whet_is_transposed(const whet_tensor *tensor) {
    ptrdiff_t bytes = (ptrdiff_t)element_type_of(tensor->type)->bytes;
    return bytes && tensor->stride[2] == bytes && tensor->stride[3] != bytes;
}

void whet_store_row(const kv_slice *slice, const whet_tensor_out *tensor, size_t head,
                    size_t position, const float *values, size_t n) {
    char *at = (char *)tensor->data + tensor_offset(tensor->stride, slice->batch, head, position);
    element_type_of(tensor->type)->from_f32(slice->kernels, values, n, at, tensor->stride[3]);
}

void whet_store_output(const kv_slice *slice, const query_row *row, const float *values) {
    const whet_attention *a = slice->attention;
    whet_store_row(slice, &a->out, row->head, row->query, values, a->value_dim);
}
