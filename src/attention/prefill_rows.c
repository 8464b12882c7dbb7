/*
 * The rows of a prefill task: a few panels, one row to a lane, with what is known
 * of each before its first key.
 */
#include "attention/mask.h"
#include "attention/prefill.h"

static void start_bias(const prefill_work *w, const prefill_panel *p, size_t lane) {
    const query_row *row = &p->row[lane];
    double bias = row->policy->map_value[0];
    if (isnan(bias))
        bias = log((double)whet_count_visible(&w->slice, row));
    whet_maps_set_bias(maps_of(w, p), lane, bias);
}

static void start_map(const prefill_work *w, prefill_panel *p, size_t lane, double beta) {
    const query_row *row = &p->row[lane];
    panel_form form = whet_panel_form(row->policy);
    whet_maps_set_lane(maps_of(w, p), lane, form, row->sink);
    if (form == PANEL_SIGMOID)
        start_bias(w, p, lane);
    if (!w->shape.fused)
        return;
    whet_maps_set_beta(maps_of(w, p), lane, beta);
    if (lane_has_zero(p, lane)) {
        float sink = p->max[lane];
        p->max[lane] = max_with_zero(sink);
        if (!isnan(sink)) {
            p->z[lane] = zero_logit_weight((double)p->max[lane], beta);
            if (sink > -INFINITY) /* which a beta of 0 would turn into NaN */
                p->z[lane] += exp(beta * ((double)sink - (double)p->max[lane]));
        }
    }
    if (!form_is_normalised(form)) {
        p->exp2_scale[lane] = 0; /* a larger maximum changes nothing */
        p->z[lane] *= 0;
    }
}

static void start_lane(const prefill_work *w, prefill_panel *p, size_t lane, size_t r) {
    query_row row = whet_row_of(&w->slice, r);
    double beta = w->shape.fused ? whet_known_beta(&w->slice, &row) : 1;
    p->row[lane] = row;
    p->stats[lane] = whet_stats_empty();
    widen_limits(&row, &p->low, &p->high);
    p->max[lane] = row.sink;
    p->z[lane] = row.sink == -INFINITY ? 0 : 1;
    if (isnan(row.sink))
        p->z[lane] = (double)NAN;
    p->s[lane] = p->n[lane] = p->first[lane] = 0;
    p->least[lane] = INFINITY;
    p->most[lane] = -INFINITY;
    p->argmax[lane] = UINT64_MAX;
    p->exp2_scale[lane] = whet_exp2_scale(isnan(beta) ? 1 : beta);
    if (w->maps)
        start_map(w, p, lane, isnan(beta) ? 1 : beta);
}

/* A lane without a row: zeros as a query, nothing to see, nothing stored. */
static void start_idle_lane(prefill_panel *p, size_t lane) {
    p->row[lane] = (query_row){.policy = NULL, .sink = -INFINITY};
    p->max[lane] = 0;
    p->exp2_scale[lane] = 1;
    p->z[lane] = 1;
    p->s[lane] = p->n[lane] = p->first[lane] = 0;
    p->least[lane] = p->most[lane] = 0;
    p->argmax[lane] = 0;
}

static void start_panel(prefill_work *w, size_t index, size_t first_row) {
    const whet_attention *a = w->slice.attention;
    prefill_panel *p = w->panels + index;
    float *queries = w->queries + index * a->head_dim * w->lanes;
    size_t left = w->shape.row_count - first_row;
    p->row_count = left < w->lanes ? left : w->lanes;
    p->low = SIZE_MAX;
    p->high = 0;
    memset(queries, 0, a->head_dim * w->lanes * sizeof(float));
    if (w->maps)
        whet_maps_clear(w->maps + index, w->lanes);
    for (size_t lane = 0; lane < w->lanes; lane++) {
        if (lane >= p->row_count) {
            start_idle_lane(p, lane);
            continue;
        }
        start_lane(w, p, lane, first_row + lane);
        whet_load_query(&w->slice, &p->row[lane], w->row_buffer);
        whet_pack_lane(w->row_buffer, a->head_dim, w->lanes, lane, queries);
    }
    if (p->low > p->high)
        p->low = p->high;
}

void whet_prefill_start(prefill_work *w, const whet_plan *plan, size_t task, void *scratch) {
    size_t first_row = whet_prefill_cut_scratch(w, plan, task, scratch);
    w->first_key = SIZE_MAX;
    w->end_key = 0;
    for (size_t i = 0; i < w->panel_count; i++)
        start_panel(w, i, first_row + i * w->lanes);
    if (w->slice.attention->mask.data)
        whet_prefill_leave_out_keys(w);
    for (size_t i = 0; i < w->panel_count; i++)
        widen_keys(w->panels[i].low, w->panels[i].high, &w->first_key, &w->end_key);
    w->first_key = first_block(w->first_key, w->end_key);
}
