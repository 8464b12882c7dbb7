/* Keys and values of a chunk: in place if the kernels can read them there, else converted. */
#include "attention/decode.h"
#include "base/element_types.h"
#include <string.h>

bool whet_decode_reads_directly(const whet_tensor *tensor) {
    const element_type *type = element_type_of(tensor->type);
    /* quantised rows are always contiguous: no element of them has a size or a stride */
    return type->is_decoded && tensor->stride[3] == (ptrdiff_t)type->bytes;
}

/* `count` rows of keys or values from `start` on, of all the task's heads. The stride of an axis
 * with one entry is meaningless and may be any number, and rows that no query sees may be
 * anywhere: neither may be used to prefetch rows ahead. */
kv_rows whet_decode_cache(const decode_work *w, const whet_tensor *tensor, size_t start,
                          size_t count, size_t depth) {
    return (kv_rows){.first = whet_position_at(&w->slice, tensor, start),
                     .type = (int)tensor->type,
                     .stride = count > 1 ? tensor->stride[2] : 0,
                     .head_stride = w->shape.heads_per_task > 1 ? tensor->stride[1] : 0,
                     .heads = w->shape.heads_per_task,
                     .count = count,
                     .depth = depth};
}

/* Converts rows [start, start + count) of a tensor to w->converted; count <= DECODE_CONVERTED. */
void whet_decode_convert(const decode_work *w, const whet_tensor *tensor, size_t start,
                         size_t count, size_t dim) {
    for (size_t j = 0; j < count; j++) {
        float *to = w->converted + j * HEAD_DIM_MAX;
        const float *from = whet_load_position(&w->slice, tensor, start + j, dim, to);
        if (from != to)
            memcpy(to, from, dim * sizeof(float));
    }
}

kv_rows whet_decode_converted(const decode_work *w, size_t count, size_t dim) {
    return (kv_rows){.first = w->converted,
                     .type = WHET_F32,
                     .stride = HEAD_DIM_MAX * sizeof(float),
                     .heads = 1,
                     .count = count,
                     .depth = dim};
}
