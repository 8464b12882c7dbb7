/*
 * The first sweep of the backward pass and its results. Logits and gradients of weights
 * are computed block by block and kept; sums over a row are relative to the largest logit
 * so far and the gradient there, and are rescaled when a larger one is found. Between the
 * sweeps they give the derivative of a row's beta, and with it the terms of the logits'
 * gradients.
 */
#include "attention/backward.h"
#include "base/sums.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Rescales the sums of a lane to a new largest logit, where the gradient is `base`. */
static void raise_lane(backward_panel *p, size_t lane, float max, float base) {
    backward_sums sums = whet_backward_lane_sums(p, lane);
    whet_backward_raise(&sums, (double)p->to_logits.exp2_scale[lane],
                        (double)p->to_logits.exp2_scale0[lane], (double)max, (double)base);
    whet_backward_set_lane(p, lane, &sums);
}

static void raise_peaks(const backward_work *w, backward_panel *p, const float *logits,
                        const float *weight_grads, size_t keys) {
    float max[LANES_MAX], base[LANES_MAX];
    memcpy(max, p->peak, sizeof max);
    memcpy(base, p->to_logits.base, sizeof base);
    w->k->panel_peak(logits, weight_grads, keys, max, base);
    for (size_t lane = 0; lane < w->lanes; lane++)
        if (max[lane] > p->peak[lane])
            raise_lane(p, lane, max[lane], base[lane]);
}

static void sum_tile(const backward_work *w, backward_panel *p, const float *logits,
                     const float *weight_grads, size_t keys) {
    float z[LANES_MAX], s[LANES_MAX], a[LANES_MAX], b[LANES_MAX];
    raise_peaks(w, p, logits, weight_grads, keys);
    w->k->panel_gradient_sums(logits, weight_grads, keys, p->to_logits.max, p->to_logits.exp2_scale,
                              p->to_logits.base, z, s, a, b);
    add_lanes(p->z, z, w->lanes);
    add_lanes(p->s, s, w->lanes);
    add_lanes(p->a, a, w->lanes);
    add_lanes(p->b, b, w->lanes);
    if (!p->solved)
        return;
    w->k->panel_moments(logits, keys, p->to_logits.max, p->to_logits.exp2_scale0, z, s, a);
    add_lanes(p->z0, z, w->lanes);
    add_lanes(p->s0, s, w->lanes);
    add_lanes(p->q0, a, w->lanes);
}

/* A panel's logits of a block. */
static void find_logits(backward_work *w, size_t index, size_t start, size_t keys,
                        rows_ahead *ahead) {
    const backward_panel *p = w->panels + index;
    size_t at = backward_tile(w, index, start);
    whet_tile_logits(&w->slice, p->row, p->row_count, w->keys,
                     w->queries + index * w->a->head_dim * w->lanes, start, keys, w->logits + at,
                     w->softcap_grads ? w->softcap_grads + at : NULL, ahead);
}

/* The gradients of its weights, and the sums of both. */
static void find_weight_grads(backward_work *w, size_t index, size_t start, size_t keys) {
    backward_panel *p = w->panels + index;
    size_t at = backward_tile(w, index, start), dim = w->a->value_dim;
    if (whet_backward_needs_values(w, index, start, keys))
        w->k->scores(w->values, (keys + w->k->strip - 1) / w->k->strip,
                     w->grads + index * dim * w->lanes, dim, w->weight_grads + at);
    /* their g is 0, which lacks what all values have in common, as all g do here */
    whet_backward_leave_out(w, index, start, keys, p->common, w->weight_grads + at);
    if (p->settled < p->row_count)
        sum_tile(w, p, w->logits + at, w->weight_grads + at, keys);
    else if (p->mapped)
        raise_peaks(w, p, w->logits + at, w->weight_grads + at, keys);
}

/* What a sweep over the keys computes. */
enum { SWEEP_LOGITS = 1, SWEEP_WEIGHT_GRADS = 2 };

static bool any_needs_values(const backward_work *w, size_t start) {
    for (size_t i = 0; i < w->panel_count; i++) {
        size_t keys = keys_in_block(w->panels[i].low, w->panels[i].high, start);
        if (keys > 0 && whet_backward_needs_values(w, i, start, keys))
            return true;
    }
    return false;
}

static void sweep_block(backward_work *w, size_t start, unsigned what) {
    const whet_attention *a = w->a;
    size_t length = block_length(w->end_key, start), next = start + length;
    bool logits = what & SWEEP_LOGITS, grads = what & SWEEP_WEIGHT_GRADS;
    if (logits)
        whet_pack_interleaved(&w->slice, &a->k, a->head_dim, start, length, NULL, w->row_buffer,
                              w->keys);
    if (grads && any_needs_values(w, start))
        whet_pack_interleaved(&w->slice, &a->v, a->value_dim, start, length,
                              w->has_common ? w->common : NULL, w->row_buffer, w->values);
    rows_ahead ahead = whet_rows_ahead(&w->slice, logits ? &a->k : NULL, grads ? &a->v : NULL, next,
                                       next + block_length(w->end_key, next), w->panel_count);
    for (size_t i = 0; i < w->panel_count; i++) {
        size_t keys = keys_in_block(w->panels[i].low, w->panels[i].high, start);
        if (keys > 0 && logits)
            find_logits(w, i, start, keys, &ahead);
        if (keys > 0 && grads)
            find_weight_grads(w, i, start, keys);
    }
}

static void sweep(backward_work *w, unsigned what) {
    for (size_t start = w->first_key; start < w->end_key; start += BLOCK)
        sweep_block(w, start, what);
}

void whet_backward_find_logits(backward_work *w) { sweep(w, SWEEP_LOGITS); }

void whet_backward_first_sweep(backward_work *w) {
    if (!(w->a->skip > 0)) {
        sweep(w, SWEEP_LOGITS | SWEEP_WEIGHT_GRADS);
        return;
    }
    sweep(w, SWEEP_LOGITS);
    whet_backward_choose_blocks(w);
    sweep(w, SWEEP_WEIGHT_GRADS);
}

/* ---- in between ---- */

/* A row's sink at the exp2 scale of beta or beta0. */
static extra_logit weigh_sink(const backward_panel *p, size_t lane, float exp2_scale) {
    return weigh_extra_logit((double)p->row[lane].sink, (double)p->to_logits.max[lane],
                             (double)exp2_scale);
}

/* The same for the logit of zero of softmax1. */
static extra_logit weigh_zero(const backward_panel *p, size_t lane) {
    if (!(p->row[lane].map->traits & MAP_ZERO_LOGIT))
        return (extra_logit){0, 0};
    return weigh_extra_logit(0, (double)p->to_logits.max[lane],
                             (double)p->to_logits.exp2_scale[lane]);
}

/* Moments at beta0 with the sink: those of the forward pass where beta0 is 1, rescaled to the
 * maximum found here. */
static void complete_moments(backward_panel *p, size_t lane, extra_logit sink0) {
    const whet_stats *stats = &p->stats[lane];
    if (whet_beta0(p->row[lane].policy, stats) == 1) {
        p->z0[lane] = stats->z;
        p->s0[lane] = stats->s;
        double shift = stats->max - (double)p->to_logits.max[lane];
        sums_shift(shift, exp2((double)p->to_logits.exp2_scale0[lane] * shift), &p->z0[lane],
                   &p->s0[lane], NULL);
        return;
    }
    row_sums more = extra_sums(sink0);
    p->z0[lane] += more.z;
    p->s0[lane] += more.s;
    p->q0[lane] += more.q;
}

static float to_float(double x) { return (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, x)); }

/* What a lane's gradients of logits are made of; its share of the parameters' gradients. */
static void prepare_lane(backward_work *w, backward_panel *p, size_t lane) {
    panel_backward *to_logits = &p->to_logits;
    const whet_stats *stats = &p->stats[lane];
    if (is_empty(p, lane))
        return;
    extra_logit sink = weigh_sink(p, lane, to_logits->exp2_scale[lane]);
    extra_logit sink0 = weigh_sink(p, lane, to_logits->exp2_scale0[lane]);
    double base = (double)to_logits->base[lane] + p->common[lane]; /* of g; a sink's g is 0 */
    row_sums extra = extra_sums(sink), zero = extra_sums(weigh_zero(p, lane));
    extra.z += zero.z;
    extra.s += zero.s;
    double z = p->z[lane] + extra.z, s = p->s[lane] + extra.s;
    gradient_sums of_row = {z, s, p->a[lane] - base * extra.z, p->b[lane] - base * extra.s};
    double mean = gradient_mean(of_row), beta_grad = gradient_of_beta(of_row);
    p->bad[lane] =
        p->bad[lane] || !(z > 0) || !isfinite(z) || !isfinite(mean) || !isfinite(beta_grad);
    if (p->bad[lane]) {
        to_logits->factor[lane] = to_logits->mean[lane] = NAN;
        return;
    }
    beta_derivative moves = {.factor = 0};
    complete_moments(p, lane, sink0);
    double mean0 = p->s0[lane] / p->z0[lane];
    double variance = p->q0[lane] / p->z0[lane] - mean0 * mean0;
    if (!w->a->betas)
        whet_differentiate_beta(p->row[lane].policy, stats, variance, &moves);
    p->beta_grad[lane] = beta_grad;
    if (w->a->betas &&
        !whet_beta_is_free((double)w->a->betas[whet_row_index(&w->slice, &p->row[lane])]))
        p->beta_grad[lane] = 0;
    double through_beta = beta_grad * moves.factor / p->z0[lane];
    to_logits->factor[lane] = (float)(1 / z);
    to_logits->mean[lane] = (float)mean;
    to_logits->beta[lane] = (float)stats->beta;
    if (moves.factor != 0) {
        to_logits->through_beta[lane] = to_float(through_beta);
        to_logits->mean0[lane] = to_float(mean0);
        to_logits->moves = 1;
    }
    if (!counts_rows(w))
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.heads_per_kv;
    whet_backward_add_parameters(sums->parameters, &moves.parameters, beta_grad);
    sums->sink -= stats->beta * (sink.weight / z) * (base + mean);
    if (moves.factor != 0)
        sums->sink -= through_beta * sink0.weight * (sink.distance - mean0);
}

void whet_backward_prepare(backward_work *w) {
    for (size_t i = 0; i < w->panel_count; i++) {
        backward_panel *p = w->panels + i;
        p->to_logits.moves = 0;
        if (p->mapped && p->low < p->high)
            whet_backward_through_maps(w, i);
        for (size_t lane = 0; lane < w->lanes; lane++) {
            if (!has_logit_grads(p, lane))
                prepare_lane(w, p, lane);
            else if (lane >= p->row_count || p->form[lane] == PANEL_BY_ROW || p->low >= p->high)
                whet_backward_through_row(w, i, lane);
        }
    }
}
