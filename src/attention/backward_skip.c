/*
 * The blocks of values that the forward pass left out, chosen again from the same weights: by
 * panel or, where the forward pass was decode, by key head (see skip.h). The output does not
 * depend on their values: these get no gradient, and the gradient of their weights is zero.
 */
#include "attention/backward.h"
#include "attention/lane_row.h"
#include "row/map_row.h"
#include <math.h>
#include <string.h>

static size_t rows_of_set(const backward_work *w) { return w->shape.panels * w->lanes; }

/* The weights of a panel's lanes in the block of keys at `start`, of which it sees `keys`. */
static float *block_weights(const backward_work *w, size_t index, size_t start) {
    return w->block_weights + (start - w->first_key) / SKIP_KEYS * rows_of_set(w) +
           index * w->lanes;
}

/* Sums of exponentials, for all lanes; returns them over all blocks in z. */
static void weigh_exponentials(backward_work *w, size_t index, double *z) {
    const backward_panel *p = w->panels + index;
    float max[LANES_MAX], s[LANES_MAX], scale[LANES_MAX];
    for (size_t lane = 0; lane < w->lanes; lane++) {
        bool has_max = lane < p->row_count && isfinite(p->stats[lane].max);
        max[lane] = has_max ? (float)p->stats[lane].max : 0;
        scale[lane] = p->to_logits.exp2_scale[lane];
        z[lane] = 0;
    }
    for (size_t start = w->first_key; start < w->end_key; start += SKIP_KEYS) {
        size_t block = start - start % BLOCK, keys = keys_in_block(p->low, p->high, block);
        float *weights = block_weights(w, index, start);
        memset(weights, 0, w->lanes * sizeof(float));
        if (block + keys <= start)
            continue;
        size_t n = block + keys - start < SKIP_KEYS ? block + keys - start : SKIP_KEYS;
        w->k->panel_sums(w->logits + backward_tile(w, index, start), n, max, scale, weights, s);
        add_lanes(z, weights, w->lanes);
    }
    for (size_t lane = 0; lane < w->lanes && lane < p->row_count; lane++)
        z[lane] +=
            weigh_extra_logit((double)p->row[lane].sink, (double)max[lane], (double)scale[lane])
                .weight;
}

/* The same for a lane with a map, whose coefficients need no z. */
static void weigh_mapped(backward_work *w, size_t index, size_t lane) {
    const backward_panel *p = w->panels + index;
    const query_row *row = &p->row[lane];
    size_t first = p->low - p->low % BLOCK;
    const lane_row logits = {.row = row,
                             .entries = w->logits + backward_tile(w, index, first) + lane,
                             .stride = w->lanes,
                             .first = first,
                             .end = p->high};
    whet_stats stats = p->stats[lane];
    row_job job = whet_row_plan(row->policy, true);
    row_view view = whet_row_form(&w->slice, row, w->row_logits);
    for (size_t start = w->first_key; start < w->end_key; start += SKIP_KEYS)
        block_weights(w, index, start)[lane] = 0;
    whet_lane_take(&logits, w->row_logits);
    whet_map_row(&view, &job, &stats);
    for (size_t j = row->low; j < row->high; j++)
        block_weights(w, index, j - j % SKIP_KEYS)[lane] += w->row_logits[j - row->low];
}

static void weigh_panel(backward_work *w, size_t index) {
    const backward_panel *p = w->panels + index;
    double z[LANES_MAX] = {0};
    if (p->low >= p->high) {
        for (size_t start = w->first_key; start < w->end_key; start += SKIP_KEYS)
            memset(block_weights(w, index, start), 0, w->lanes * sizeof(float));
        return;
    }
    weigh_exponentials(w, index, z);
    for (size_t lane = 0; lane < w->lanes; lane++) {
        bool good = !is_empty(p, lane) && !p->bad[lane];
        double factor = good && z[lane] > 0 ? 1 / z[lane] : 0;
        if (good && p->form[lane] == PANEL_BY_ROW) {
            weigh_mapped(w, index, lane);
            continue;
        }
        for (size_t start = w->first_key; start < w->end_key; start += SKIP_KEYS) {
            float *weight = block_weights(w, index, start) + lane;
            *weight = factor > 0 ? (float)(factor * (double)*weight) : 0;
        }
    }
}

/* Chooses for `count` panels together. */
static void choose(backward_work *w, size_t first, size_t count) {
    size_t blocks = skip_block_count(w->end_key - w->first_key);
    bool *left_out = w->left_out + first * w->kept_keys / SKIP_KEYS;
    const skip_choice choice = {.skip = w->a->skip,
                                .blocks = blocks,
                                .rows = count * w->lanes,
                                .weights = w->block_weights + first * w->lanes,
                                .stride = rows_of_set(w),
                                .order = w->block_order,
                                .left_out = left_out,
                                .row_weight = w->row_weights};
    whet_skip_choose(&choice);
    for (size_t i = 1; i < count; i++)
        memcpy(left_out + i * w->kept_keys / SKIP_KEYS, left_out, blocks * sizeof *left_out);
}

void whet_backward_choose_blocks(backward_work *w) {
    bool is_decode = whet_is_decode(w->a, &w->shape);
    for (size_t i = 0; i < w->panel_count; i++)
        weigh_panel(w, i);
    for (size_t i = 0; i < w->panel_count && !is_decode; i++)
        choose(w, i, 1);
    if (is_decode && w->panel_count > 0)
        choose(w, 0, w->panel_count);
}

/* Whether a panel leaves out the keys of the block from `start` on. */
static bool is_left_out(const backward_work *w, size_t index, size_t start) {
    return w->left_out[(index * w->kept_keys + start - w->first_key) / SKIP_KEYS];
}

bool whet_backward_needs_values(const backward_work *w, size_t index, size_t start, size_t keys) {
    bool needed = !(w->a->skip > 0);
    for (size_t from = 0; !needed && from < keys; from += SKIP_KEYS)
        needed = !is_left_out(w, index, start + from);
    return needed;
}

void whet_backward_leave_out(const backward_work *w, size_t index, size_t start, size_t keys,
                             const double *values, float *tile) {
    for (size_t j = 0; w->a->skip > 0 && j < keys; j++)
        for (size_t lane = 0; is_left_out(w, index, start + j) && lane < w->lanes; lane++)
            tile[j * w->lanes + lane] = values ? (float)-values[lane] : 0;
}
