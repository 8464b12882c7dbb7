/*
 * Phase 1 of decode: a row's statistics merged and its beta chosen. Maps
 * whose weights are not exponentials of all logits replace the row's logits by
 * coefficients (row/map_row.c).
 */
#include "attention/decode.h"
#include "attention/max_logits.h"
#include "attention/row_form.h"
#include "row/extra_logits.h"
#include "row/map_row.h"
#include <math.h>
#include <string.h>

/* Over the kept logits of the whole row. */
static double search_beta(const decode_work *w, const query_row *row, size_t r, decode_row *state) {
    row_view view = whet_row_form(&w->slice, row, w->logits + r * w->logits_stride + row->low);
    row_job job = whet_row_plan(row->policy, false);
    return whet_row_search_beta(&view, &job, &state->stats, NULL);
}

static double beta_of_row(const decode_work *w, const query_row *row, size_t r, decode_row *state) {
    if (!row_has_beta(&state->stats))
        return 1;
    if (w->slice.attention->betas)
        return whet_known_beta(&w->slice, row);
    if (row->temperature->needs & NEEDS_SEARCH)
        return search_beta(w, row, r, state);
    return whet_policy_beta(row->policy, &state->stats);
}

/* Replaces a row's logits by its coefficients. */
static void make_coefficients(decode_work *w, const query_row *row, size_t r, decode_row *state) {
    float *logits = w->logits + r * w->logits_stride + row->low;
    if (!row_has_beta(&state->stats)) {
        memset(logits, 0, (row->high - row->low) * sizeof(float));
        return;
    }
    row_job job = whet_row_plan(row->policy, true);
    row_view view = whet_row_form(&w->slice, row, logits);
    if (row->low % ROW_PART == 0 && !job.map->forward) {
        view.part_max = w->part_max + r * w->parts + row->low / ROW_PART;
        view.part_live = w->part_live + r * w->parts + row->low / ROW_PART;
    }
    whet_map_row(&view, &job, &state->stats);
}

bool whet_decode_has_exponentials(const map_descriptor *map) {
    return (map->traits & MAP_EXPONENTIAL) && !(map->traits & MAP_SEARCHES);
}

/* The index of the largest logit of the keys. The sink, which may be the maximum of the
 * statistics, does not count. */
static uint64_t find_argmax(const decode_work *w, size_t r) {
    whet_stats top = whet_stats_empty();
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++)
        if (w->pieces[chunk * w->row_count + r].max > top.max)
            top = w->pieces[chunk * w->row_count + r];
    return top.argmax == UINT64_MAX ? top.argmax : key_at(&w->slice.list, top.argmax);
}

static void note_max_logit(const decode_work *w, const query_row *row, size_t r) {
    float max = -INFINITY;
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++)
        max = larger_or_nan(max, w->maxima[chunk * w->row_count + r]);
    whet_note_max_logit(&w->slice, row, max);
}

void whet_decode_start_row(decode_row *state, const query_row *row, whet_stats *total) {
    whet_stats_complete(total);
    total->position = row->token;
    *state = (decode_row){.stats = *total,
                          .max = total->max > -(double)INFINITY ? (float)total->max : 0,
                          .exp2_scale = whet_exp2_scale(1.0),
                          .mapped = !whet_decode_has_exponentials(row->map),
                          .sink_z = 1};
}

void whet_decode_set_beta(decode_row *state, double beta) {
    if (isnan(beta))
        state->stats = whet_stats_not_finite(state->stats.n);
    if (state->stats.flags & WHET_ROW_NOT_FINITE)
        return;
    state->stats.beta = beta;
    state->exp2_scale = whet_exp2_scale(beta);
}

void whet_decode_weigh_extras(decode_row *state, const query_row *row) {
    double sink = extra_stats((double)row->sink).max;
    bool has_zero_logit = row->map->traits & MAP_ZERO_LOGIT;
    if (has_zero_logit)
        state->max = max_with_zero(state->max);
    row_sums extra = extra_sums(weigh_extra_logit(is_sink(sink) ? sink : -(double)INFINITY,
                                                  (double)state->max, (double)state->exp2_scale));
    state->sink_z = extra.z;
    state->sink_s = extra.s;
    if (has_zero_logit)
        state->sink_z += zero_logit_weight((double)state->max, state->stats.beta);
}

void whet_decode_choose_beta(decode_work *w, size_t r) {
    query_row row = whet_decode_row_at(w, r);
    decode_row *state = w->states + r;
    whet_stats total = extra_stats((double)row.sink);
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++)
        total = whet_stats_add(&total, &w->pieces[chunk * w->row_count + r]);
    if (w->maxima)
        note_max_logit(w, &row, r);
    whet_decode_start_row(state, &row, &total);
    if (w->shape.extremes && !(state->stats.flags & WHET_ROW_NOT_FINITE))
        state->stats.argmax = find_argmax(w, r);
    whet_decode_set_beta(state, beta_of_row(w, &row, r, state));
    if (state->mapped)
        make_coefficients(w, &row, r, state);
    else
        whet_decode_weigh_extras(state, &row);
}
