/*
 * The first sweep of the way back and what it comes to. Logits and gradients of
 * weights are computed block by block and kept; sums over a row count from the
 * largest logit so far and the gradient there, and are brought to a new one when
 * it is met. Between the sweeps they tell how a row's beta moves, and with it
 * how weights and gradients lead back to logits. Rows with a map that is not a
 * temperature are led back here as a whole.
 */
#include "attention/backward.h"
#include "attention/lane_row.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Brings sums of exp, d exp and d d exp to a maximum that lies `rise` higher. */
static void raise_sums(double rise, double c, double *z, double *s, double *q) {
    double factor = exp2(-c * rise);
    if (q)
        *q = factor * (*q - rise * (2 * *s - rise * *z));
    *s = factor * (*s - rise * *z);
    *z *= factor;
}

/* Brings the sums of a lane to a new largest logit, where the gradient is `base`. */
static void raise_lane(back_panel *p, size_t lane, float max, float base) {
    panel_slopes *by = &p->by;
    if (p->peak[lane] > -INFINITY) {
        double rise = (double)max - (double)by->max[lane];
        double step = (double)base - (double)by->base[lane];
        p->a[lane] -= step * p->z[lane];
        p->b[lane] -= step * p->s[lane];
        raise_sums(rise, (double)by->c[lane], &p->a[lane], &p->b[lane], NULL);
        raise_sums(rise, (double)by->c[lane], &p->z[lane], &p->s[lane], NULL);
        raise_sums(rise, (double)by->c0[lane], &p->z0[lane], &p->s0[lane], &p->q0[lane]);
    }
    p->peak[lane] = by->max[lane] = max;
    by->base[lane] = base;
}

static void raise_peaks(const back_work *w, back_panel *p, const float *logits, const float *slopes,
                        size_t keys) {
    float max[LANES_MAX], base[LANES_MAX];
    memcpy(max, p->peak, sizeof max);
    memcpy(base, p->by.base, sizeof base);
    w->k->panel_peak(logits, slopes, keys, max, base);
    for (size_t lane = 0; lane < w->lanes; lane++)
        if (max[lane] > p->peak[lane])
            raise_lane(p, lane, max[lane], base[lane]);
}

static void sum_tile(const back_work *w, back_panel *p, const float *logits, const float *slopes,
                     size_t keys) {
    float z[LANES_MAX], s[LANES_MAX], a[LANES_MAX], b[LANES_MAX];
    raise_peaks(w, p, logits, slopes, keys);
    w->k->panel_gradient_sums(logits, slopes, keys, p->by.max, p->by.c, p->by.base, z, s, a, b);
    add_lanes(p->z, z, w->lanes);
    add_lanes(p->s, s, w->lanes);
    add_lanes(p->a, a, w->lanes);
    add_lanes(p->b, b, w->lanes);
    if (!p->solved)
        return;
    w->k->panel_moments(logits, keys, p->by.max, p->by.c0, z, s, a);
    add_lanes(p->z0, z, w->lanes);
    add_lanes(p->s0, s, w->lanes);
    add_lanes(p->q0, a, w->lanes);
}

void whet_backward_first_sweep(back_work *w) {
    const whet_attention *a = w->a;
    for (size_t start = w->first_key; start < w->end_key; start += BLOCK) {
        size_t length = block_length(w->end_key, start);
        whet_pack_interleaved(&w->stream, &a->k, a->head_dim, start, length, NULL, w->rows,
                              w->keys);
        whet_pack_interleaved(&w->stream, &a->v, a->value_dim, start, length,
                              w->has_common ? w->common : NULL, w->rows, w->values);
        rows_ahead ahead = whet_rows_ahead(
            &w->stream, &a->k, &a->v, start + length,
            start + length + block_length(w->end_key, start + length), w->panel_count);
        for (size_t i = 0; i < w->panel_count; i++) {
            back_panel *p = w->panels + i;
            size_t keys = keys_in_block(p->low, p->high, start), at = backward_tile(w, i, start);
            if (keys == 0)
                continue;
            whet_tile_logits(&w->stream, p->row, p->rows, w->keys,
                             w->queries + i * a->head_dim * w->lanes, start, keys, w->logits + at,
                             w->capped ? w->capped + at : NULL, &ahead);
            w->k->scores(w->values, (keys + w->k->group - 1) / w->k->group,
                         w->grads + i * a->value_dim * w->lanes, a->value_dim, w->slopes + at);
            if (p->maps < p->rows)
                sum_tile(w, p, w->logits + at, w->slopes + at, keys);
        }
    }
}

/* ---- in between ---- */

/* A row's sink: its distance to the maximum and its weight before division, at beta and beta0. */
typedef struct sink_weight {
    double d, e, e0;
} sink_weight;

static sink_weight weigh_sink(const back_work *w, const back_panel *p, size_t lane) {
    double sink = w->a->sinks ? (double)w->a->sinks[p->row[lane].head] : -(double)INFINITY;
    if (sink == -(double)INFINITY)
        return (sink_weight){0, 0, 0};
    double d = sink - (double)p->by.max[lane];
    return (sink_weight){d, exp2((double)p->by.c[lane] * d), exp2((double)p->by.c0[lane] * d)};
}

/* Moments at beta0 with the sink: those of the way forth where beta0 is 1, brought to the maximum
 * that was found here. */
static void complete_moments(back_panel *p, size_t lane, sink_weight sink) {
    const whet_stats *stats = &p->stats[lane];
    if (whet_beta_path_start(p->row[lane].policy, stats) == 1) {
        p->z0[lane] = stats->z;
        p->s0[lane] = stats->s;
        raise_sums((double)p->by.max[lane] - stats->max, (double)p->by.c0[lane], &p->z0[lane],
                   &p->s0[lane], NULL);
        return;
    }
    p->z0[lane] += sink.e0;
    p->s0[lane] += sink.d * sink.e0;
    p->q0[lane] += sink.d * sink.d * sink.e0;
}

static float to_float(double x) { return (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, x)); }

static void add_numbers(double *sums, const whet_policy_gradient *numbers, double factor) {
    double more[NUMBERS];
    memcpy(more, numbers, sizeof more);
    for (size_t i = 0; i < NUMBERS; i++)
        sums[i] += factor * more[i];
}

/* How a lane's weights and gradients lead back to its logits; its own share of parameters. */
static void turn_lane(back_work *w, back_panel *p, size_t lane) {
    panel_slopes *by = &p->by;
    const whet_stats *stats = &p->stats[lane];
    if (is_empty(p, lane))
        return;
    sink_weight sink = weigh_sink(w, p, lane);
    double base = (double)by->base[lane] + p->common[lane]; /* of g; a sink's g is 0 */
    double z = p->z[lane] + sink.e, s = p->s[lane] + sink.d * sink.e;
    double mean = (p->a[lane] - base * sink.e) / z;
    double slope = (p->b[lane] - base * sink.d * sink.e) / z - mean * (s / z); /* dL/dbeta */
    p->bad[lane] = p->bad[lane] || !(z > 0) || !isfinite(z) || !isfinite(mean) || !isfinite(slope);
    if (p->bad[lane]) {
        by->factor[lane] = by->mean[lane] = NAN;
        return;
    }
    beta_path path;
    complete_moments(p, lane, sink);
    double mean0 = p->s0[lane] / p->z0[lane];
    double variance = p->q0[lane] / p->z0[lane] - mean0 * mean0;
    whet_beta_path(p->row[lane].policy, stats, variance, &path);
    double pull = slope * path.factor / p->z0[lane];
    by->factor[lane] = (float)(1 / z);
    by->mean[lane] = (float)mean;
    by->beta[lane] = (float)stats->beta;
    if (path.factor != 0) {
        by->pull[lane] = to_float(pull);
        by->mean0[lane] = to_float(mean0);
        by->moves = 1;
    }
    if (!w->parameters)
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.group;
    add_numbers(sums->numbers, &path.numbers, slope);
    sums->sink -= stats->beta * (sink.e / z) * (base + mean);
    if (path.factor != 0)
        sums->sink -= pull * sink.e0 * (sink.d - mean0);
}

/* The same for a lane with a map, or without a row beside such lanes: all of it at once. */
static void turn_map(back_work *w, size_t index, size_t lane) {
    back_panel *p = w->panels + index;
    size_t first = p->low - p->low % BLOCK, at = backward_tile(w, index, first) + lane;
    const map_lane all = {.stream = &w->stream,
                          .row = &p->row[lane],
                          .logits = w->logits + at,
                          .slopes = w->slopes + at,
                          .step = w->lanes,
                          .first = first,
                          .end = p->high,
                          .common = p->common[lane],
                          .row_logits = w->row_logits,
                          .row_slopes = w->row_slopes};
    if (is_empty(p, lane) || p->bad[lane]) {
        whet_map_lane_fill(&all, p->bad[lane] ? NAN : 0);
        return;
    }
    whet_policy_gradient numbers = {.strength = 0};
    double sink = 0;
    p->bad[lane] = !whet_map_lane_turn(&all, &numbers, &sink);
    if (p->bad[lane] || !w->parameters)
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.group;
    add_numbers(sums->numbers, &numbers, 1);
    sums->sink += sink;
}

void whet_backward_turn(back_work *w) {
    for (size_t i = 0; i < w->panel_count; i++) {
        back_panel *p = w->panels + i;
        p->by.moves = 0;
        for (size_t lane = 0; lane < w->lanes; lane++) {
            if (!is_turned(p, lane))
                turn_lane(w, p, lane);
            else if (p->low < p->high)
                turn_map(w, i, lane);
        }
    }
}
