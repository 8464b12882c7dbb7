/* A row's policy in attention: see row_form.h. */
#include "attention/row_form.h"
#include "attention/mask.h"

bool whet_beta_is_known(const whet_attention *a, const whet_policy *policy) {
    return a->betas || !(whet_temperature_of(policy)->needs & ~(unsigned)NEEDS_POSITION);
}

double whet_known_beta(const kv_slice *slice, const query_row *row) {
    const whet_attention *a = slice->attention;
    if (a->betas)
        return whet_bound_beta((double)a->betas[whet_row_index(slice, row)]);
    return whet_policy_beta(row->policy, &(whet_stats){.position = row->token});
}

panel_form whet_panel_form(const whet_policy *policy) {
    const map_descriptor *map = whet_map_of(policy);
    return map->panel ? map->panel(policy) : PANEL_BY_ROW;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the view writes there */
row_view whet_row_form(const kv_slice *slice, const query_row *row, float *logits) {
    row_view view = {.kernels = slice->kernels,
                     .n = row->high - row->low,
                     .in = logits,
                     .out = logits,
                     .in_type = WHET_F32,
                     .out_type = WHET_F32,
                     .has_sink = row->sink != -INFINITY,
                     .sink = row->sink,
                     .has_beta = slice->attention->betas != NULL,
                     .position = row->token};
    if (view.has_beta)
        view.beta = whet_known_beta(slice, row);
    if (row->map->traits & MAP_BY_VISIBLE)
        view.visible = whet_count_visible(slice, row);
    return view;
}

void whet_report_exponentials(const map_descriptor *map, double max, double z, double s,
                              whet_stats *stats) {
    if (!(map->traits & MAP_ZERO_LOGIT)) {
        whet_stats_after(stats, z, s);
    } else if (row_has_beta(stats)) {
        stats->max_prob = exp(stats->beta * (stats->max - max)) / z;
        stats->entropy_after = (double)NAN;
    }
}
