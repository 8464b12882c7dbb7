/*
 * The second sweep of the backward pass: kept logits and gradients of weights become
 * weights and gradients of logits, in place, and are multiplied with keys (the
 * gradients of queries, summed over blocks) and with rows (those of keys and
 * values, summed over the task's sets).
 */
#include "attention/backward.h"
#include <string.h>

static void clear_queries(backward_work *w) {
    size_t count = round_up(w->a->head_dim, w->k->strip) * w->panel_count * w->lanes;
    memset(w->query_sums, 0, count * sizeof *w->query_sums);
    memset(w->query_totals, 0, count * sizeof *w->query_totals);
}

static void flush_queries(backward_work *w) {
    size_t columns = round_up(w->a->head_dim, w->k->strip) * w->panel_count;
    double unchanged[LANES_MAX];
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    w->k->add_to_totals(w->query_sums, columns, unchanged, w->query_totals);
}

/* Weights and gradients of logits in the lanes of temperatures; the others keep theirs. */
static void temperature_gradients(backward_work *w, const backward_panel *p, float *logits,
                                  float *weight_grads, size_t keys) {
    if (p->settled == p->row_count)
        return;
    if (p->settled > 0) {
        memcpy(w->spare_logits, logits, keys * w->lanes * sizeof(float));
        memcpy(w->spare_grads, weight_grads, keys * w->lanes * sizeof(float));
    }
    w->k->panel_gradients(logits, weight_grads, keys, &p->to_logits);
    for (size_t lane = 0; p->settled > 0 && lane < w->lanes; lane++)
        for (size_t i = lane; has_logit_grads(p, lane) && i < keys * w->lanes; i += w->lanes) {
            logits[i] = w->spare_logits[i];
            weight_grads[i] = w->spare_grads[i];
        }
}

/* Gradients of a tile's logits, summed over the rows of each head: that of the bias of keys. Rows
 * of the same head are heads_per_kv lanes apart. */
static void add_to_bias(const backward_work *w, const backward_panel *p, const float *logit_grads,
                        size_t start, size_t keys) {
    size_t heads = w->shape.heads_per_kv;
    for (size_t first = 0; first < heads && first < p->row_count; first++) {
        double *sums = w->bias_sums + p->row[first].head % heads * w->padded_keys + start;
        for (size_t j = 0; j < keys; j++) {
            double sum = 0;
            for (size_t lane = first; lane < p->row_count; lane += heads)
                sum += (double)logit_grads[j * w->lanes + lane];
            sums[j] += sum;
        }
    }
}

/* Weights and gradients of a tile, in place of logits and gradients of weights, down to q . k. */
static void tile_gradients(backward_work *w, size_t index, size_t start, size_t keys) {
    backward_panel *p = w->panels + index;
    size_t at = backward_tile(w, index, start);
    temperature_gradients(w, p, w->logits + at, w->weight_grads + at, keys);
    whet_backward_leave_out(w, index, start, keys, NULL, w->logits + at);
    if (w->gradients->alibi_slopes) {
        float position[LANES_MAX], sums[LANES_MAX];
        whet_tile_positions(p->row, p->row_count, w->lanes, start, position);
        w->k->panel_distances(w->weight_grads + at, keys, position, sums);
        add_lanes(p->distance, sums, w->lanes);
    }
    if (w->bias_sums) /* which is added behind the soft-cap */
        add_to_bias(w, p, w->weight_grads + at, start, keys);
    if (w->softcap_grads)
        w->k->panel_chain(w->weight_grads + at, w->softcap_grads + at, keys);
}

static void add_queries(backward_work *w, size_t index, size_t start, size_t keys) {
    size_t interleave = w->k->strip, columns = round_up(w->a->head_dim, interleave);
    float unchanged[LANES_MAX];
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    w->k->accumulate(w->key_columns, columns / interleave, BLOCK * interleave,
                     w->weight_grads + backward_tile(w, index, start), keys, unchanged,
                     w->query_sums + index * columns * w->lanes);
}

/* Zeros for the keys that a panel did not look at, up to `end` of the block. */
static void clear_rest(backward_work *w, size_t index, size_t start, size_t keys, size_t end) {
    size_t at = backward_tile(w, index, start) + keys * w->lanes;
    memset(w->logits + at, 0, (end - keys) * w->lanes * sizeof(float));
    memset(w->weight_grads + at, 0, (end - keys) * w->lanes * sizeof(float));
}

/* Panels [first, end) of a set, and the strips of outer_keys keys that any of them sees. */
typedef struct panel_range {
    size_t first, end, strips;
} panel_range;

/* Sums over the rows of panels, for the keys of a block. */
static void add_outer(const backward_work *w, panel_range range, size_t start, const float *tiles,
                      const float *rows, size_t dim, float *sums) {
    size_t columns = w->k->outer_columns, set_rows = w->shape.panels * w->lanes;
    for (size_t c = 0; c < dim; c += columns)
        w->k->outer(tiles + backward_tile(w, range.first, start), w->kept_keys * w->lanes,
                    range.end - range.first, range.strips,
                    rows + c * set_rows + range.first * w->lanes * columns,
                    sums + c * w->padded_keys + start * columns);
}

static void second_sweep_block(backward_work *w, size_t start) {
    panel_range range = {SIZE_MAX, 0, 0};
    size_t most = 0;
    for (size_t i = 0; i < w->panel_count; i++) {
        const backward_panel *p = w->panels + i;
        size_t keys = keys_in_block(p->low, p->high, start);
        if (keys == 0)
            continue;
        tile_gradients(w, i, start, keys);
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
    range.strips = (most + w->k->outer_keys - 1) / w->k->outer_keys;
    for (size_t i = range.first; i < range.end; i++) {
        const backward_panel *p = w->panels + i;
        clear_rest(w, i, start, keys_in_block(p->low, p->high, start),
                   range.strips * w->k->outer_keys);
    }
    if (w->gradients->v.data)
        add_outer(w, range, start, w->logits, w->grad_rows, w->a->value_dim, w->value_sums);
    if (w->gradients->k.data)
        add_outer(w, range, start, w->weight_grads, w->query_rows, w->a->head_dim, w->key_sums);
}

void whet_backward_second_sweep(backward_work *w) {
    size_t nonfinite[BLOCK];
    clear_queries(w);
    for (size_t start = w->first_key; start < w->end_key; start += BLOCK) {
        /* keys that are not finite count as zeros: a row that sees one is not finite either, or
         * has it capped, with derivative 0 */
        if (w->gradients->q.data)
            whet_pack_columns(&w->slice, &w->a->k, w->a->head_dim, start,
                              block_length(w->end_key, start), w->row_buffer, w->key_columns,
                              nonfinite);
        second_sweep_block(w, start);
        if ((start - w->first_key) / BLOCK % F32_BLOCKS == F32_BLOCKS - 1)
            flush_queries(w);
    }
    flush_queries(w);
}
