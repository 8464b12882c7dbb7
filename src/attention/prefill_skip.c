/* The blocks of values that a panel of prefill leaves out: see skip.h. */
#include "attention/prefill.h"

/* The factor of a lane's weights; 0 for rows without a result, which need no values. */
static double factor_of(const prefill_work *w, const prefill_panel *p, size_t lane) {
    bool good =
        lane < p->row_count && !isnan(p->z[lane]) && !(p->stats[lane].flags & WHET_ROW_NOT_FINITE);
    return good ? lane_factor(w, p, lane) : 0;
}

void whet_prefill_choose_blocks(prefill_work *w, size_t index) {
    prefill_panel *p = w->panels + index;
    const skip_choice choice = {.skip = w->slice.attention->skip,
                                .blocks = skip_block_count(w->end_key - w->first_key),
                                .rows = w->lanes,
                                .weights = w->block_weights,
                                .stride = w->lanes,
                                .order = w->block_order,
                                .left_out = w->left_out + index * w->kept_blocks,
                                .row_weight = p->skipped};
    for (size_t lane = 0; lane < w->lanes; lane++) {
        double factor = factor_of(w, p, lane);
        for (size_t i = lane; i < choice.blocks * w->lanes; i += w->lanes)
            w->block_weights[i] = factor > 0 ? (float)(factor * (double)w->block_weights[i]) : 0;
    }
    whet_skip_choose(&choice);
}
