/* Keys and values of a chunk: in place if the kernels can read them there, else converted. */
#include "attention/decode.h"
#include "base/element_types.h"
#include <string.h>

bool whet_decode_reads_directly(const whet_tensor *tensor) {
    const element_type *type = element_type_of(tensor->type);
    /* quantised rows are always contiguous: no element of them has a size or a stride */
    return type->is_decoded && tensor->stride[3] == (ptrdiff_t)type->bytes;
}

#define RUN_LEAST 32     /* contiguous rows that are read in place rather than gathered */
#define GATHERED_AHEAD 8 /* listed rows that are fetched ahead */

/* `count` rows of keys or values from `start` on, of all the task's heads. The stride of an axis
 * with one entry is meaningless and may be any number, and rows that no query sees may be
 * anywhere: neither may be used to prefetch rows ahead. */
static kv_rows rows_in_place(const decode_work *w, const whet_tensor *tensor, size_t start,
                             size_t count, ptrdiff_t step, size_t depth) {
    return (kv_rows){.first = whet_position_at(&w->slice, tensor, start),
                     .type = (int)tensor->type,
                     .stride = count > 1 ? step * tensor->stride[2] : 0,
                     .head_stride = w->shape.heads_per_task > 1 ? tensor->stride[1] : 0,
                     .heads = w->shape.heads_per_task,
                     .count = count,
                     .depth = depth};
}

/* How many listed keys from the first on are contiguous. */
static size_t run_length(const uint32_t *keys, size_t count) {
    size_t n = 1;
    while (n < count && keys[n] == keys[0] + n)
        n++;
    return n;
}

static inline __attribute__((always_inline)) void fetch_bytes(const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(from + at, 0, 3);
}

/* Copies listed rows, up to those that can be read in place. */
static kv_rows gather_rows(const decode_work *w, const whet_tensor *tensor, size_t start,
                           size_t count, size_t depth) {
    const size_t heads = w->shape.heads_per_task;
    const uint32_t *keys = w->slice.list.keys + start;
    const size_t own = element_row_bytes(element_type_of(tensor->type), depth),
                 bytes = (heads > 1 ? (heads - 1) * (size_t)tensor->stride[1] : 0) + own,
                 stride = round_up(bytes, LINE_BYTES), most = DECODE_GATHERED / stride;
    kv_rows rows = rows_in_place(w, tensor, start, count, 1, depth);
    size_t n = 0;
    for (; n < count && n < most; n++) {
        bool begins_run = n + RUN_LEAST <= count && keys[n + RUN_LEAST - 1] - keys[n] < RUN_LEAST;
        if (n > 0 && begins_run)
            break;
        if (n + GATHERED_AHEAD < count)
            fetch_bytes(whet_position_at(&w->slice, tensor, start + n + GATHERED_AHEAD), bytes);
        memcpy(w->gathered + n * stride, whet_position_at(&w->slice, tensor, start + n), bytes);
    }
    rows.first = w->gathered;
    rows.stride = (ptrdiff_t)stride;
    rows.count = n;
    return rows;
}

kv_rows whet_decode_cache(const decode_work *w, const whet_tensor *tensor, size_t start,
                          size_t count, size_t depth) {
    const key_list *list = &w->slice.list;
    if (!list->keys)
        return rows_in_place(w, tensor, start, count, (ptrdiff_t)list->step, depth);
    size_t run = run_length(list->keys + start, count);
    if (run >= RUN_LEAST)
        return rows_in_place(w, tensor, start, run, 1, depth);
    return gather_rows(w, tensor, start, count, depth);
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
