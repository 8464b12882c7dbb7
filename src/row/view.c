/* Views of rows: see view.h. */
#include "row/view.h"
#include <string.h>

static void load_as_f32(const kernels *k, const void *base, whet_type type, size_t start,
                        size_t count, float *result) {
    if (type == WHET_F32)
        memcpy(result, (const float *)base + start, count * sizeof(float));
    else if (type == WHET_F16)
        k->f16_to_f32((const uint16_t *)base + start, result, count);
    else
        k->bf16_to_f32((const uint16_t *)base + start, result, count);
}

static void add_mask(const row_view *row, size_t start, size_t count, float *logits) {
    float values[256];
    if (row->mask_type == WHET_F32) {
        row->kernels->add_mask((const float *)row->mask + start, count, logits);
        return;
    }
    for (size_t done = 0; done < count; done += 256) {
        size_t n = count - done < 256 ? count - done : 256;
        load_as_f32(row->kernels, row->mask, row->mask_type, start + done, n, values);
        row->kernels->add_mask(values, n, logits + done);
    }
}

const float *whet_row_load(const row_view *row, size_t start, size_t count, float *buffer) {
    if (row->in_type == WHET_F32 && !row->mask)
        return (const float *)row->in + start;
    load_as_f32(row->kernels, row->in, row->in_type, start, count, buffer);
    if (row->mask)
        add_mask(row, start, count, buffer);
    return buffer;
}

void whet_row_store(const row_view *row, size_t start, size_t count, const float *values) {
    if (row->out_type == WHET_F32) {
        float *out = (float *)row->out + start;
        if (out != values)
            memcpy(out, values, count * sizeof(float));
    } else if (row->out_type == WHET_F16) {
        row->kernels->f32_to_f16(values, (uint16_t *)row->out + start, count);
    } else {
        row->kernels->f32_to_bf16(values, (uint16_t *)row->out + start, count);
    }
}

void whet_row_store_scaled(const row_view *row, size_t start, size_t count, const float *values,
                           float factor) {
    if (row->out_type == WHET_F32)
        row->kernels->scale(values, count, factor, (float *)row->out + start);
    else if (row->out_type == WHET_F16)
        row->kernels->scale_to_f16(values, count, factor, (uint16_t *)row->out + start);
    else
        row->kernels->scale_to_bf16(values, count, factor, (uint16_t *)row->out + start);
}

size_t whet_row_block(const row_view *row, size_t start) {
    return row->n - start < ROW_BLOCK ? row->n - start : ROW_BLOCK;
}

void whet_row_fill(const row_view *row, float value) {
    float values[64];
    for (size_t i = 0; i < 64; i++)
        values[i] = value;
    for (size_t start = 0; start < row->n; start += 64)
        whet_row_store(row, start, row->n - start < 64 ? row->n - start : 64, values);
}

row_view whet_row_hold(const row_view *row, float *buffer) {
    row_view held = *row;
    if (row->n <= ROW_BLOCK && (row->in_type != WHET_F32 || row->mask)) {
        whet_row_load(row, 0, row->n, buffer);
        held.in = buffer;
        held.in_type = WHET_F32;
        held.mask = NULL;
    }
    return held;
}
