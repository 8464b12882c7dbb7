/*
 * The second sweep of the way back: kept logits and gradients of weights become
 * weights and gradients of logits, in place, and are multiplied with keys (the
 * gradients of queries, summed over blocks) and with rows (those of keys and
 * values, summed over the task's sets).
 */
#include "attention/backward.h"
#include <string.h>

#define FOLD_BLOCKS 8 /* blocks of dL/dq summed in f32 before they join the totals in double */

static void clear_queries(back_work *w) {
    size_t count = round_up(w->a->head_dim, w->k->group) * w->panel_count * w->lanes;
    memset(w->query_sums, 0, count * sizeof *w->query_sums);
    memset(w->query_totals, 0, count * sizeof *w->query_totals);
}

static void fold_queries(back_work *w) {
    size_t columns = round_up(w->a->head_dim, w->k->group) * w->panel_count;
    double unchanged[LANES_MAX];
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    w->k->fold(w->query_sums, columns, unchanged, w->query_totals);
}

/* Weights and slopes of a tile by temperatures; lanes that are turned already keep theirs. */
static void turn_temperatures(back_work *w, const back_panel *p, float *logits, float *slopes,
                              size_t keys) {
    if (p->maps == p->rows)
        return;
    if (p->maps > 0) {
        memcpy(w->spare_logits, logits, keys * w->lanes * sizeof(float));
        memcpy(w->spare_slopes, slopes, keys * w->lanes * sizeof(float));
    }
    w->k->panel_gradients(logits, slopes, keys, &p->by);
    for (size_t lane = 0; p->maps > 0 && lane < w->lanes; lane++)
        for (size_t i = lane; is_turned(p, lane) && i < keys * w->lanes; i += w->lanes) {
            logits[i] = w->spare_logits[i];
            slopes[i] = w->spare_slopes[i];
        }
}

/* Weights and slopes of a tile, in place of logits and gradients, down to the products q . k. */
static void turn_tile(back_work *w, size_t index, size_t start, size_t keys) {
    back_panel *p = w->panels + index;
    size_t at = backward_tile(w, index, start);
    turn_temperatures(w, p, w->logits + at, w->slopes + at, keys);
    if (w->gradients->alibi_slopes) {
        float position[LANES_MAX], sums[LANES_MAX];
        whet_tile_positions(p->row, p->rows, w->lanes, start, position);
        w->k->panel_distances(w->slopes + at, keys, position, sums);
        add_lanes(p->distance, sums, w->lanes);
    }
    if (w->capped)
        w->k->panel_chain(w->slopes + at, w->capped + at, keys);
}

static void add_queries(back_work *w, size_t index, size_t start, size_t keys) {
    size_t group = w->k->group, columns = round_up(w->a->head_dim, group);
    float unchanged[LANES_MAX];
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    w->k->accumulate(w->key_columns, columns / group, BLOCK * group,
                     w->slopes + backward_tile(w, index, start), keys, unchanged,
                     w->query_sums + index * columns * w->lanes);
}

/* Zeros for the keys that a panel did not look at, up to `end` of the block. */
static void clear_rest(back_work *w, size_t index, size_t start, size_t keys, size_t end) {
    size_t at = backward_tile(w, index, start) + keys * w->lanes;
    memset(w->logits + at, 0, (end - keys) * w->lanes * sizeof(float));
    memset(w->slopes + at, 0, (end - keys) * w->lanes * sizeof(float));
}

/* Panels [first, end) of a set, and the groups of keys that any of them sees. */
typedef struct panel_range {
    size_t first, end, groups;
} panel_range;

/* Sums over the rows of panels, for the keys of a block. */
static void add_outer(const back_work *w, panel_range range, size_t start, const float *tiles,
                      const float *rows, size_t dim, float *sums) {
    size_t columns = w->k->outer_columns, set_rows = w->shape.panels * w->lanes;
    for (size_t c = 0; c < dim; c += columns)
        w->k->outer(tiles + backward_tile(w, range.first, start), w->kept_keys * w->lanes,
                    range.end - range.first, range.groups,
                    rows + c * set_rows + range.first * w->lanes * columns,
                    sums + c * w->padded_keys + start * columns);
}

static void second_sweep_block(back_work *w, size_t start) {
    panel_range range = {SIZE_MAX, 0, 0};
    size_t most = 0;
    for (size_t i = 0; i < w->panel_count; i++) {
        const back_panel *p = w->panels + i;
        size_t keys = keys_in_block(p->low, p->high, start);
        if (keys == 0)
            continue;
        turn_tile(w, i, start, keys);
        if (w->gradients->q.data)
            add_queries(w, i, start, keys);
        if (range.first == SIZE_MAX)
            range.first = i;
        range.end = i + 1;
        if (keys > most)
            most = keys;
    }
    if (most == 0)
        return;
    range.groups = (most + w->k->outer_keys - 1) / w->k->outer_keys;
    for (size_t i = range.first; i < range.end; i++) {
        const back_panel *p = w->panels + i;
        clear_rest(w, i, start, keys_in_block(p->low, p->high, start),
                   range.groups * w->k->outer_keys);
    }
    if (w->gradients->v.data)
        add_outer(w, range, start, w->logits, w->grad_rows, w->a->value_dim, w->value_sums);
    if (w->gradients->k.data)
        add_outer(w, range, start, w->slopes, w->query_rows, w->a->head_dim, w->key_sums);
}

void whet_backward_second_sweep(back_work *w) {
    size_t odd[BLOCK];
    clear_queries(w);
    for (size_t start = w->first_key; start < w->end_key; start += BLOCK) {
        /* keys that are not finite count as zeros: a row that sees one is not finite either, or
         * has it capped, with slope 0 */
        if (w->gradients->q.data)
            whet_pack_columns(&w->stream, &w->a->k, w->a->head_dim, start,
                              block_length(w->end_key, start), w->rows, w->key_columns, odd);
        second_sweep_block(w, start);
        if ((start - w->first_key) / BLOCK % FOLD_BLOCKS == FOLD_BLOCKS - 1)
            fold_queries(w);
    }
    fold_queries(w);
}
