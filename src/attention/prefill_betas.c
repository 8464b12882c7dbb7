/*
 * Between the passes of prefill: from a row's maximum and sums to its statistics,
 * and from them to its beta, by Newton's steps for `target`, or to the threshold
 * of its map.
 */
#include "attention/prefill.h"

/* Whether the lane's sink has a share in its exponentials. */
static bool sink_counts(const prefill_work *w, const prefill_panel *p, size_t lane) {
    const panel_maps *maps = maps_of(w, p);
    double lowest = maps ? (double)maps->lanes.lowest[lane] : -(double)INFINITY;
    return is_sink(p->sink[lane]) && !(p->sink[lane] < lowest);
}

/* z, s and q of the sink alone (and of the logit 0 of softmax1) at the lane's c. */
static void start_sums(const prefill_work *w, prefill_panel *p, size_t lane) {
    if (way_of_lane(w, p, lane) != WAY_EXP) {
        p->z[lane] = whet_maps_sink_share(maps_of(w, p), lane);
        p->s[lane] = p->q[lane] = 0;
        return;
    }
    double sink = sink_counts(w, p, lane) ? p->sink[lane] : -(double)INFINITY;
    row_sums sums =
        extra_sums(weigh_extra_logit(sink, (double)p->max[lane], (double)p->exp2_scale[lane]));
    p->z[lane] = sums.z;
    p->s[lane] = sums.s;
    p->q[lane] = sums.q;
    if (lane < p->rows && policy_has_zero_logit(p->row[lane].policy))
        p->z[lane] += zero_logit_weight((double)p->max[lane]);
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
    if (!w->shape.fused && !w->shape.summed)
        p->z[lane] = p->max[lane] > -INFINITY ? 1 : 0; /* all that is asked of it */
    if (p->z[lane] == 0)
        return;
    stats->n = n;
    stats->max = (double)p->max[lane];
    stats->z = p->z[lane];
    stats->s = p->s[lane];
    whet_stats_complete(stats);
    stats->flags = n == 0 ? WHET_ROW_EMPTY : 0;
}

/* Starts the Newton steps of lanes with a target; true if any has to be driven. */
static bool start_targets(prefill_work *w) {
    bool any = false;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
            prefill_panel *p = w->panels + i;
            p->solver[lane].done = 1;
            if (!policy_has_target(p->row[lane].policy))
                continue;
            if (!row_has_beta(&p->stats[lane]))
                continue;
            whet_target_start(&p->solver[lane], p->row[lane].policy, &p->stats[lane]);
            any = any || !p->solver[lane].done;
        }
    return any;
}

static bool step_targets(prefill_work *w) {
    bool any = false;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
            prefill_panel *p = w->panels + i;
            if (p->solver[lane].done)
                continue;
            whet_target_step(&p->solver[lane], p->z[lane], p->s[lane], p->q[lane]);
            any = any || !p->solver[lane].done;
        }
    return any;
}

static void solve_targets(prefill_work *w) {
    for (bool more = start_targets(w); more; more = step_targets(w)) {
        for (size_t i = 0; i < w->panel_count; i++)
            for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
                prefill_panel *p = w->panels + i;
                if (!p->solver[lane].done)
                    p->exp2_scale[lane] = whet_beta_to_c(p->solver[lane].beta);
                start_sums(w, p, lane);
            }
        whet_prefill_moments_pass(w);
    }
}

static double beta_of_lane(prefill_panel *p, size_t lane) {
    const whet_policy *policy = p->row[lane].policy;
    whet_stats *stats = &p->stats[lane];
    if (!policy_has_target(policy))
        return whet_policy_beta(policy, stats);
    stats->flags |= p->solver[lane].flags;
    return whet_policy_weaken(policy, p->solver[lane].beta);
}

/* Thresholds of a panel's maps, in as many passes over its kept logits as they take. */
static void solve_maps(prefill_work *w, size_t index) {
    prefill_panel *p = w->panels + index;
    panel_maps *maps = w->maps + index;
    for (size_t lane = 0; lane < p->rows; lane++) {
        const query_row *row = &p->row[lane];
        if (!row_has_beta(&p->stats[lane]) || whet_policy_is_temperature(row->policy))
            continue;
        whet_maps_search(maps, lane, row->policy, &p->stats[lane]);
        if (policy_has_zero_logit(row->policy))
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
}

void whet_prefill_settle_betas(prefill_work *w) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
            prefill_panel *p = w->panels + i;
            const whet_policy *policy = p->row[lane].policy;
            complete_lane(w, p, lane);
            if (row_has_beta(&p->stats[lane]) && whet_policy_is_temperature(policy))
                whet_apply_beta(&p->stats[lane], whet_policy_beta(policy, &p->stats[lane]));
        }
}

void whet_prefill_choose_betas(prefill_work *w) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++)
            complete_lane(w, w->panels + i, lane);
    solve_targets(w);
    for (size_t i = 0; i < w->panel_count; i++) {
        prefill_panel *p = w->panels + i;
        for (size_t lane = 0; lane < p->rows; lane++) {
            whet_stats *stats = &p->stats[lane];
            if (!row_has_beta(stats) || !whet_policy_is_temperature(p->row[lane].policy))
                continue;
            double beta = beta_of_lane(p, lane);
            if (isnan(beta))
                *stats = whet_stats_not_finite(stats->n);
            else
                p->exp2_scale[lane] = whet_apply_beta(stats, beta);
        }
        if (w->maps)
            solve_maps(w, i);
        for (size_t lane = 0; lane < w->lanes; lane++)
            start_sums(w, p, lane);
    }
}
