/* Layouts and logits of blocks of keys for panels of query rows: see tiles.h. */
#include "attention/tiles.h"
#include "attention/mask.h"
#include "base/element_types.h"
#include <math.h>
#include <string.h>

void whet_pack_lane(const float *row, size_t n, size_t lanes, size_t lane, float *result) {
    for (size_t i = 0; i < n; i++)
        result[i * lanes + lane] = row[i];
}

/* row - common, in buffer. */
static const float *subtract(const float *row, const float *common, size_t dim, float *buffer) {
    for (size_t i = 0; i < dim; i++)
        buffer[i] = row[i] - common[i];
    return buffer;
}

void whet_pack_interleaved(const kv_slice *slice, const whet_tensor *tensor, size_t dim,
                           size_t start, size_t count, const float *common, float *buffer,
                           float *result) {
    size_t interleave = slice->kernels->strip;
    for (size_t j = 0; j < count; j += interleave) {
        const float *rows[STRIP_MAX];
        for (size_t i = 0; i < interleave; i++) {
            /* a block is padded with its last key; those results are not used */
            size_t key = j + i < count ? start + j + i : start + count - 1;
            float *own = buffer + i * HEAD_DIM_MAX;
            rows[i] = whet_load_position(slice, tensor, key, dim, own);
            if (common)
                rows[i] = subtract(rows[i], common, dim, own);
        }
        slice->kernels->interleave(rows, dim, result + j * dim);
    }
}

/* `count` keys' elements of one column, from place `start` on, which are contiguous or collected in
 * the buffer. */
static const float *load_column(const kv_slice *slice, const whet_tensor *tensor, size_t column,
                                size_t start, size_t count, float *buffer) {
    const element_type *type = element_type_of(tensor->type);
    for (size_t j = 0, n; j < count; j += n) {
        n = whet_contiguous_keys(&slice->list, start + j, start + count);
        const char *at = whet_position_at(slice, tensor, start + j);
        const float *part =
            load_elements(slice->kernels, type, at + (ptrdiff_t)column * tensor->stride[3],
                          tensor->stride[2], n, buffer + j);
        if (n == count)
            return part;
        if (part != buffer + j)
            memcpy(buffer + j, part, n * sizeof(float));
    }
    return buffer;
}

/* The same of transposed values, column by column. False: one is not finite. */
static bool pack_transposed(const kv_slice *slice, const whet_tensor *tensor, size_t dim,
                            size_t start, size_t count, float *result) {
    const kernels *k = slice->kernels;
    float converted[STRIP_MAX][BLOCK];
    for (size_t c = 0; c < dim; c += k->strip, result += BLOCK * k->strip) {
        const float *columns[STRIP_MAX];
        for (size_t i = 0; i < k->strip; i++) {
            columns[i] = converted[i];
            if (c + i >= dim) {
                memset(converted[i], 0, count * sizeof(float));
                continue;
            }
            columns[i] = load_column(slice, tensor, c + i, start, count, converted[i]);
            if (!k->finite(columns[i], count))
                return false;
        }
        k->interleave(columns, count, result);
    }
    return true;
}

size_t whet_pack_columns(const kv_slice *slice, const whet_tensor *tensor, size_t dim, size_t start,
                         size_t count, float *buffer, float *result, size_t *nonfinite) {
    size_t interleave = slice->kernels->strip, columns = round_up(dim, interleave),
           nonfinite_count = 0;
    if (whet_is_transposed(tensor) && pack_transposed(slice, tensor, dim, start, count, result))
        return 0;
    for (size_t j = 0; j < count; j++) {
        float padded[HEAD_DIM_MAX + STRIP_MAX];
        const float *row = whet_load_position(slice, tensor, start + j, dim, buffer);
        bool finite = slice->kernels->finite(row, dim);
        if (!finite)
            nonfinite[nonfinite_count++] = j;
        if (!finite || columns != dim) {
            memset(padded, 0, columns * sizeof(float));
            if (finite)
                memcpy(padded, row, dim * sizeof(float));
            row = padded;
        }
        slice->kernels->scatter(row, columns / interleave, result + j * interleave,
                                BLOCK * interleave);
    }
    return nonfinite_count;
}

/* Masks what rows do not see; idle lanes see nothing. */
static void mask_tile(const kernels *k, const query_row *row, size_t row_count, size_t start,
                      size_t keys, float *tile) {
    float low[LANES_MAX], high[LANES_MAX];
    bool cut = false;
    for (size_t lane = 0; lane < k->lanes; lane++) {
        size_t lo = lane < row_count ? row[lane].low : 0,
               hi = lane < row_count ? row[lane].high : 0;
        lo = lo > start ? lo - start : 0;
        hi = hi > start ? hi - start : 0;
        if (hi > keys)
            hi = keys;
        if (lo > keys)
            lo = keys;
        cut = cut || lo > 0 || hi < keys;
        low[lane] = (float)lo;
        high[lane] = (float)hi;
    }
    if (cut)
        k->panel_limit(tile, keys, low, high);
}

void whet_tile_positions(const query_row *row, size_t row_count, size_t lanes, size_t start,
                         float *position) {
    for (size_t lane = 0; lane < lanes; lane++)
        position[lane] = lane < row_count ? (float)(row[lane].position - (int64_t)start) : 0;
}

static void add_alibi(const kv_slice *slice, const query_row *row, size_t row_count, size_t start,
                      size_t keys, float *tile) {
    float slope[LANES_MAX], position[LANES_MAX];
    size_t lanes = slice->kernels->lanes;
    for (size_t lane = 0; lane < lanes; lane++)
        slope[lane] = lane < row_count ? slice->attention->alibi_slopes[row[lane].head] : 0;
    whet_tile_positions(row, row_count, lanes, start, position);
    slice->kernels->panel_alibi(tile, keys, slope, position);
}

/* Bytes of a contiguous row of keys or values; 0 for others, which are not fetched. */
static size_t bytes_to_fetch(const whet_attention *a, const whet_tensor *tensor) {
    const element_type *type = element_type_of(tensor->type);
    if (tensor->stride[3] != (ptrdiff_t)type->bytes)
        return 0;
    return element_row_bytes(type, tensor == &a->k ? a->head_dim : a->value_dim);
}

rows_ahead whet_rows_ahead(const kv_slice *slice, const whet_tensor *first,
                           const whet_tensor *second, size_t start, size_t end, size_t tiles) {
    rows_ahead ahead = {slice, {first, second}, {0, 0}, start, end, 0};
    size_t times = BLOCK / slice->kernels->strip * tiles;
    for (int i = 0; i < 2; i++)
        ahead.bytes[i] = ahead.tensor[i] ? bytes_to_fetch(slice->attention, ahead.tensor[i]) : 0;
    ahead.at_once = start < end ? (end - start + times - 1) / times : 0;
    return ahead;
}

static inline __attribute__((always_inline)) void fetch_row(const char *row, size_t bytes) {
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(row + at, 0, 2);
}

void whet_fetch_rows(rows_ahead *ahead) {
    for (size_t n = 0; n < ahead->at_once && ahead->next < ahead->end; n++, ahead->next++)
        for (int i = 0; i < 2; i++)
            if (ahead->bytes[i])
                fetch_row(whet_position_at(ahead->slice, ahead->tensor[i], ahead->next),
                          ahead->bytes[i]);
}

void whet_tile_logits(const kv_slice *slice, const query_row *row, size_t row_count,
                      const float *keys_packed, const float *queries, size_t start, size_t keys,
                      float *tile, float *softcap_grads, rows_ahead *ahead) {
    const whet_attention *a = slice->attention;
    const kernels *k = slice->kernels;
    for (size_t j = 0; j < keys; j += k->strip) {
        k->scores(keys_packed + j * a->head_dim, 1, queries, a->head_dim, tile + j * k->lanes);
        whet_fetch_rows(ahead);
    }
    if (a->softcap > 0 && softcap_grads)
        k->softcap_derivative(tile, keys * k->lanes, a->softcap, softcap_grads);
    if (a->softcap > 0)
        k->softcap(tile, keys * k->lanes, a->softcap);
    if (a->alibi_slopes)
        add_alibi(slice, row, row_count, start, keys, tile);
    if (whet_is_masked(a))
        whet_add_mask_tile(slice, row, row_count, start, keys, tile);
    mask_tile(k, row, row_count, start, keys, tile);
}
