/* Phase 0 of decode: a chunk's logits, kept in the workspace, and its statistics. */
#include "attention/decode.h"
#include "attention/mask.h"
#include "base/element_types.h"
#include <math.h>
#include <string.h>

static void load_queries(decode_work *w) {
    size_t stride = padded(w->slice.attention->head_dim);
    memset(w->queries, 0, w->row_count * stride * sizeof(float));
    for (size_t r = 0; r < w->row_count; r++) {
        query_row row = whet_decode_row_at(w, r);
        whet_load_query(&w->slice, &row, w->queries + r * stride);
    }
}

static void score_keys(decode_work *w, size_t start, size_t count) {
    const whet_attention *a = w->slice.attention;
    const kernels *k = w->shape.kernels;
    size_t stride = padded(a->head_dim);
    if (whet_decode_reads_directly(&a->k)) {
        for (size_t done = 0; done < count;) {
            kv_rows keys = whet_decode_cache(w, &a->k, start + done, count - done, a->head_dim);
            keys.scales_vectors = w->shape.invariant;
            k->cache_scores(&keys, w->queries, w->shape.row_count, stride, w->logits + start + done,
                            w->logits_stride);
            done += keys.count;
        }
        return;
    }
    for (size_t done = 0; done < count; done += DECODE_CONVERTED) {
        size_t n = count - done < DECODE_CONVERTED ? count - done : DECODE_CONVERTED;
        kv_rows keys = whet_decode_converted(w, n, a->head_dim);
        whet_decode_convert(w, &a->k, start + done, n, a->head_dim);
        k->cache_scores(&keys, w->queries, w->shape.row_count, stride, w->logits + start + done,
                        w->logits_stride);
    }
}

/* Soft cap, ALiBi, mask, bias and limits on one row's logits of a chunk. */
static void adjust_row(decode_work *w, const query_row *row, size_t start, size_t count,
                       float *logits) {
    const whet_attention *a = w->slice.attention;
    if (a->softcap > 0)
        w->shape.kernels->softcap(logits, count, a->softcap);
    if (a->alibi_slopes) {
        float slope = a->alibi_slopes[row->head];
        for (size_t j = 0; j < count; j++)
            logits[j] -=
                slope * fabsf((float)(row->position - (int64_t)key_at(&w->slice.list, start + j)));
    }
    if (a->bias.data || (a->mask.data && !(w->set && w->set->is_plain)))
        whet_add_mask_row(&w->slice, row, start, count, logits);
    for (size_t j = start; j < start + count && j < row->low; j++)
        logits[j - start] = -INFINITY;
    for (size_t j = row->high > start ? row->high : start; j < start + count; j++)
        logits[j - start] = -INFINITY;
}

/* A chunk's largest logit, NaN if there is one. */
static float max_or_nan(const decode_work *w, const float *logits, size_t count) {
    size_t nans = 0;
    for (size_t j = 0; j < count; j++)
        nans += logits[j] != logits[j];
    return nans ? NAN : w->shape.kernels->max(logits, count);
}

/* Sets min and argmax of a chunk whose logits start at key `low`. */
static void find_extremes(const decode_work *w, const float *logits, size_t low, size_t count,
                          whet_stats *piece) {
    row_view view = {.kernels = w->shape.kernels, .n = count, .in = logits, .in_type = WHET_F32};
    whet_row_extremes(&view, (float)piece->max, piece, NULL);
    piece->argmax += low;
}

/* Whether a row needs z and s, or more of its statistics, before its coefficients are known. */
static bool needs_sums(const decode_work *w, const query_row *row) {
    return w->shape.summed || w->shape.extremes || (row->temperature->needs & NEEDS_SEARCH) ||
           whet_decode_has_exponentials(row->map);
}

/* A chunk's share of a row's statistics, z and s only if they will be needed; `max` is the largest
 * logit. */
static whet_stats piece_of(const decode_work *w, const query_row *row, const float *logits,
                           size_t low, size_t count, float max) {
    const kernels *k = w->shape.kernels;
    whet_stats piece = whet_stats_empty();
    if (max == -INFINITY) {
        piece.n = k->count(logits, count);
        if (piece.n)
            piece = whet_stats_not_finite(piece.n);
        return piece;
    }
    piece.max = (double)max;
    piece.flags = 0;
    if (max == INFINITY)
        return whet_stats_not_finite(k->count(logits, count));
    if (w->shape.fused) {
        piece.n = count;
        return piece;
    }
    if (!needs_sums(w, row)) {
        piece.n = k->count(logits, count);
        return k->has_nan(logits, count) ? whet_stats_not_finite(piece.n) : piece;
    }
    row_sums sums = {0, 0, 0};
    k->sums(logits, count, max, whet_exp2_scale(1.0), &sums);
    piece.n = k->count(logits, count);
    piece.z = sums.z;
    piece.s = sums.s;
    if (isnan(sums.z))
        piece = whet_stats_not_finite(piece.n);
    else if (w->shape.extremes)
        find_extremes(w, logits, low, count, &piece);
    return piece;
}

/* Hides what the chunk has besides keys [low, high), which makes it the same whatever is seen of it
 * and wherever keys end. */
static void complete_chunk(const decode_work *w, float *logits, size_t low, size_t high) {
    for (size_t j = w->start; j < low; j++)
        logits[j] = -INFINITY;
    for (size_t j = high; j < w->start + w->shape.chunk_keys; j++)
        logits[j] = -INFINITY;
}

/* The largest logits of a row's parts, all of whose coefficients are stored until they are known;
 * returns that of all of them. */
static float note_parts(decode_work *w, size_t r, size_t low, size_t high) {
    const kernels *k = w->shape.kernels;
    const float *logits = w->logits + r * w->logits_stride;
    size_t first = r * w->parts + low / ROW_PART;
    size_t parts = low < high ? (high - 1) / ROW_PART - low / ROW_PART + 1 : 0;
    size_t begun = low % ROW_PART && parts > 0 ? 1 : 0; /* a part that begins before `low` */
    size_t from = begun ? decode_part_end(low, high) : low;
    if (begun)
        w->part_max[first] = k->max(logits + low, from - low);
    k->max_parts(logits + from, high - from, w->part_max + first + begun);
    memset(w->part_live + first, true, parts);
    return k->max(w->part_max + first, parts);
}

void whet_decode_score_chunk(decode_work *w) {
    size_t low, high;
    whet_decode_visible_keys(w, &low, &high);
    load_queries(w);
    if (low < high)
        score_keys(w, low, high - low);
    for (size_t r = 0; r < w->row_count; r++) {
        query_row row = whet_decode_row_at(w, r);
        float *logits = w->logits + r * w->logits_stride;
        size_t from = low, to = high;
        adjust_row(w, &row, low, high - low, logits + low);
        if (w->shape.invariant) {
            complete_chunk(w, logits, low, high);
            from = w->start;
            to = w->start + w->shape.chunk_keys;
        }
        bool in_parts = w->part_max && !whet_decode_has_exponentials(row.map);
        float max = in_parts ? note_parts(w, r, low, high)
                             : w->shape.kernels->max(logits + from, to - from);
        w->pieces[w->chunk * w->row_count + r] =
            piece_of(w, &row, logits + from, from, to - from, max);
        if (w->maxima)
            w->maxima[w->chunk * w->row_count + r] = max_or_nan(w, logits + from, to - from);
        if (decode_weighs_early(w) && whet_decode_has_exponentials(row.map))
            whet_decode_weigh_early(w, r, low, high);
    }
}
