/*
 * The passes of prefill over keys and values. A block of them is packed into the kernels'
 * layout once for all panels of the task; a panel's logits of a block are a tile, kept
 * for later passes if they fit.
 */
#include "attention/max_logits.h"
#include "attention/prefill.h"
#include "base/sums.h"

/* ---- keys and values into layout ---- */

static void pack_keys(prefill_work *w, size_t start, size_t count) {
    const whet_attention *a = w->slice.attention;
    whet_pack_interleaved(&w->slice, &a->k, a->head_dim, start, count, NULL, w->row_buffer,
                          w->keys);
}

/* Values that are not finite are left out here and added by add_nonfinite_values. */
static void pack_values(prefill_work *w, size_t start, size_t count) {
    const whet_attention *a = w->slice.attention;
    w->nonfinite_count = whet_pack_columns(&w->slice, &a->v, a->value_dim, start, count,
                                           w->row_buffer, w->values, w->nonfinite);
}

static void add_nonfinite_values(prefill_work *w, size_t index, size_t start, const float *tile,
                                 size_t keys) {
    const whet_attention *a = w->slice.attention;
    float *out = w->outputs + index * w->value_strips * w->interleave * w->lanes;
    for (size_t i = 0; i < w->nonfinite_count && w->nonfinite[i] < keys; i++) {
        const float *weights = tile + w->nonfinite[i] * w->lanes;
        const float *row = whet_load_position(&w->slice, &a->v, start + w->nonfinite[i],
                                              a->value_dim, w->row_buffer);
        for (size_t lane = 0; lane < w->lanes; lane++)
            for (size_t c = 0; weights[lane] > 0 && c < a->value_dim; c++)
                out[c * w->lanes + lane] += weights[lane] * row[c];
    }
}

/* ---- tiles ---- */

/* The logits of a block for a panel, complete: [keys][lanes]. */
static void compute_tile(prefill_work *w, size_t index, size_t start, size_t keys, float *tile) {
    const prefill_panel *p = w->panels + index;
    const float *queries = w->queries + index * w->slice.attention->head_dim * w->lanes;
    whet_tile_logits(&w->slice, p->row, p->row_count, w->keys, queries, start, keys, tile, NULL,
                     &w->ahead);
}

/* What to subtract: the maximum, or 0 while nothing unmasked has been seen. */
static void safe_max(const prefill_work *w, const float *max, float *result) {
    for (size_t lane = 0; lane < w->lanes; lane++)
        result[lane] = max[lane] == -INFINITY ? 0 : max[lane];
}

/*
 * Rescales a panel's sums to the maximum that includes this tile, and returns in rescale
 * the factor of everything summed so far.
 */
static void raise_max(prefill_work *w, prefill_panel *p, const float *tile, size_t keys,
                      float *rescale) {
    float before[LANES_MAX];
    memcpy(before, p->max, sizeof before);
    w->shape.kernels->panel_max(tile, keys, p->max);
    for (size_t lane = 0; lane < w->lanes; lane++) {
        rescale[lane] = 1;
        if (!(p->max[lane] > before[lane]))
            continue;
        double shift = (double)before[lane] - (double)p->max[lane];
        /* the same rounded factor for all sums, so that it cancels in the end */
        rescale[lane] = p->z[lane] == 0 ? 0 : (float)exp2((double)p->exp2_scale[lane] * shift);
        double factor = (double)rescale[lane];
        p->totals_factor[lane] *= factor;
        p->first[lane] *= factor;
        if (p->z[lane] == 0)
            p->s[lane] = 0;
        else
            sums_shift(shift, factor, &p->z[lane], &p->s[lane], NULL);
    }
}

static void count_tile(prefill_work *w, prefill_panel *p, const float *tile, size_t keys) {
    float count[LANES_MAX];
    if (!w->shape.counted)
        return;
    w->shape.kernels->panel_count(tile, keys, count);
    add_lanes(p->n, count, w->lanes);
}

/* Merges a tile's extremes into those of the panel's rows. Tiles may come from the last to the
 * first, and the first of equals counts. */
static void find_extremes(prefill_work *w, prefill_panel *p, const float *tile, size_t start,
                          size_t keys) {
    panel_extremes found;
    if (!w->shape.extremes && !w->slice.row_maxima)
        return;
    w->shape.kernels->panel_extremes(tile, keys, &found);
    for (size_t lane = 0; lane < p->row_count; lane++) {
        uint64_t place = start + (size_t)found.place[lane];
        bool is_larger = found.most[lane] > p->most[lane];
        bool is_earlier = found.most[lane] == p->most[lane] && place < p->argmax[lane];
        if (found.most[lane] > -INFINITY && (is_larger || is_earlier))
            p->argmax[lane] = place;
        p->most[lane] = larger_or_nan(p->most[lane], found.most[lane]);
        p->least[lane] = fminf(p->least[lane], found.least[lane]);
    }
}

/* Weights of the lanes that take exponentials, and their sums. */
static void take_exponentials(prefill_work *w, prefill_panel *p, size_t keys, float *tile, float *z,
                              bool wants_s) {
    const kernels *k = w->shape.kernels;
    float max[LANES_MAX], s[LANES_MAX];
    safe_max(w, p->max, max);
    if (wants_s) {
        k->panel_weights_sums(tile, keys, max, p->exp2_scale, z, s);
        add_lanes(p->s, s, w->lanes);
    } else {
        k->panel_weights(tile, keys, max, p->exp2_scale, z);
    }
}

/* The same where some lanes have other maps: their logits are put aside if need be. */
static void take_maps(prefill_work *w, prefill_panel *p, size_t keys, float *tile, float *z,
                      bool wants_s) {
    panel_maps *maps = maps_of(w, p);
    const float *logits = tile;
    if (maps->used[PANEL_EXP] > 0) {
        if (maps->used[PANEL_EXP] < w->lanes) {
            memcpy(w->spare, tile, keys * w->lanes * sizeof(float));
            logits = w->spare;
        }
        if (maps->leaves_out)
            w->shape.kernels->map_keep(tile, keys, &maps->lanes);
        take_exponentials(w, p, keys, tile, z, wants_s);
    }
    whet_maps_weigh(maps, w->shape.kernels, logits, keys, tile, z, wants_s);
}

/* Weights from the logits of a tile, in their place, and their sums. */
static void weigh_tile(prefill_work *w, size_t index, size_t start, size_t keys, float *tile,
                       bool wants_s) {
    prefill_panel *p = w->panels + index;
    float z[LANES_MAX];
    if (w->maps)
        take_maps(w, p, keys, tile, z, wants_s);
    else
        take_exponentials(w, p, keys, tile, z, wants_s);
    add_lanes(p->z, z, w->lanes);
    bool has_first = wants_s && start == 0 && key_at(&w->slice.list, 0) == 0;
    for (size_t lane = 0; has_first && lane < w->lanes; lane++)
        p->first[lane] = (double)tile[lane];
}

/* What the weights of keys [from, to) of a block select of the values. */
static void add_values(prefill_work *w, size_t index, size_t from, size_t to, const float *tile,
                       const float *rescale) {
    float *out = w->outputs + index * w->value_strips * w->interleave * w->lanes;
    for (size_t g = 0; g < w->value_strips; g++) {
        w->shape.kernels->accumulate(w->values + (g * BLOCK + from) * w->interleave, 1,
                                     BLOCK * w->interleave, tile + from * w->lanes, to - from,
                                     rescale, out + g * w->interleave * w->lanes);
        whet_fetch_rows(&w->ahead);
    }
}

static void accumulate_tile(prefill_work *w, size_t index, size_t start, size_t keys, float *tile,
                            const float *rescale, bool wants_s) {
    weigh_tile(w, index, start, keys, tile, wants_s);
    add_values(w, index, 0, keys, tile, rescale);
    if (w->nonfinite_count)
        add_nonfinite_values(w, index, start, tile, keys);
}

static void clear_outputs(prefill_work *w) {
    size_t count = w->panel_count * w->value_strips * w->interleave * w->lanes;
    memset(w->outputs, 0, count * sizeof *w->outputs);
    memset(w->totals, 0, count * sizeof *w->totals);
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->lanes; lane++)
            w->panels[i].totals_factor[lane] = 1;
}

/* One long chain of f32 sums would lose what equal weights over many keys have in common. */
static void flush_outputs(prefill_work *w) {
    size_t columns = w->value_strips * w->interleave;
    for (size_t i = 0; i < w->panel_count; i++) {
        prefill_panel *p = w->panels + i;
        w->shape.kernels->add_to_totals(w->outputs + i * columns * w->lanes, columns,
                                        p->totals_factor, w->totals + i * columns * w->lanes);
        for (size_t lane = 0; lane < w->lanes; lane++)
            p->totals_factor[lane] = 1;
    }
}

/* ---- passes ---- */

static size_t block_count(const prefill_work *w) {
    return (w->end_key - w->first_key + BLOCK - 1) / BLOCK;
}

/* The first key of the block that comes i-th where outputs are summed. */
static size_t block_start(const prefill_work *w, size_t i) {
    return w->first_key + (w->shape.backwards ? block_count(w) - 1 - i : i) * BLOCK;
}

/* Whether the i-th block is the last of those summed in f32. They are counted from key 0, so that
 * it does not matter where a task begins. */
static bool ends_f32_sums(const prefill_work *w, size_t i) {
    size_t last = w->shape.backwards ? 0 : F32_BLOCKS - 1;
    return block_start(w, i) / BLOCK % F32_BLOCKS == last || i + 1 == block_count(w);
}

/* Prepares to fetch the keys, the values or both of block `block`, if there is one. */
static void fetch_block(prefill_work *w, size_t block, bool keys, bool values) {
    const whet_attention *a = w->slice.attention;
    size_t start = 0, end = 0;
    if (block < block_count(w)) {
        start = block_start(w, block);
        end = start + block_length(w->end_key, start);
    }
    w->ahead = whet_rows_ahead(&w->slice, keys ? &a->k : NULL, values ? &a->v : NULL, start, end,
                               w->panel_count);
}

/* Packs the keys, the values or both of block `block`, and prepares to fetch the next one. */
static void pack_block(prefill_work *w, size_t block, bool keys, bool values) {
    size_t start = block_start(w, block);
    if (keys)
        pack_keys(w, start, block_length(w->end_key, start));
    if (values)
        pack_values(w, start, block_length(w->end_key, start));
    fetch_block(w, block + 1, keys, values);
}

void whet_prefill_fused_pass(prefill_work *w) {
    bool wants_stats = w->slice.attention->stats != NULL;
    clear_outputs(w);
    for (size_t block = 0; block < block_count(w); block++) {
        size_t start = block_start(w, block);
        pack_block(w, block, true, true);
        for (size_t i = 0; i < w->panel_count; i++) {
            prefill_panel *p = w->panels + i;
            size_t keys = keys_in_block(p->low, p->high, start);
            if (keys == 0)
                continue;
            float rescale[LANES_MAX];
            compute_tile(w, i, start, keys, w->tiles);
            count_tile(w, p, w->tiles, keys);
            find_extremes(w, p, w->tiles, start, keys);
            raise_max(w, p, w->tiles, keys, rescale);
            accumulate_tile(w, i, start, keys, w->tiles, rescale, wants_stats);
        }
        if (ends_f32_sums(w, block))
            flush_outputs(w);
    }
}

void whet_prefill_stats_pass(prefill_work *w) {
    for (size_t block = 0; block < block_count(w); block++) {
        size_t start = block_start(w, block);
        pack_block(w, block, true, false);
        for (size_t i = 0; i < w->panel_count; i++) {
            prefill_panel *p = w->panels + i;
            size_t keys = keys_in_block(p->low, p->high, start);
            if (keys == 0)
                continue;
            float rescale[LANES_MAX], max[LANES_MAX], z[LANES_MAX], s[LANES_MAX];
            float *tile = prefill_tile(w, i, start);
            compute_tile(w, i, start, keys, tile);
            count_tile(w, p, tile, keys);
            find_extremes(w, p, tile, start, keys);
            raise_max(w, p, tile, keys, rescale);
            if (!w->shape.summed)
                continue;
            safe_max(w, p->max, max);
            w->shape.kernels->panel_sums(tile, keys, max, p->exp2_scale, z, s);
            add_lanes(p->z, z, w->lanes);
            add_lanes(p->s, s, w->lanes);
        }
    }
}

/* The logits of a block for a panel in a later pass: those kept, or computed again. */
static float *tile_again(prefill_work *w, size_t index, size_t start, size_t keys) {
    float *tile = prefill_tile(w, index, start);
    if (!w->shape.kept)
        compute_tile(w, index, start, keys, tile);
    return tile;
}

/* ---- values that are left out ---- */

/* Keys of a tile that are left out together: where all weights are zero, as many as a kernel sums
 * up before it adds them to the output, so that nothing is rounded in another way. */
#define ZERO_KEYS 96

/* Numbers whose bits are tested together. */
#define ZERO_RUN 16

/* -0 is zero, NaN is not. */
static bool has_weights(const float *weights, size_t n) {
    size_t i = 0;
    for (; i + ZERO_RUN <= n; i += ZERO_RUN) {
        uint32_t bits[ZERO_RUN], any = 0;
        memcpy(bits, weights + i, sizeof bits);
        for (size_t j = 0; j < ZERO_RUN; j++)
            any |= bits[j];
        if (any & 0x7fffffff)
            return true;
    }
    for (; i < n; i++)
        if (weights[i] != 0)
            return true;
    return false;
}

/* Whether keys [from, to) of the block at `start` count for a panel. */
static bool is_live(const prefill_work *w, size_t index, size_t start, size_t from, size_t to,
                    const float *tile) {
    if (w->slice.attention->skip > 0)
        return !w->left_out[index * w->kept_blocks + (start - w->first_key + from) / SKIP_KEYS];
    return !w->maps || has_weights(tile + from * w->lanes, (to - from) * w->lanes);
}

/* Whether any panel needs values of the block at `start`, as far as that is known beforehand. */
static bool needs_values(const prefill_work *w, size_t start) {
    bool needed = !(w->slice.attention->skip > 0);
    for (size_t i = 0; !needed && i < w->panel_count; i++) {
        size_t keys = keys_in_block(w->panels[i].low, w->panels[i].high, start);
        for (size_t from = 0; !needed && from < keys; from += SKIP_KEYS)
            needed = is_live(w, i, start, from, from, NULL);
    }
    return needed;
}

/* Values that are not finite count for no lane that leaves them out. */
static void clear_weights(const prefill_work *w, size_t from, size_t to, float *tile) {
    if (w->nonfinite_count)
        memset(tile + from * w->lanes, 0, (to - from) * w->lanes * sizeof(float));
}

/* Adds the values of a block, except those that are left out. */
static void add_live_values(prefill_work *w, size_t index, size_t start, size_t keys, float *tile,
                            const float *rescale) {
    size_t unit = w->slice.attention->skip > 0 ? SKIP_KEYS : ZERO_KEYS, from = 0;
    for (size_t at = 0, end; at < keys; at = end) {
        end = keys - at < unit ? keys : at + unit;
        if (is_live(w, index, start, at, end, tile))
            continue;
        if (from < at)
            add_values(w, index, from, at, tile, rescale);
        clear_weights(w, at, end, tile);
        from = end;
    }
    if (from < keys)
        add_values(w, index, from, keys, tile, rescale);
    if (w->nonfinite_count)
        add_nonfinite_values(w, index, start, tile, keys);
}

/* Adds the values of block `block` for all panels. Where a map leaves most weights at zero, values
 * are not packed before some panel has a weight for them. */
static void add_block(prefill_work *w, size_t block, bool values) {
    const whet_attention *a = w->slice.attention;
    float unchanged[LANES_MAX];
    size_t start = block_start(w, block);
    bool is_weighed = a->skip > 0, waits = w->maps && w->shape.searched && !is_weighed;
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    pack_block(w, block, !w->shape.kept, values && !waits);
    for (size_t i = 0; values && i < w->panel_count; i++) {
        size_t keys = keys_in_block(w->panels[i].low, w->panels[i].high, start);
        if (keys == 0)
            continue;
        float *tile = tile_again(w, i, start, keys);
        if (!is_weighed)
            weigh_tile(w, i, start, keys, tile, a->stats != NULL);
        if (waits && has_weights(tile, keys * w->lanes)) {
            pack_values(w, start, block_length(w->end_key, start));
            waits = false;
        }
        if (!waits)
            add_live_values(w, i, start, keys, tile, unchanged);
    }
}

void whet_prefill_output_pass(prefill_work *w) {
    clear_outputs(w);
    for (size_t block = 0; block < block_count(w); block++) {
        add_block(w, block, needs_values(w, block_start(w, block)));
        if (ends_f32_sums(w, block))
            flush_outputs(w);
    }
}

/* Adds up a tile's weights, block by block. */
static void sum_blocks(prefill_work *w, size_t start, size_t keys, const float *tile) {
    for (size_t from = 0; from < keys; from += SKIP_KEYS) {
        float *sums = w->block_weights + (start - w->first_key + from) / SKIP_KEYS * w->lanes;
        memset(sums, 0, w->lanes * sizeof(float));
        for (size_t j = from; j < keys && j < from + SKIP_KEYS; j++)
            for (size_t lane = 0; lane < w->lanes; lane++)
                sums[lane] += tile[j * w->lanes + lane];
    }
}

void whet_prefill_weigh_pass(prefill_work *w) {
    bool wants_stats = w->slice.attention->stats != NULL;
    for (size_t i = 0; i < w->panel_count; i++) {
        const prefill_panel *p = w->panels + i;
        memset(w->block_weights, 0, w->kept_blocks * w->lanes * sizeof(float));
        for (size_t block = 0; block < block_count(w); block++) {
            size_t start = block_start(w, block), keys = keys_in_block(p->low, p->high, start);
            if (keys == 0)
                continue;
            float *tile = prefill_tile(w, i, start);
            weigh_tile(w, i, start, keys, tile, wants_stats);
            sum_blocks(w, start, keys, tile);
        }
        whet_prefill_choose_blocks(w, i);
    }
}

void whet_prefill_moments_pass(prefill_work *w) {
    for (size_t block = 0; block < block_count(w); block++) {
        size_t start = block_start(w, block);
        pack_block(w, block, !w->shape.kept, false);
        for (size_t i = 0; i < w->panel_count; i++) {
            prefill_panel *p = w->panels + i;
            size_t keys = keys_in_block(p->low, p->high, start);
            if (keys == 0)
                continue;
            float max[LANES_MAX], z[LANES_MAX], s[LANES_MAX], q[LANES_MAX];
            safe_max(w, p->max, max);
            w->shape.kernels->panel_moments(tile_again(w, i, start, keys), keys, max, p->exp2_scale,
                                            z, s, q);
            add_lanes(p->z, z, w->lanes);
            add_lanes(p->s, s, w->lanes);
            add_lanes(p->q, q, w->lanes);
        }
    }
}
