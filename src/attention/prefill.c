/*
 * Attention over many queries. A task takes a few panels of query rows (see
 * isa/panels.inc) through all their keys, a block of keys at a time: keys and
 * values are brought into the layout of the kernels once for all panels of the
 * task. How many passes that takes depends on the policies:
 *
 * fused       Beta is known in advance: one pass with a running maximum, the
 *             output rescaled whenever that grows. softmax1, sigmoid and
 *             stick-breaking also take one pass.
 * otherwise   A first pass over the keys gives each row's maximum, Z and S,
 *             and with them beta; a second one weights and values. The logits
 *             of the first pass are kept for the second where a task's share
 *             of them fits KEPT_BYTES, else they are computed again. `target`
 *             adds passes between the two, one for each of its Newton steps; so do
 *             the maps that look for a threshold (panel_maps.h), whose logits
 *             are always kept.
 *
 * skip      Weights of all blocks are made from the kept logits, in their place,
 *             before the pass over the values, which then leaves some out
 *             (prefill_skip.c).
 *
 * Stick-breaking goes from the last key to the first, and then so does the whole
 * task: for all other policies the order does not matter.
 */
#include "attention/max_logits.h"
#include "attention/prefill.h"

static void report_skip(const prefill_work *w, size_t index, size_t lane, whet_stats *stats) {
    const prefill_panel *p = w->panels + index;
    const query_row *row = &p->row[lane];
    bool bad = stats->flags & WHET_ROW_NOT_FINITE;
    stats->skipped_weight = bad ? (double)NAN : p->skipped[lane];
    stats->skipped_share =
        whet_skip_share(w->left_out + index * w->kept_blocks, w->first_key, row->low, row->high);
}

static void finish_lane(prefill_work *w, size_t index, size_t lane) {
    const whet_attention *a = w->slice.attention;
    prefill_panel *p = w->panels + index;
    whet_stats *stats = &p->stats[lane];
    const double *total = w->totals + index * w->value_strips * w->interleave * w->lanes + lane;
    panel_form form = form_of_lane(w, p, lane);
    double z = p->z[lane];
    if (isnan(z))
        *stats = whet_stats_not_finite(stats->n);
    bool good = !(stats->flags & WHET_ROW_NOT_FINITE);
    if (good && z > 0 && form_is_exponential(form))
        whet_report_exponentials(p->row[lane].map, (double)p->max[lane], z, p->s[lane], stats);
    if (row_has_beta(stats) && !form_is_exponential(form))
        whet_maps_report(maps_of(w, p), lane, z, stats);
    double factor = lane_factor(w, p, lane);
    if (row_has_beta(stats))
        stats->sink_share = p->first[lane] * factor;
    stats->position = p->row[lane].token;
    if (w->slice.attention->skip > 0)
        report_skip(w, index, lane, stats);
    for (size_t c = 0; c < a->value_dim; c++)
        w->row_buffer[c] = good ? (float)(total[c * w->lanes] * factor) : NAN;
    whet_store_output(&w->slice, &p->row[lane], w->row_buffer);
    if (w->slice.row_maxima)
        whet_note_max_logit(&w->slice, &p->row[lane], p->most[lane]);
    whet_stats *wanted = whet_row_stats(&w->slice, &p->row[lane]);
    if (wanted)
        *wanted = *stats;
}

static whet_status finish_work(prefill_work *w, uint64_t *first_bad_row) {
    whet_status status = WHET_OK;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].row_count; lane++) {
            prefill_panel *p = w->panels + i;
            finish_lane(w, i, lane);
            if (p->stats[lane].flags & WHET_ROW_NOT_FINITE)
                status = whet_note_bad_row(&w->slice, &p->row[lane], status, first_bad_row);
        }
    return status;
}

whet_status whet_run_prefill_task(const whet_plan *plan, size_t task, void *scratch,
                                  uint64_t *first_bad_row) {
    prefill_work w;
    whet_prefill_start(&w, plan, task, scratch);
    if (w.shape.fused) {
        whet_prefill_fused_pass(&w);
        whet_prefill_settle_betas(&w);
    } else {
        whet_prefill_stats_pass(&w);
        whet_prefill_choose_betas(&w);
        if (plan->description.attention.skip > 0)
            whet_prefill_weigh_pass(&w);
        whet_prefill_output_pass(&w);
    }
    return finish_work(&w, first_bad_row);
}
