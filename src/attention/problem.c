/* Rows, tensors and masks of one attention problem: see problem.h. */
#include "attention/problem.h"
#include "base/types.h"
#include "isa/half.h"
#include <math.h>
#include <string.h>

plan_shape whet_shape_of(const whet_plan *plan) {
    plan_shape shape;
    memcpy(&shape, plan->internal, sizeof shape);
    return shape;
}

key_stream whet_stream_at(const whet_plan *plan, const plan_shape *shape, size_t index) {
    const whet_attention *a = shape->path == PATH_BACKWARD ? &plan->description.gradients.attention
                                                           : &plan->description.attention;
    return (key_stream){.attention = a,
                        .kernels = shape->kernels,
                        .group = shape->group,
                        .batch = index / a->kv_heads,
                        .kv_head = index % a->kv_heads};
}

/* x clamped to 0 ... keys. */
static size_t clamp_key(int64_t x, size_t keys) {
    if (x < 0)
        return 0;
    return (uint64_t)x > keys ? keys : (size_t)x;
}

query_row whet_row_of(const key_stream *stream, size_t r) {
    const whet_attention *a = stream->attention;
    query_row row = {.head = stream->kv_head * stream->group + r % stream->group,
                     .query = r / stream->group,
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
    row.policy = a->policies + (a->policy_count > 1 ? row.head : 0);
    return row;
}

uint64_t whet_row_index(const key_stream *stream, const query_row *row) {
    const whet_attention *a = stream->attention;
    return ((uint64_t)stream->batch * a->heads + row->head) * a->queries + row->query;
}

whet_stats *whet_row_stats(const key_stream *stream, const query_row *row) {
    const whet_attention *a = stream->attention;
    if (!a->stats)
        return NULL;
    return (whet_stats *)(void *)((char *)a->stats + whet_row_index(stream, row) * a->stats_stride);
}

static ptrdiff_t offset_of(const ptrdiff_t stride[4], size_t batch, size_t head, size_t position) {
    return (ptrdiff_t)batch * stride[0] + (ptrdiff_t)head * stride[1] +
           (ptrdiff_t)position * stride[2];
}

static float load_one(const void *at, whet_type type) {
    if (type == WHET_F32) {
        float x;
        memcpy(&x, at, sizeof x);
        return x;
    }
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return type == WHET_F16 ? half_to_float(bits) : brain_to_float(bits);
}

/* n elements from `row` on as floats: in place if they are, else in buffer. */
static const float *load_elements(const kernels *k, const char *row, whet_type type, ptrdiff_t step,
                                  size_t n, float *buffer) {
    if (step != (ptrdiff_t)type_bytes(type))
        for (size_t i = 0; i < n; i++)
            buffer[i] = load_one(row + (ptrdiff_t)i * step, type);
    else if (type == WHET_F32)
        return (const float *)(const void *)row;
    else if (type == WHET_F16)
        k->f16_to_f32((const uint16_t *)(const void *)row, buffer, n);
    else
        k->bf16_to_f32((const uint16_t *)(const void *)row, buffer, n);
    return buffer;
}

const float *whet_load_row(const key_stream *stream, const whet_tensor *tensor,
                           const query_row *row, size_t n, float *buffer) {
    const char *at = (const char *)tensor->data +
                     offset_of(tensor->stride, stream->batch, row->head, row->query);
    return load_elements(stream->kernels, at, tensor->type, tensor->stride[3], n, buffer);
}

void whet_load_query(const key_stream *stream, const query_row *row, float *result) {
    const whet_attention *a = stream->attention;
    const float *q = whet_load_row(stream, &a->q, row, a->head_dim, result);
    stream->kernels->scale(q, a->head_dim, a->scale, result);
}

const char *whet_position_at(const key_stream *stream, const whet_tensor *tensor, size_t j) {
    return (const char *)tensor->data +
           offset_of(tensor->stride, stream->batch, stream->kv_head, j);
}

const float *whet_load_position(const key_stream *stream, const whet_tensor *tensor, size_t j,
                                size_t dim, float *buffer) {
    const char *at = whet_position_at(stream, tensor, j);
    if (tensor->type == WHET_CUSTOM)
        tensor->to_f32(at, buffer, dim, tensor->context);
    else if (tensor->type == WHET_Q8_0)
        stream->kernels->q8_0_to_f32(at, buffer, dim);
    else if (tensor->type == WHET_Q4_0)
        stream->kernels->q4_0_to_f32(at, buffer, dim);
    else
        return load_elements(stream->kernels, at, tensor->type, tensor->stride[3], dim, buffer);
    return buffer;
}

static void store_one(char *at, whet_type type, float x) {
    if (type == WHET_F32) {
        memcpy(at, &x, sizeof x);
        return;
    }
    uint16_t bits = type == WHET_F16 ? float_to_half(x) : float_to_brain(x);
    memcpy(at, &bits, sizeof bits);
}

void whet_store_row(const key_stream *stream, const whet_tensor_out *tensor, size_t head,
                    size_t position, const float *values, size_t n) {
    char *at = (char *)tensor->data + offset_of(tensor->stride, stream->batch, head, position);
    if (tensor->stride[3] != (ptrdiff_t)type_bytes(tensor->type))
        for (size_t i = 0; i < n; i++)
            store_one(at + (ptrdiff_t)i * tensor->stride[3], tensor->type, values[i]);
    else if (tensor->type == WHET_F32)
        memcpy(at, values, n * sizeof(float));
    else if (tensor->type == WHET_F16)
        stream->kernels->f32_to_f16(values, (uint16_t *)(void *)at, n);
    else
        stream->kernels->f32_to_bf16(values, (uint16_t *)(void *)at, n);
}

void whet_store_output(const key_stream *stream, const query_row *row, const float *values) {
    const whet_attention *a = stream->attention;
    whet_store_row(stream, &a->out, row->head, row->query, values, a->value_dim);
}

#define MASK_PART 256 /* entries of a mask converted at a time */

/* A mask's entries for up to MASK_PART keys from `start` on. */
static const float *load_mask(const key_stream *stream, const query_row *row, size_t start,
                              size_t count, float *buffer) {
    const whet_mask *mask = &stream->attention->mask;
    const char *at = (const char *)mask->data +
                     offset_of(mask->stride, stream->batch, row->head, row->query) +
                     (ptrdiff_t)start * mask->stride[3];
    return load_elements(stream->kernels, at, mask->type, mask->stride[3], count, buffer);
}

void whet_add_mask_row(const key_stream *stream, const query_row *row, size_t start, size_t count,
                       float *logits) {
    for (size_t done = 0; done < count;) {
        float buffer[MASK_PART];
        size_t n = count - done < MASK_PART ? count - done : MASK_PART;
        const float *mask = load_mask(stream, row, start + done, n, buffer);
        stream->kernels->add_mask(mask, n, logits + done);
        done += n;
    }
}

#define TILE_PART 32 /* keys of a tile's mask that are turned at a time */

void whet_add_mask_tile(const key_stream *stream, const query_row *row, size_t rows, size_t start,
                        size_t keys, float *tile) {
    const kernels *k = stream->kernels;
    _Alignas(64) float turned[TILE_PART * LANES_MAX];
    float part[LANES_MAX][TILE_PART];
    const float *of_lane[LANES_MAX];
    for (size_t lane = rows; lane < k->lanes; lane++)
        of_lane[lane] = memset(part[lane], 0, sizeof part[lane]);
    for (size_t done = 0; done < keys;) {
        size_t n = keys - done < TILE_PART ? keys - done : TILE_PART;
        for (size_t lane = 0; lane < rows; lane++)
            of_lane[lane] = load_mask(stream, &row[lane], start + done, n, part[lane]);
        k->panel_gather(of_lane, n, turned);
        k->add_mask(turned, n * k->lanes, tile + done * k->lanes);
        done += n;
    }
}

size_t whet_count_visible(const key_stream *stream, const query_row *row) {
    if (!stream->attention->mask.data)
        return row->high - row->low;
    size_t visible = 0;
    for (size_t start = row->low; start < row->high; start += MASK_PART) {
        float buffer[MASK_PART];
        size_t n = row->high - start < MASK_PART ? row->high - start : MASK_PART;
        visible += stream->kernels->count(load_mask(stream, row, start, n, buffer), n);
    }
    return visible;
}
