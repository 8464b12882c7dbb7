/* Phase 2 of decode: a chunk's weights and what they select of the values. */
#include "attention/decode.h"
#include "attention/invariant.h"
#include <math.h>
#include <string.h>

#define SUM_KEYS 64 /* values added up in f32 before they join the chunk's sum */

#define LIVE_WORDS 64 /* at most, of all heads of a task */

/* Which keys of a chunk have a weight other than zero, from its first visible key on: see kv_rows.
 * No words: not known. */
typedef struct live_keys {
    uint64_t bits[LIVE_WORDS];
    size_t words; /* of each head */
} live_keys;

/* Notes keys [j, end) of a chunk whose weights in row r are not zero. */
static void note_live(const decode_work *w, size_t r, size_t low, size_t j, size_t end,
                      live_keys *live) {
    const float *weights = w->weights + r * w->weights_stride;
    uint64_t *bits = live->bits + r / w->shape.row_count * live->words;
    for (size_t i = j - low; i < end - low; i++)
        bits[i / 64] |= (uint64_t)(weights[i] != 0) << i % 64;
}

/* Coefficients of a map as a chunk's weights, 0 where the row sees nothing. What is not finite
 * among them is noted in the sum, which is nothing else: they are normalised. */
static double copy_coefficients(const decode_work *w, size_t r, size_t low, size_t high,
                                live_keys *live) {
    query_row row = whet_decode_row_at(w, r);
    const float *coefficients = w->logits + r * w->logits_stride;
    float *weights = w->weights + r * w->weights_stride;
    size_t from = row.low > low ? row.low : low, to = row.high < high ? row.high : high;
    bool finite = true;
    memset(weights, 0, (high - low) * sizeof(float));
    for (size_t j = from, end; j < to; j = end) {
        end = decode_part_end(j, to);
        if (!decode_part_is_live(w, r, j))
            continue;
        memcpy(weights + (j - low), coefficients + j, (end - j) * sizeof(float));
        finite = finite && w->shape.kernels->finite(coefficients + j, end - j);
        if (live->words > 0)
            note_live(w, r, low, j, end, live);
    }
    return finite ? 0 : (double)NAN;
}

/* A chunk's weights for one row, and their sums; masked keys get exactly zero. */
static chunk_sums weights_of_row(const decode_work *w, size_t r, size_t low, size_t high,
                                 live_keys *live) {
    const kernels *k = w->shape.kernels;
    const decode_row *state = w->states + r;
    const float *logits = w->logits + r * w->logits_stride + low;
    float *weights = w->weights + r * w->weights_stride;
    row_sums sums = {0, 0, 0};
    if (state->mapped)
        return (chunk_sums){.z = copy_coefficients(w, r, low, high, live)};
    if (w->slice.attention->stats)
        k->sums(logits, high - low, state->max, state->exp2_scale, &sums);
    sums.z = k->exp_store(logits, high - low, state->max, state->exp2_scale, weights);
    return (chunk_sums){.z = sums.z, .s = sums.s};
}

/* The same, the sums stored. A row that is not finite adds no values: its result is NaN anyway,
 * and the other rows' results stay finite. */
static void weigh_row(decode_work *w, size_t r, size_t low, size_t high, live_keys *live) {
    chunk_sums sums = weights_of_row(w, r, low, high, live);
    if (isnan(sums.z)) {
        memset(w->weights + r * w->weights_stride, 0, (high - low) * sizeof(float));
        live->words = 0;
    }
    if (low == 0 && high > 0 && key_at(&w->slice.list, 0) == 0)
        sums.first = (double)w->weights[r * w->weights_stride];
    w->sums[w->chunk * w->row_count + r] = sums;
}

/* Whether a key counts for any row. */
static bool has_weight(const float *weights, size_t stride, size_t row_count) {
    for (size_t r = 0; r < row_count; r++)
        if (weights[r * stride] != 0)
            return true;
    return false;
}

/* Adds value j of a head to the rows of w->partial; where it is not finite, only to rows whose
 * weight is not zero. The weights are those of the chunk's keys from `low` on. */
static void add_value_carefully(decode_work *w, size_t head, size_t low, size_t j) {
    const whet_attention *a = w->slice.attention;
    const kernels *k = w->shape.kernels;
    kv_slice slice = w->slice;
    slice.kv_head += head;
    size_t stride = padded(a->value_dim);
    const float *weights = w->weights + head * w->shape.row_count * w->weights_stride + (j - low);
    if (!has_weight(weights, w->weights_stride, w->shape.row_count))
        return;
    const float *row = whet_load_position(&slice, &a->v, j, a->value_dim, w->converted);
    if (k->finite(row, a->value_dim)) {
        kv_rows value = whet_decode_converted(w, 1, a->value_dim);
        value.first = row;
        k->cache_values(&value, weights, w->weights_stride, w->shape.row_count, w->partial, stride);
        return;
    }
    for (size_t r = 0; r < w->shape.row_count; r++) {
        float weight = weights[r * w->weights_stride];
        for (size_t c = 0; weight > 0 && c < a->value_dim; c++)
            w->partial[r * stride + c] += weight * row[c];
    }
}

/* A head's rows, key by key. */
static void add_values_carefully(decode_work *w, size_t head, size_t low, size_t high) {
    size_t row_count = w->shape.row_count, stride = padded(w->slice.attention->value_dim);
    for (size_t start = low; start < high; start += SUM_KEYS) {
        memset(w->partial, 0, row_count * stride * sizeof(float));
        for (size_t j = start; j < high && j < start + SUM_KEYS; j++)
            add_value_carefully(w, head, low, j);
        for (size_t r = 0; r < row_count; r++)
            w->shape.kernels->add(w->partial + r * stride, stride,
                                  decode_output(w, head * row_count + r, w->chunk));
    }
}

void whet_decode_clear_outputs(decode_work *w, size_t first_row, size_t row_count) {
    for (size_t r = first_row; r < first_row + row_count; r++)
        memset(decode_output(w, r, w->chunk), 0,
               padded(w->slice.attention->value_dim) * sizeof(float));
}

bool whet_decode_outputs_are_finite(const decode_work *w, size_t first_row, size_t row_count) {
    bool finite = true;
    for (size_t r = first_row; finite && r < first_row + row_count; r++)
        finite =
            w->shape.kernels->finite(decode_output(w, r, w->chunk), w->slice.attention->value_dim);
    return finite;
}

/* Coefficients are mostly zeros that are not read. */
static inline __attribute__((always_inline)) void fetch_row(const decode_work *w, size_t r,
                                                            size_t low, size_t high) {
    if (r < w->row_count && !w->states[r].mapped)
        decode_fetch_logits(w, r, low, high);
}

/* Whether all rows have coefficients whose parts of zeros are known. */
static bool knows_live_keys(const decode_work *w) {
    bool all = w->part_live != NULL;
    for (size_t r = 0; all && r < w->row_count; r++)
        all = w->states[r].mapped;
    return all;
}

/* The weights of all rows, and which keys have any. */
static void weigh_rows(decode_work *w, size_t low, size_t high, live_keys *live) {
    size_t words = (high - low + 63) / 64;
    *live = (live_keys){.words = 0};
    if (words * w->shape.heads_per_task <= LIVE_WORDS && knows_live_keys(w))
        live->words = words;
    fetch_row(w, 0, low, high);
    for (size_t r = 0; r < w->row_count; r++) {
        fetch_row(w, r + 1, low, high);
        weigh_row(w, r, low, high, live);
    }
}

/* Adds the values of keys [from, to) of a chunk; `weights` are those of key `from` on, as is what
 * `live` knows, if that is not NULL. */
static void add_rows(const decode_work *w, const float *weights, size_t stride, size_t from,
                     size_t to, const live_keys *live) {
    const whet_attention *a = w->slice.attention;
    while (from < to) {
        kv_rows values = whet_decode_cache(w, &a->v, from, to - from, a->value_dim);
        if (live && live->words > 0 && values.count == to - from) { /* not of a part of them */
            values.live = live->bits;
            values.live_words = live->words;
        }
        live = NULL;
        w->shape.kernels->cache_values(&values, weights, stride, w->shape.row_count,
                                       decode_output(w, 0, w->chunk), padded(a->value_dim));
        from += values.count;
        weights += values.count;
    }
}

/* Adds the values of keys [low, high). */
static void add_values(decode_work *w, size_t low, size_t high, const live_keys *live) {
    if (whet_decode_reads_columns(&w->slice.attention->v))
        whet_decode_add_columns(w, low, low, high);
    else
        add_rows(w, w->weights, w->weights_stride, low, high, live);
}

/* The same without the blocks that all heads of the task leave out. */
static void add_live_values(decode_work *w, size_t low, size_t high) {
    bool columns = whet_decode_reads_columns(&w->slice.attention->v);
    for (size_t from, to = low; whet_decode_next_run(w, high, &from, &to);) {
        whet_decode_clear_left_out(w, from, to);
        if (columns) {
            whet_decode_copy_weights(w, low, from, to);
            whet_decode_add_columns(w, low, from, to);
        } else {
            add_rows(w, w->logits + from, w->logits_stride, from, to, NULL);
        }
    }
}

void whet_decode_value_chunk(decode_work *w) {
    const whet_attention *a = w->slice.attention;
    size_t low, high, row_count = w->shape.row_count;
    live_keys live;
    live.words = 0;
    whet_decode_visible_keys(w, &low, &high);
    if (w->shape.invariant) {
        weigh_rows(w, w->start, w->start + w->shape.chunk_keys, &live);
        whet_invariant_values(w, low, high);
        return;
    }
    if (!(a->skip > 0))
        weigh_rows(w, low, high, &live);
    whet_decode_clear_outputs(w, 0, w->row_count);
    bool direct = whet_decode_reads_directly(&a->v) || whet_decode_reads_columns(&a->v);
    if (direct && a->skip > 0)
        add_live_values(w, low, high);
    else if (direct && low < high)
        add_values(w, low, high, &live);
    for (size_t h = 0; h < w->shape.heads_per_task; h++) {
        if (direct && whet_decode_outputs_are_finite(w, h * row_count, row_count))
            continue;
        whet_decode_clear_outputs(w, h * row_count, row_count);
        if (a->skip > 0) {
            whet_decode_clear_left_out(w, low, high);
            whet_decode_copy_weights(w, low, low, high);
        }
        add_values_carefully(w, h, low, high);
    }
    whet_decode_finish_outputs(w);
}
