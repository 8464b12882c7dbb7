/* Phase 3 of decode: the chunks' outputs added up and written. */
#include "attention/decode.h"
#include "attention/row_form.h"
#include <math.h>

#define CHUNKS_AHEAD 4 /* prefetched while other chunks' outputs are added up */

/* Adds n floats, whole vectors of them, in double, and fetches those `ahead` floats on. */
static void add_row(const float *x, size_t n, size_t ahead, double *total) {
    for (size_t i = 0; i < n; i += ROW_PAD) {
        __builtin_prefetch(x + i + ahead, 0, 3);
        for (size_t j = 0; j < ROW_PAD; j++)
            total[i + j] += (double)x[i + j];
    }
}

whet_status whet_decode_finish_row(decode_work *w, size_t r, chunk_sums sums, const double *total,
                                   uint64_t *first_bad_row, whet_status status) {
    const whet_attention *a = w->slice.attention;
    query_row row = whet_decode_row_at(w, r);
    decode_row *state = w->states + r;
    double z = sums.z, s = sums.s;
    float result[HEAD_DIM_MAX];
    if (isnan(z))
        state->stats = whet_stats_not_finite(state->stats.n);
    bool good = !(state->stats.flags & WHET_ROW_NOT_FINITE);
    if (good && z > 0 && !state->mapped)
        whet_report_exponentials(row.map, (double)state->max, z, s, &state->stats);
    if (row_has_beta(&state->stats))
        state->stats.sink_share = z > 0 ? sums.first / z : 0;
    state->stats.position = row.token;
    state->stats.skipped_weight = good ? state->skipped_weight : (double)NAN;
    state->stats.skipped_share = state->skipped_share;
    for (size_t c = 0; c < a->value_dim; c++)
        result[c] = !good ? NAN : z > 0 ? (float)(total[c] / z) : 0;
    whet_store_output(&w->slice, &row, result);
    whet_stats *wanted = whet_row_stats(&w->slice, &row);
    if (wanted)
        *wanted = state->stats;
    return good ? status : whet_note_bad_row(&w->slice, &row, status, first_bad_row);
}

whet_status whet_decode_reduce_row(decode_work *w, size_t r, uint64_t *first_bad_row,
                                   whet_status status) {
    size_t dim = padded(w->slice.attention->value_dim);
    chunk_sums sums = {.z = w->states[r].sink_z, .s = w->states[r].sink_s};
    double total[HEAD_DIM_MAX] = {0};
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++) {
        const chunk_sums *more = &w->sums[chunk * w->row_count + r];
        sums.z += more->z;
        sums.s += more->s;
        sums.first += more->first;
        size_t ahead = chunk + CHUNKS_AHEAD < w->shape.chunks ? CHUNKS_AHEAD : 0;
        add_row(decode_output(w, r, chunk), dim, ahead * w->outputs_stride, total);
    }
    return whet_decode_finish_row(w, r, sums, total, first_bad_row, status);
}
