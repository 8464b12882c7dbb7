/*
 * Transposed values, of which all positions of an element are contiguous: a column. What a row's
 * weights select of an element is the product of two vectors, weights and column, and so the kernel
 * for keys does the work, with columns as its keys and weights as its queries. A column is read in
 * pieces, whose sums join the output.
 *
 * Columns are far apart, often by a power of two, and then compete for the same cache sets: only
 * the next column is fetched ahead, and heads are read one after the other.
 */
#include "attention/decode.h"
#include "base/element_types.h"
#include <string.h>

#define LANE_KEYS 16    /* keys of a piece for each lane: so few are summed in f32 */
#define COLUMNS_AHEAD 1 /* fetched by each cursor of the kernel */
#define ZERO_KEYS 64    /* keys without any weight that are passed over */

bool whet_decode_reads_columns(const whet_tensor *tensor) {
    const element_type *type = element_type_of(tensor->type);
    return type->is_decoded && !elements_are_blocks(type) && whet_is_transposed(tensor);
}

/* Keys [from, to) of one head; `weights` are those of its rows from key `from` on. */
static void add_piece(decode_work *w, const kv_slice *slice, const float *weights, size_t from,
                      size_t to, size_t head) {
    const whet_attention *a = slice->attention;
    size_t row_count = w->shape.row_count, stride = padded(a->value_dim);
    kv_rows columns = {.first = whet_position_at(slice, &a->v, from),
                       .type = (int)a->v.type,
                       .stride = a->value_dim > 1 ? a->v.stride[3] : 0,
                       .heads = 1,
                       .count = a->value_dim,
                       .depth = to - from,
                       .ahead = COLUMNS_AHEAD};
    w->shape.kernels->cache_scores(&columns, weights, row_count, w->weights_stride, w->partial,
                                   stride);
    for (size_t r = 0; r < row_count; r++)
        w->shape.kernels->add(w->partial + r * stride, a->value_dim,
                              decode_output(w, head * row_count + r, w->chunk));
}

/* Whether no row of a head has a weight among n keys. */
static bool are_zero(const decode_work *w, const float *weights, size_t n) {
    for (size_t r = 0; r < w->shape.row_count; r++)
        for (size_t j = 0; j < n; j++)
            if (weights[r * w->weights_stride + j] != 0)
                return false;
    return true;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* One head's keys without those that no row has a weight for. */
static void add_head(decode_work *w, size_t low, size_t from, size_t to, size_t head) {
    kv_slice slice = w->slice;
    const float *weights = w->weights + head * w->shape.row_count * w->weights_stride;
    size_t piece = LANE_KEYS * w->shape.kernels->lanes, start = from;
    slice.kv_head += head;
    for (size_t j = from, n; j < to; j += n) {
        n = smaller(to - j, ZERO_KEYS);
        bool zero = are_zero(w, weights + (j - low), n);
        if ((zero || j - start == piece) && start < j)
            add_piece(w, &slice, weights + (start - low), start, j, head);
        if (zero || j - start == piece)
            start = zero ? j + n : j;
    }
    if (start < to)
        add_piece(w, &slice, weights + (start - low), start, to, head);
}

void whet_decode_add_columns(decode_work *w, size_t low, size_t from, size_t to) {
    /* the kernel reads whole vectors of weights */
    for (size_t r = 0; r < w->row_count; r++)
        memset(w->weights + r * w->weights_stride + (to - low), 0, ROW_PAD * sizeof(float));
    for (size_t h = 0; h < w->shape.heads_per_task; h++)
        for (size_t start = from, n; start < to; start += n) {
            n = whet_contiguous_keys(&w->slice.list, start, to);
            add_head(w, low, start, start + n, h);
        }
}
