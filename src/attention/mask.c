/* Additive masks and biases: see mask.h. */
#include "attention/mask.h"
#include "base/element_types.h"
#include <math.h>
#include <string.h>

#define MASK_PART 256 /* entries of a mask converted at a time */

bool whet_is_masked(const whet_attention *a) { return a->mask.data || a->bias.data; }

/* A mask's entries for up to MASK_PART keys from `start` on. */
static const float *load_mask(const kv_slice *slice, const query_row *row, size_t start,
                              size_t count, float *buffer) {
    const whet_mask *mask = &slice->attention->mask;
    const char *at = (const char *)mask->data +
                     tensor_offset(mask->stride, slice->batch, row->head, row->query) +
                     (ptrdiff_t)start * mask->stride[3];
    return load_elements(slice->kernels, element_type_of(mask->type), at, mask->stride[3], count,
                         buffer);
}

static const float *load_bias(const kv_slice *slice, const query_row *row, size_t start,
                              size_t count, float *buffer) {
    const whet_key_bias *bias = &slice->attention->bias;
    const char *at = (const char *)bias->data + (ptrdiff_t)slice->batch * bias->stride[0] +
                     (ptrdiff_t)row->head * bias->stride[1] + (ptrdiff_t)start * bias->stride[2];
    return load_elements(slice->kernels, element_type_of(WHET_F32), at, bias->stride[2], count,
                         buffer);
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
        for (size_t lane = 0; lane < row_count; lane++)
            of_lane[lane] = load_additions(slice, &row[lane], start + done, n, part[lane]);
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
