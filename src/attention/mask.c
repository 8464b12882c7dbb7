/* Additive masks: see mask.h. */
#include "attention/mask.h"
#include "base/element_types.h"
#include <string.h>

#define MASK_PART 256 /* entries of a mask converted at a time */

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

void whet_add_mask_row(const kv_slice *slice, const query_row *row, size_t start, size_t count,
                       float *logits) {
    for (size_t done = 0; done < count;) {
        float buffer[MASK_PART];
        size_t n = count - done < MASK_PART ? count - done : MASK_PART;
        const float *mask = load_mask(slice, row, start + done, n, buffer);
        slice->kernels->add_mask(mask, n, logits + done);
        done += n;
    }
}

#define TILE_PART 32 /* keys of a tile's mask that are transposed at a time */

void whet_add_mask_tile(const kv_slice *slice, const query_row *row, size_t rows, size_t start,
                        size_t keys, float *tile) {
    const kernels *k = slice->kernels;
    _Alignas(64) float transposed[TILE_PART * LANES_MAX];
    float part[LANES_MAX][TILE_PART];
    const float *of_lane[LANES_MAX];
    for (size_t lane = rows; lane < k->lanes; lane++)
        of_lane[lane] = memset(part[lane], 0, sizeof part[lane]);
    for (size_t done = 0; done < keys;) {
        size_t n = keys - done < TILE_PART ? keys - done : TILE_PART;
        for (size_t lane = 0; lane < rows; lane++)
            of_lane[lane] = load_mask(slice, &row[lane], start + done, n, part[lane]);
        k->panel_gather(of_lane, n, transposed);
        k->add_mask(transposed, n * k->lanes, tile + done * k->lanes);
        done += n;
    }
}

size_t whet_count_visible(const kv_slice *slice, const query_row *row) {
    if (!slice->attention->mask.data)
        return row->high - row->low;
    size_t visible = 0;
    for (size_t start = row->low; start < row->high; start += MASK_PART) {
        float buffer[MASK_PART];
        size_t n = row->high - start < MASK_PART ? row->high - start : MASK_PART;
        visible += slice->kernels->count(load_mask(slice, row, start, n, buffer), n);
    }
    return visible;
}
