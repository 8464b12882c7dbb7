/* Additive masks and biases: see mask.h. */
#include "attention/mask.h"
#include "base/element_types.h"
#include <math.h>
#include <string.h>

#define MASK_PART 256 /* entries of a mask converted at a time */

bool whet_is_masked(const whet_attention *a) { return a->mask.data || a->bias.data; }

/* The elements at `count` places from `start` on of an array with one for each key. */
static const float *load_places(const kv_slice *slice, const char *array, ptrdiff_t stride,
                                whet_type type, size_t start, size_t count, float *buffer) {
    const element_type *element = element_type_of(type);
    const key_list *list = &slice->list;
    char part[MASK_PART * sizeof(float)];
    if (!list->keys)
        return load_elements(slice->kernels, element,
                             array + (ptrdiff_t)key_at(list, start) * stride,
                             (ptrdiff_t)list->step * stride, count, buffer);
    const uint32_t *keys = list->keys + start;
    for (size_t j = 0; type == WHET_F16 && j < count; j++)
        memcpy(part + j * 2, array + (ptrdiff_t)keys[j] * stride, 2);
    for (size_t j = 0; type == WHET_F32 && j < count; j++)
        memcpy(part + j * 4, array + (ptrdiff_t)keys[j] * stride, 4);
    const float *loaded =
        load_elements(slice->kernels, element, part, (ptrdiff_t)element->bytes, count, buffer);
    return loaded == buffer ? buffer : memcpy(buffer, loaded, count * sizeof(float));
}

/* A mask's entries for up to MASK_PART keys from `start` on. */
static const float *load_mask(const kv_slice *slice, const query_row *row, size_t start,
                              size_t count, float *buffer) {
    const whet_mask *mask = &slice->attention->mask;
    const char *of_row =
        (const char *)mask->data + tensor_offset(mask->stride, slice->batch, row->head, row->query);
    return load_places(slice, of_row, mask->stride[3], mask->type, start, count, buffer);
}

static const float *load_bias(const kv_slice *slice, const query_row *row, size_t start,
                              size_t count, float *buffer) {
    const whet_key_bias *bias = &slice->attention->bias;
    const char *of_head = (const char *)bias->data + (ptrdiff_t)slice->batch * bias->stride[0] +
                          (ptrdiff_t)row->head * bias->stride[1];
    return load_places(slice, of_head, bias->stride[2], WHET_F32, start, count, buffer);
}

/* What is added to the logits of up to MASK_PART keys from `start` on: -inf where the mask or the
 * bias is, whatever the other one is there. */
static const float *load_additions(const kv_slice *slice, const query_row *row, size_t start,
                                   size_t count, float *buffer) {
    float own[MASK_PART];
    if (!slice->attention->bias.data)
        return load_mask(slice, row, start, count, buffer);
    if (!slice->attention->mask.data)
        return load_bias(slice, row, start, count, buffer);
    const float *bias = load_bias(slice, row, start, count, own);
    const float *mask = load_mask(slice, row, start, count, buffer);
    for (size_t j = 0; j < count; j++) {
        float sum = mask[j] + bias[j];
        buffer[j] = mask[j] == -INFINITY || bias[j] == -INFINITY ? -INFINITY : sum;
    }
    return buffer;
}

void whet_add_mask_row(const kv_slice *slice, const query_row *row, size_t start, size_t count,
                       float *logits) {
    for (size_t done = 0; done < count;) {
        float buffer[MASK_PART];
        size_t n = count - done < MASK_PART ? count - done : MASK_PART;
        const float *more = load_additions(slice, row, start + done, n, buffer);
        slice->kernels->add_mask(more, n, logits + done);
        done += n;
    }
}

#define TILE_PART 32 /* keys of a tile's mask and bias that are transposed at a time */

void whet_add_mask_tile(const kv_slice *slice, const query_row *row, size_t row_count, size_t start,
                        size_t keys, float *tile) {
    const kernels *k = slice->kernels;
    _Alignas(64) float transposed[TILE_PART * LANES_MAX];
    float part[LANES_MAX][TILE_PART];
    const float *of_lane[LANES_MAX];
    for (size_t lane = row_count; lane < k->lanes; lane++)
        of_lane[lane] = memset(part[lane], 0, sizeof part[lane]);
    for (size_t done = 0; done < keys;) {
        size_t n = keys - done < TILE_PART ? keys - done : TILE_PART;
        for (size_t lane = 0; lane < row_count; lane++) {
            bool is_repeated = lane > 0 && !slice->attention->bias.data &&
                               whet_is_same_mask(slice, &row[lane - 1], &row[lane]);
            of_lane[lane] = is_repeated
                                ? of_lane[lane - 1]
                                : load_additions(slice, &row[lane], start + done, n, part[lane]);
        }
        k->panel_transpose(of_lane, n, transposed);
        k->add_mask(transposed, n * k->lanes, tile + done * k->lanes);
        done += n;
    }
}

size_t whet_count_visible(const kv_slice *slice, const query_row *row) {
    if (!whet_is_masked(slice->attention))
        return row->high - row->low;
    size_t visible = 0;
    for (size_t start = row->low; start < row->high; start += MASK_PART) {
        float buffer[MASK_PART];
        size_t n = row->high - start < MASK_PART ? row->high - start : MASK_PART;
        visible += slice->kernels->count(load_additions(slice, row, start, n, buffer), n);
    }
    return visible;
}

/* The same as the kernel, for entries of any type: *is_plain becomes false if one is neither 0 nor
 * -inf. */
static uint64_t visible_bits(const float *mask, size_t count, bool *is_plain) {
    uint64_t bits = 0;
    for (size_t j = 0; j < count; j++) {
        bits |= (uint64_t)(mask[j] != -INFINITY) << j;
        *is_plain = *is_plain && (mask[j] == 0 || mask[j] == -INFINITY);
    }
    return bits;
}

/* Marks keys [start, start + count) of a row, `start` a multiple of 64; false if the mask adds
 * something to any of them. */
static bool mark_keys(const kv_slice *slice, const query_row *row, size_t start, size_t count,
                      uint64_t *marks) {
    const whet_mask *mask = &slice->attention->mask;
    bool is_plain = true;
    if (mask->type == WHET_F16 && mask->stride[3] == sizeof(uint16_t)) {
        const char *at = (const char *)mask->data +
                         tensor_offset(mask->stride, slice->batch, row->head, row->query);
        return slice->kernels->mark_f16((const uint16_t *)(const void *)at + start, count, marks);
    }
    for (size_t done = 0; done < count; done += 64, marks++) {
        float buffer[64];
        size_t n = count - done < 64 ? count - done : 64;
        *marks = visible_bits(load_mask(slice, row, start + done, n, buffer), n, &is_plain);
    }
    return is_plain;
}

bool whet_mark_visible(const kv_slice *slice, const query_row *row, uint64_t *marks) {
    size_t words = mark_words(slice->attention->keys), first = row->low / 64;
    memset(marks, 0, words * sizeof *marks);
    if (row->low >= row->high)
        return true;
    bool is_plain = mark_keys(slice, row, first * 64, row->high - first * 64, marks + first);
    marks[first] &= UINT64_MAX << row->low % 64;
    return is_plain;
}

bool whet_is_same_mask(const kv_slice *slice, const query_row *a, const query_row *b) {
    return a->query == b->query && (a->head == b->head || slice->attention->mask.stride[1] == 0);
}

mark_range whet_range_of_marks(const uint64_t *marks, size_t words) {
    mark_range range = {0, 0, 0};
    for (size_t i = 0; i < words; i++) {
        if (!marks[i])
            continue;
        if (range.count == 0)
            range.low = i * 64 + (size_t)__builtin_ctzll(marks[i]);
        range.high = i * 64 + 64 - (size_t)__builtin_clzll(marks[i]);
        range.count += (size_t)__builtin_popcountll(marks[i]);
    }
    return range;
}

void whet_list_marks(const uint64_t *marks, size_t words, uint32_t *keys) {
    for (size_t i = 0; i < words; i++)
        for (uint64_t left = marks[i]; left; left &= left - 1)
            *keys++ = (uint32_t)(i * 64 + (size_t)__builtin_ctzll(left));
}

size_t whet_place_of(const uint32_t *keys, size_t count, size_t key) {
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}
