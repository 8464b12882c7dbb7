/*
 * Phase 1 of decode: a row's statistics merged and its beta chosen. Maps that
 * are not a temperature replace the row's logits by coefficients (row/map.c).
 */
#include "attention/decode.h"
#include "attention/extra_logits.h"
#include "attention/policy_traits.h"
#include <math.h>
#include <string.h>

static whet_stats sink_piece(const whet_attention *a, const query_row *row) {
    whet_stats piece = whet_stats_empty();
    piece.max = (double)sink_of_head(a, row->head);
    if (piece.max == -(double)INFINITY)
        return piece;
    piece.z = 1;
    if (!isfinite(piece.max))
        return whet_stats_not_finite(0);
    whet_stats_complete(&piece);
    return piece;
}

/* The moments of a whole row at the solver's beta, over the kept logits. */
static row_sums row_moments(const decode_work *w, const query_row *row, size_t r,
                            const decode_row *state, double beta) {
    const whet_attention *a = w->slice.attention;
    row_sums sums = {0, 0, 0};
    float exp2_scale = whet_beta_to_c(beta);
    const float *logits = w->logits + r * w->logits_stride;
    w->shape.kernels->moments(logits + row->low, row->high - row->low, state->max, exp2_scale,
                              &sums);
    extra_logit sink = weigh_extra_logit((double)sink_of_head(a, row->head), (double)state->max,
                                         (double)exp2_scale);
    row_sums more = extra_sums(sink);
    sums.z += more.z;
    sums.s += more.s;
    sums.q += more.q;
    return sums;
}

static double solve_target_row(const decode_work *w, const query_row *row, size_t r,
                               decode_row *state) {
    target_solver solver;
    whet_target_start(&solver, row->policy, &state->stats);
    while (!solver.done) {
        row_sums sums = row_moments(w, row, r, state, solver.beta);
        whet_target_step(&solver, sums.z, sums.s, sums.q);
    }
    state->stats.flags |= solver.flags;
    return whet_policy_weaken(row->policy, solver.beta);
}

/* From a row's logits to its coefficients. A sink goes where the row's next logit would be. */
static void map_row(decode_work *w, const query_row *row, size_t r, decode_row *state) {
    float sink = sink_of_head(w->slice.attention, row->head);
    float *logits = w->logits + r * w->logits_stride + row->low;
    size_t count = row->high - row->low;
    bool with_sink = is_sink((double)sink) && policy_takes_sink(row->policy);
    state->mapped = true;
    if (!row_has_beta(&state->stats)) {
        memset(logits, 0, count * sizeof(float));
        return;
    }
    whet_policy policy = whet_row_policy(&w->slice, row);
    if (with_sink)
        logits[count] = sink;
    row_view view = {.kernels = w->shape.kernels,
                     .n = count + with_sink,
                     .in = logits,
                     .out = logits,
                     .in_type = WHET_F32,
                     .out_type = WHET_F32};
    uint64_t n = state->stats.n;
    state->stats.n = n + with_sink; /* entries, to topk */
    whet_map_row(&policy, &view, &state->stats);
    state->stats.n = n;
}

static void apply_policy(decode_work *w, const query_row *row, size_t r, decode_row *state) {
    whet_stats *stats = &state->stats;
    double beta = 1.0;
    if (row_has_beta(stats) && whet_policy_is_temperature(row->policy))
        beta = policy_has_target(row->policy) ? solve_target_row(w, row, r, state)
                                              : whet_policy_beta(row->policy, stats);
    if (isnan(beta)) {
        *stats = whet_stats_not_finite(stats->n);
        beta = 1.0;
    }
    if (stats->flags & WHET_ROW_NOT_FINITE)
        state->exp2_scale = whet_beta_to_c(1.0);
    else
        state->exp2_scale = whet_apply_beta(stats, beta);
}

void whet_decode_choose_beta(decode_work *w, size_t r) {
    query_row row = whet_row_of(&w->slice, r);
    decode_row *state = w->states + r;
    whet_stats total = sink_piece(w->slice.attention, &row);
    double sink = total.max;
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++)
        total = whet_stats_add(&total, &w->pieces[chunk * w->rows + r]);
    whet_stats_complete(&total);
    state->stats = total;
    state->max = total.max > -(double)INFINITY ? (float)total.max : 0;
    state->mapped = false;
    state->sink_z = 1;
    state->sink_s = 0;
    if (!policy_takes_exponentials(row.policy)) {
        map_row(w, &row, r, state);
        return;
    }
    bool has_zero_logit = policy_has_zero_logit(row.policy);
    if (has_zero_logit)
        state->max = max_with_zero(state->max);
    apply_policy(w, &row, r, state);
    row_sums extra = extra_sums(weigh_extra_logit(is_sink(sink) ? sink : -(double)INFINITY,
                                                  (double)state->max, (double)state->exp2_scale));
    state->sink_z = extra.z;
    state->sink_s = extra.s;
    if (has_zero_logit)
        state->sink_z += zero_logit_weight((double)state->max);
}
