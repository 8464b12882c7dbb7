/*
 * Between the passes of prefill: from a row's maximum and sums to its statistics,
 * and from them to its beta, by Newton's steps for `target`, or to the threshold
 * of its map.
 */
#include "attention/lane_row.h"
#include "attention/prefill.h"
#include "row/map_row.h"

/* Whether the lane's sink has a share in its exponentials. */
static bool sink_counts(const prefill_work *w, const prefill_panel *p, size_t lane) {
    const panel_maps *maps = maps_of(w, p);
    double lowest = maps ? (double)maps->lanes.lowest[lane] : -(double)INFINITY;
    return is_sink((double)p->row[lane].sink) && !((double)p->row[lane].sink < lowest);
}

/* z, s and q of a sink alone, -inf for none, at the lane's beta. */
static void start_exponentials(prefill_panel *p, size_t lane, double sink) {
    row_sums sums =
        extra_sums(weigh_extra_logit(sink, (double)p->max[lane], (double)p->exp2_scale[lane]));
    p->z[lane] = sums.z;
    p->s[lane] = sums.s;
    p->q[lane] = sums.q;
}

/* The sums that weights are added to: of the sink, and of the logit 0 of softmax1. */
static void start_sums(const prefill_work *w, prefill_panel *p, size_t lane) {
    if (!form_is_exponential(form_of_lane(w, p, lane))) {
        p->z[lane] = whet_maps_sink_share(maps_of(w, p), lane);
        p->s[lane] = p->q[lane] = 0;
        return;
    }
    bool counts = sink_counts(w, p, lane);
    start_exponentials(p, lane, counts ? (double)p->row[lane].sink : -(double)INFINITY);
    if (lane_has_zero(p, lane))
        p->z[lane] += zero_logit_weight((double)p->max[lane], p->stats[lane].beta);
}

/* A lane's statistics from the sums of a pass. */
static void complete_lane(const prefill_work *w, prefill_panel *p, size_t lane) {
    whet_stats *stats = &p->stats[lane];
    const query_row *row = &p->row[lane];
    uint64_t n = w->shape.counted ? (uint64_t)p->n[lane] : row->high - row->low;
    if (isnan(p->z[lane]) || p->max[lane] == INFINITY) {
        *stats = whet_stats_not_finite(n);
        return;
    }
    *stats = whet_stats_empty();
    stats->position = row->token;
    if (!w->shape.fused && !w->shape.summed)
        p->z[lane] = p->max[lane] > -INFINITY ? 1 : 0; /* all that is asked of it */
    if (p->z[lane] == 0)
        return;
    stats->n = n;
    stats->max = (double)p->max[lane];
    stats->z = p->z[lane];
    stats->s = p->s[lane];
    whet_stats_complete(stats);
    if (w->shape.extremes) {
        stats->min = (double)p->least[lane];
        uint64_t place = p->argmax[lane];
        stats->argmax = place == UINT64_MAX ? place : key_at(&w->slice.list, place);
    }
    stats->flags = n == 0 ? WHET_ROW_EMPTY : 0;
}

/* Starts the searches for betas; true if any lane searches. */
static bool start_searches(prefill_work *w) {
    bool any = false;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].row_count; lane++) {
            prefill_panel *p = w->panels + i;
            const query_row *row = &p->row[lane];
            p->solver[lane].done = 1;
            if (!(row->temperature->needs & NEEDS_SEARCH) || !row_has_beta(&p->stats[lane]))
                continue;
            row->temperature->solver->start(&p->solver[lane], row->policy, &p->stats[lane]);
            any = any || !p->solver[lane].done;
        }
    return any;
}

static bool step_searches(prefill_work *w) {
    bool any = false;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].row_count; lane++) {
            prefill_panel *p = w->panels + i;
            if (p->solver[lane].done)
                continue;
            p->row[lane].temperature->solver->step(&p->solver[lane], p->z[lane], p->s[lane],
                                                   p->q[lane]);
            any = any || !p->solver[lane].done;
        }
    return any;
}

/* All searches of all panels advance by one step in a pass over the keys. */
static void search_betas(prefill_work *w) {
    for (bool more = start_searches(w); more; more = step_searches(w)) {
        for (size_t i = 0; i < w->panel_count; i++)
            for (size_t lane = 0; lane < w->panels[i].row_count; lane++) {
                prefill_panel *p = w->panels + i;
                if (!p->solver[lane].done)
                    p->exp2_scale[lane] = whet_exp2_scale(p->solver[lane].beta);
                /* its entropy is that of softmax, whatever the map */
                start_exponentials(p, lane, (double)p->row[lane].sink);
            }
        whet_prefill_moments_pass(w);
    }
}

static double beta_of_lane(const prefill_work *w, prefill_panel *p, size_t lane) {
    const query_row *row = &p->row[lane];
    whet_stats *stats = &p->stats[lane];
    if (w->slice.attention->betas)
        return whet_known_beta(&w->slice, row);
    if (!(row->temperature->needs & NEEDS_SEARCH))
        return whet_policy_beta(row->policy, stats);
    stats->flags |= p->solver[lane].flags;
    return whet_apply_strength(row->policy, p->solver[lane].beta);
}

/* Computes the weights of a lane whose map has no kernel for panels. */
static void make_row(prefill_work *w, size_t index, size_t lane) {
    const prefill_panel *p = w->panels + index;
    query_row row = p->row[lane]; /* without keys that a mask hides from the whole panel */
    row.low = row.low > p->low ? row.low : p->low;
    row.high = row.high < p->high ? row.high : p->high;
    if (row.high < row.low)
        row.high = row.low;
    size_t first = p->low - p->low % BLOCK;
    const lane_row entries = {.row = &row,
                              .entries = prefill_tile(w, index, first) + lane,
                              .stride = w->lanes,
                              .first = first,
                              .end = p->high};
    if (!row_has_beta(&p->stats[lane])) {
        bool bad = p->stats[lane].flags & WHET_ROW_NOT_FINITE;
        whet_lane_fill(&entries, &entries, bad ? NAN : 0);
        return;
    }
    row_job job = whet_row_plan(row.policy, true);
    row_view view = whet_row_form(&w->slice, &row, w->map_row);
    whet_lane_take(&entries, w->map_row);
    whet_map_row(&view, &job, &w->panels[index].stats[lane]);
    whet_lane_put(&entries, &entries, w->map_row);
}

/* Thresholds of a panel's maps, in passes over its kept logits. */
static void solve_maps(prefill_work *w, size_t index) {
    prefill_panel *p = w->panels + index;
    panel_maps *maps = w->maps + index;
    for (size_t lane = 0; lane < p->row_count; lane++) {
        const query_row *row = &p->row[lane];
        if (!row_has_beta(&p->stats[lane]))
            continue;
        whet_maps_search(maps, lane, row->policy->map_value[0], &p->stats[lane]);
        if (lane_has_zero(p, lane))
            p->max[lane] = max_with_zero(p->max[lane]);
    }
    while (whet_maps_begin_pass(maps, w->lanes)) {
        for (size_t start = w->first_key; start < w->end_key; start += BLOCK) {
            size_t keys = keys_in_block(p->low, p->high, start);
            if (keys > 0)
                whet_maps_look(maps, w->shape.kernels, prefill_tile(w, index, start), keys);
        }
        whet_maps_end_pass(maps, w->lanes);
    }
    for (size_t lane = 0; p->low < p->high && lane < p->row_count; lane++)
        if (maps->form[lane] == PANEL_BY_ROW)
            make_row(w, index, lane);
}

/* Notes a lane's beta; a row whose beta is not a number is not finite. */
static void set_beta(prefill_panel *p, size_t lane, double beta) {
    whet_stats *stats = &p->stats[lane];
    if (isnan(beta)) {
        *stats = whet_stats_not_finite(stats->n);
        return;
    }
    stats->beta = beta;
    p->exp2_scale[lane] = whet_exp2_scale(beta);
}

void whet_prefill_settle_betas(prefill_work *w) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].row_count; lane++) {
            prefill_panel *p = w->panels + i;
            complete_lane(w, p, lane);
            if (row_has_beta(&p->stats[lane]))
                set_beta(p, lane, whet_known_beta(&w->slice, &p->row[lane]));
        }
}

void whet_prefill_choose_betas(prefill_work *w) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].row_count; lane++)
            complete_lane(w, w->panels + i, lane);
    search_betas(w);
    for (size_t i = 0; i < w->panel_count; i++) {
        prefill_panel *p = w->panels + i;
        for (size_t lane = 0; lane < p->row_count; lane++)
            if (row_has_beta(&p->stats[lane]))
                set_beta(p, lane, beta_of_lane(w, p, lane));
        if (w->maps)
            solve_maps(w, i);
        for (size_t lane = 0; lane < w->lanes; lane++)
            start_sums(w, p, lane);
    }
}
