/*
 * The rows of a set: query rows and their output's gradients as lanes of panels, for
 * products along keys, and as rows, for products along queries; and the part that all
 * values share, which is left out of the gradients of weights since it would only cost
 * digits.
 */
#include "attention/backward.h"
#include <float.h>
#include <math.h>
#include <string.h>

/*
 * The part of a column that all values share: the smallest if all are positive, the
 * largest if all are negative. Subtracting it makes no value larger. Keys that no row
 * sees, infinities and NaN do not count.
 */
void whet_backward_find_common(backward_work *w) {
    float low[HEAD_DIM_MAX], high[HEAD_DIM_MAX];
    size_t dim = w->a->value_dim, row_count = w->shape.row_count;
    for (size_t i = 0; i < dim; i++) {
        low[i] = INFINITY;
        high[i] = -INFINITY;
    }
    /* limits do not fall from one query to the next */
    size_t start = row_count > 0 ? whet_row_of(&w->slice, 0).low : 0;
    size_t end = row_count > 0 ? whet_row_of(&w->slice, row_count - 1).high : 0;
    for (size_t j = start; j < end; j++) {
        const float *v = whet_load_position(&w->slice, &w->a->v, j, dim, w->row_buffer);
        for (size_t i = 0; i < dim; i++) {
            low[i] = v[i] < low[i] ? v[i] : low[i];
            high[i] = v[i] > high[i] ? v[i] : high[i];
        }
    }
    w->has_common = false;
    for (size_t i = 0; i < dim; i++) {
        float least = low[i] > 0 ? low[i] : high[i] < 0 ? high[i] : 0;
        w->common[i] = isfinite(least) ? least : 0;
        w->has_common = w->has_common || w->common[i] != 0;
    }
}

/* A row as one of the set's rows for `outer`, or zeros: [dim / columns][panels * lanes][columns].
 */
static void pack_row(const backward_work *w, const float *row, size_t dim, size_t index,
                     float *result) {
    size_t columns = w->k->outer_columns, set_rows = w->shape.panels * w->lanes;
    bool finite = row && w->k->finite(row, dim);
    for (size_t start = 0; start < dim; start += columns) {
        size_t count = dim - start < columns ? dim - start : columns;
        float *to = result + start * set_rows + index * columns;
        memset(to, 0, columns * sizeof(float));
        if (finite)
            memcpy(to, row + start, count * sizeof(float));
    }
}

/* dL/dout of a row: zeros where only statistics have gradients. */
static const float *load_output_grad(const backward_work *w, const query_row *row) {
    if (w->gradients->out.data)
        return whet_load_row(&w->slice, &w->gradients->out, row, w->a->value_dim, w->row_buffer);
    memset(w->row_buffer, 0, w->a->value_dim * sizeof(float));
    return w->row_buffer;
}

static void start_lane(backward_work *w, size_t index, size_t lane, size_t r) {
    backward_panel *p = w->panels + index;
    query_row row = whet_row_of(&w->slice, r);
    p->row[lane] = row;
    p->form[lane] = whet_backward_form(w, &row);
    p->settled += !form_is_exponential(p->form[lane]);
    p->mapped = p->mapped || (p->form[lane] != PANEL_EXP && p->form[lane] != PANEL_BY_ROW);
    p->stats[lane] = *whet_row_stats(&w->slice, &row);
    widen_limits(&row, &p->low, &p->high);
    size_t at = index * w->lanes + lane;
    whet_load_query(&w->slice, &row, w->row_buffer);
    whet_pack_lane(w->row_buffer, w->a->head_dim, w->lanes, lane,
                   w->queries + index * w->a->head_dim * w->lanes);
    pack_row(w, w->row_buffer, w->a->head_dim, at, w->query_rows);
    const float *grad = load_output_grad(w, &row);
    whet_pack_lane(grad, w->a->value_dim, w->lanes, lane,
                   w->grads + index * w->a->value_dim * w->lanes);
    pack_row(w, grad, w->a->value_dim, at, w->grad_rows);
    p->common[lane] = 0;
    for (size_t i = 0; w->has_common && i < w->a->value_dim; i++)
        p->common[lane] += (double)grad[i] * (double)w->common[i];
}

static bool is_usable(const whet_stats *stats) {
    return !(stats->flags & WHET_ROW_NOT_FINITE) && fabs(stats->max) <= (double)FLT_MAX &&
           isfinite(stats->beta);
}

/* A lane before its first key: exponents from the statistics of the forward pass; with a sink,
 * which no gradient arrives at, that is the largest logit so far. */
static void start_sums(backward_panel *p, size_t lane) {
    const whet_stats *stats = &p->stats[lane];
    panel_backward *to_logits = &p->to_logits;
    bool empty = is_empty(p, lane);
    p->bad[lane] = !empty && !is_usable(stats);
    p->peak[lane] = -INFINITY;
    to_logits->max[lane] = to_logits->base[lane] = to_logits->mean[lane] = to_logits->mean0[lane] =
        0;
    to_logits->factor[lane] = to_logits->beta[lane] = to_logits->through_beta[lane] = 0;
    to_logits->exp2_scale[lane] = to_logits->exp2_scale0[lane] = 1;
    p->z[lane] = p->s[lane] = p->a[lane] = p->b[lane] = 0;
    p->z0[lane] = p->s0[lane] = p->q0[lane] = p->distance[lane] = 0;
    p->beta_grad[lane] = 0;
    if (empty || p->bad[lane] || !form_is_exponential(p->form[lane]))
        return;
    double beta0 = whet_beta0(p->row[lane].policy, stats);
    to_logits->exp2_scale[lane] = whet_exp2_scale(stats->beta);
    to_logits->exp2_scale0[lane] = whet_exp2_scale(beta0);
    p->solved = p->solved || beta0 != 1;
    p->peak[lane] = p->row[lane].sink;
    if (p->row[lane].map->traits & MAP_ZERO_LOGIT)
        p->peak[lane] = max_with_zero(p->peak[lane]);
    if (p->peak[lane] > -INFINITY) {
        to_logits->max[lane] = p->peak[lane];
        to_logits->base[lane] = (float)-p->common[lane];
    }
}

static void start_panel(backward_work *w, size_t index, size_t first_row) {
    backward_panel *p = w->panels + index;
    size_t left = w->shape.row_count - first_row;
    p->row_count = left < w->lanes ? left : w->lanes;
    p->low = SIZE_MAX;
    p->high = 0;
    p->settled = 0;
    p->mapped = p->solved = false;
    for (size_t lane = 0; lane < w->lanes; lane++) {
        size_t at = index * w->lanes + lane;
        if (lane < p->row_count) {
            start_lane(w, index, lane, first_row + lane);
        } else {
            p->form[lane] = PANEL_EXP;
            pack_row(w, NULL, w->a->head_dim, at, w->query_rows);
            pack_row(w, NULL, w->a->value_dim, at, w->grad_rows);
            p->common[lane] = 0;
        }
        start_sums(p, lane);
    }
    if (p->low > p->high)
        p->low = p->high;
}

void whet_backward_start_set(backward_work *w, size_t set) {
    size_t first_row = set * w->shape.panels * w->lanes;
    size_t row_count = w->shape.panels * w->lanes, left = w->shape.row_count - first_row;
    w->panel_count = 0;
    while (w->panel_count < w->shape.panels && w->panel_count * w->lanes < left)
        w->panel_count++;
    w->first_key = SIZE_MAX;
    w->end_key = 0;
    memset(w->queries, 0, w->a->head_dim * row_count * sizeof(float));
    memset(w->grads, 0, w->a->value_dim * row_count * sizeof(float));
    for (size_t i = 0; i < w->panel_count; i++) {
        const backward_panel *p = w->panels + i;
        start_panel(w, i, first_row + i * w->lanes);
        widen_keys(p->low, p->high, &w->first_key, &w->end_key);
    }
    w->first_key = first_block(w->first_key, w->end_key);
}
