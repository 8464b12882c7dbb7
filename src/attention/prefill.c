/*
 * Attention over many queries. A task takes a few panels of query rows (see
 * isa/panels.inc) through all their keys, a block of keys at a time: keys and
 * values are brought into the layout of the kernels once for all panels of the
 * task. How many passes that takes depends on the policies:
 *
 * fused       Beta is known beforehand: one pass with a running maximum, the
 *             output rescaled whenever that grows. softmax1, sigmoid and
 *             stick-breaking take one pass, too.
 * otherwise   A first pass over the keys gives each row's maximum, Z and S,
 *             and with them beta; a second one weights and values. The logits
 *             of the first pass are kept for the second where a task's share
 *             of them fits KEPT_BYTES, else they are computed again. `target`
 *             adds passes between the two, one for each of its Newton steps; so do
 *             the maps that look for a threshold (panel_maps.h), whose logits
 *             are always kept.
 *
 * Stick-breaking goes from the last key to the first, and so does then the whole
 * task: to all others the order is the same.
 */
#include "attention/panel_maps.h"
#include "attention/tiles.h"
#include "base/checked.h"
#include <math.h>
#include <string.h>

#define ROWS_TO_TASK 384 /* what bringing keys into layout is spread over */
#define FOLD_BLOCKS 8    /* blocks summed in f32 before they join the totals in double */
#define KEPT_BYTES ((size_t)25 << 20)
#define KEPT_ROWS 48 /* with fewer to a task, layout costs more than computing logits twice */

/* What is known of the rows of one panel; the lane is always the last index. */
typedef struct panel {
    query_row row[LANES_MAX];
    size_t rows;      /* lanes in use */
    size_t low, high; /* the keys any of them sees */
    float max[LANES_MAX];
    float c[LANES_MAX];
    double z[LANES_MAX], s[LANES_MAX], q[LANES_MAX];
    double n[LANES_MAX];
    double fold[LANES_MAX]; /* what the totals have yet to be multiplied with */
    double sink[LANES_MAX]; /* -inf for none */
    whet_stats stats[LANES_MAX];
    target_solver solver[LANES_MAX];
} panel;

/* A task's scratch, cut into its parts. */
typedef struct work {
    key_stream stream;
    plan_shape shape;
    size_t lanes, group;
    size_t panel_count;
    size_t value_groups;
    size_t first_key; /* of the first block; kept logits start there */
    size_t end_key;
    size_t kept_keys; /* logits of a panel that there is room for */
    panel *panels;
    float *queries;    /* [panel][head_dim][lanes] */
    float *outputs;    /* [panel][value_groups * group][lanes], since the last fold */
    double *totals;    /* the same, of everything before */
    float *keys;       /* [BLOCK / group][head_dim][group] */
    float *values;     /* [value_groups][BLOCK][group] */
    panel_maps *maps;  /* of each panel; NULL where all policies are temperatures */
    float *spare;      /* logits of a tile while some lanes have their weights already */
    float *tiles;      /* [kept_keys][lanes] for each panel, or one of [BLOCK][lanes] */
    float *rows;       /* GROUP_MAX rows of HEAD_DIM_MAX, to convert in */
    size_t odd[BLOCK]; /* keys of the block whose values are not finite */
    size_t odd_count;
    rows_ahead ahead; /* keys and values of the next block */
} work;

/* ---- dividing the work ---- */

typedef struct layout {
    size_t panels, queries, outputs, totals, keys, values, tiles, rows, maps, spare, total;
} layout;

static bool lay_out(const whet_attention *a, const plan_shape *shape, layout *at) {
    size_t lanes = shape->kernels->lanes, panels = shape->panels;
    size_t columns = round_up(a->value_dim, shape->kernels->group);
    size_t tile_keys = shape->kept ? panels * round_up(a->keys, BLOCK) : BLOCK;
    at->total = 0;
    return whet_place(&at->total, &at->panels, panels, sizeof(panel)) &&
           whet_place(&at->total, &at->queries, panels * a->head_dim * lanes, sizeof(float)) &&
           whet_place(&at->total, &at->outputs, panels * columns * lanes, sizeof(float)) &&
           whet_place(&at->total, &at->totals, panels * columns * lanes, sizeof(double)) &&
           whet_place(&at->total, &at->keys, BLOCK * a->head_dim, sizeof(float)) &&
           whet_place(&at->total, &at->values, BLOCK * columns, sizeof(float)) &&
           whet_place(&at->total, &at->tiles, tile_keys * lanes, sizeof(float)) &&
           whet_place(&at->total, &at->rows, (size_t)GROUP_MAX * HEAD_DIM_MAX, sizeof(float)) &&
           whet_place(&at->total, &at->maps, shape->mapped ? panels : 0, sizeof(panel_maps)) &&
           whet_place(&at->total, &at->spare, shape->mapped ? BLOCK * lanes : 0, sizeof(float));
}

/* Panels whose logits fit KEPT_BYTES. */
static size_t panels_to_keep(const whet_attention *a, size_t lanes) {
    size_t bytes;
    if (!size_multiply(round_up(a->keys, BLOCK), lanes * sizeof(float), &bytes))
        return 0;
    return bytes > 0 ? KEPT_BYTES / bytes : SIZE_MAX;
}

bool whet_plan_prefill(whet_plan *plan, plan_shape *shape) {
    const whet_attention *a = &plan->description.attention;
    size_t lanes = shape->kernels->lanes;
    size_t panels = ROWS_TO_TASK / lanes;
    size_t needed = (shape->rows + lanes - 1) / lanes;
    /* few rows: smaller tasks, so that several threads have something to do */
    while (panels > 2 && shape->streams * needed < 8 * panels)
        panels--;
    shape->kept = 0;
    if (!shape->fused) {
        size_t fitting = panels_to_keep(a, lanes);
        size_t wanted = (KEPT_ROWS + lanes - 1) / lanes;
        shape->kept = shape->searched || fitting >= (panels < wanted ? panels : wanted);
        if (shape->kept && panels > fitting)
            panels = fitting;
    }
    if (panels == 0)
        panels = 1; /* what a map searches is kept, however much it is */
    shape->panels = panels;
    size_t tasks_to_stream = (needed + panels - 1) / panels;
    layout at;
    plan->phases = 1;
    plan->workspace_bytes = 0;
    if (!lay_out(a, shape, &at))
        return false;
    plan->scratch_bytes = at.total;
    return size_multiply(shape->streams, tasks_to_stream, &plan->tasks[0]);
}

/* ---- setting out ---- */

static panel_maps *maps_of(const work *w, const panel *p) {
    return w->maps ? w->maps + (p - w->panels) : NULL;
}

static map_way way_of_lane(const work *w, const panel *p, size_t lane) {
    const panel_maps *maps = maps_of(w, p);
    return maps ? maps->way[lane] : WAY_EXP;
}

/* softmax1 is softmax with one more logit of 0: it takes part in maximum and sum. */
static bool has_zero_logit(const query_row *row) {
    return row->policy && row->policy->kind == WHET_POLICY_SOFTMAX1;
}

static void start_map(const work *w, panel *p, size_t lane) {
    const query_row *row = &p->row[lane];
    bool by_count = row->policy->kind == WHET_POLICY_SIGMOID && isnan(row->policy->value[0]);
    whet_maps_set_lane(maps_of(w, p), lane, row->policy, (float)p->sink[lane],
                       by_count ? whet_count_visible(&w->stream, row) : 0);
    if (!w->shape.fused)
        return;
    if (has_zero_logit(row)) {
        float sink = p->max[lane];
        p->max[lane] = sink > 0 ? sink : 0;
        if (!isnan(sink))
            p->z[lane] = exp(-(double)p->max[lane]) + exp((double)sink - (double)p->max[lane]);
    }
    if (!whet_way_is_normalised(way_of_lane(w, p, lane))) {
        p->c[lane] = 0; /* a larger maximum changes nothing */
        p->z[lane] *= 0;
    }
}

static void start_lane(const work *w, panel *p, size_t lane, size_t r) {
    const whet_attention *a = w->stream.attention;
    query_row row = whet_row_of(&w->stream, r);
    p->row[lane] = row;
    p->stats[lane] = whet_stats_empty();
    if (row.low < p->low)
        p->low = row.low;
    if (row.high > p->high)
        p->high = row.high;
    p->sink[lane] = a->sinks ? (double)a->sinks[row.head] : -(double)INFINITY;
    p->max[lane] = a->sinks ? a->sinks[row.head] : -INFINITY;
    p->z[lane] = p->max[lane] == -INFINITY ? 0 : 1;
    if (isnan(p->max[lane]))
        p->z[lane] = (double)NAN;
    p->s[lane] = p->n[lane] = 0;
    p->c[lane] = w->shape.fused && whet_policy_is_temperature(row.policy)
                     ? whet_beta_to_c(whet_policy_beta(row.policy, &p->stats[lane]))
                     : whet_beta_to_c(1.0);
    if (w->maps)
        start_map(w, p, lane);
}

/* A lane without a row: zeros as a query, nothing to see, nothing stored. */
static void start_idle_lane(panel *p, size_t lane) {
    p->row[lane] = (query_row){.policy = NULL};
    p->max[lane] = 0;
    p->c[lane] = 1;
    p->z[lane] = 1;
    p->s[lane] = p->n[lane] = 0;
    p->sink[lane] = -(double)INFINITY;
}

static void start_panel(work *w, size_t index, size_t first_row) {
    const whet_attention *a = w->stream.attention;
    panel *p = w->panels + index;
    float *queries = w->queries + index * a->head_dim * w->lanes;
    size_t left = w->shape.rows - first_row;
    p->rows = left < w->lanes ? left : w->lanes;
    p->low = SIZE_MAX;
    p->high = 0;
    memset(queries, 0, a->head_dim * w->lanes * sizeof(float));
    if (w->maps)
        whet_maps_clear(w->maps + index, w->lanes);
    for (size_t lane = 0; lane < w->lanes; lane++) {
        if (lane >= p->rows) {
            start_idle_lane(p, lane);
            continue;
        }
        start_lane(w, p, lane, first_row + lane);
        whet_load_query(&w->stream, &p->row[lane], w->rows);
        whet_pack_lane(w->rows, a->head_dim, w->lanes, lane, queries);
    }
    if (p->low > p->high)
        p->low = p->high;
}

static void start_work(work *w, const whet_plan *plan, size_t task, void *scratch) {
    const whet_attention *a = &plan->description.attention;
    layout at;
    w->shape = whet_shape_of(plan);
    lay_out(a, &w->shape, &at);
    char *base = scratch;
    w->panels = (panel *)(void *)(base + at.panels);
    w->queries = (float *)(void *)(base + at.queries);
    w->outputs = (float *)(void *)(base + at.outputs);
    w->totals = (double *)(void *)(base + at.totals);
    w->keys = (float *)(void *)(base + at.keys);
    w->values = (float *)(void *)(base + at.values);
    w->tiles = (float *)(void *)(base + at.tiles);
    w->rows = (float *)(void *)(base + at.rows);
    w->maps = w->shape.mapped ? (panel_maps *)(void *)(base + at.maps) : NULL;
    w->spare = (float *)(void *)(base + at.spare);
    w->lanes = w->shape.kernels->lanes;
    w->group = w->shape.kernels->group;
    w->value_groups = round_up(a->value_dim, w->group) / w->group;
    w->kept_keys = round_up(a->keys, BLOCK);

    size_t tasks_to_stream = plan->tasks[0] / w->shape.streams;
    /* later queries see more keys under a causal mask: the long tasks come first */
    size_t part = tasks_to_stream - 1 - task % tasks_to_stream;
    w->stream = whet_stream_at(plan, &w->shape, task / tasks_to_stream);
    size_t first_row = part * w->shape.panels * w->lanes;
    size_t needed = (w->shape.rows - first_row + w->lanes - 1) / w->lanes;
    w->panel_count = needed < w->shape.panels ? needed : w->shape.panels;
    w->first_key = SIZE_MAX;
    w->end_key = 0;
    for (size_t i = 0; i < w->panel_count; i++) {
        start_panel(w, i, first_row + i * w->lanes);
        panel *p = w->panels + i;
        if (p->low < p->high && p->low < w->first_key)
            w->first_key = p->low;
        if (p->low < p->high && p->high > w->end_key)
            w->end_key = p->high;
    }
    if (w->first_key > w->end_key)
        w->first_key = w->end_key;
    w->first_key -= w->first_key % BLOCK;
}

/* ---- keys and values into layout ---- */

static void pack_keys(work *w, size_t start, size_t count) {
    const whet_attention *a = w->stream.attention;
    whet_pack_interleaved(&w->stream, &a->k, a->head_dim, start, count, NULL, w->rows, w->keys);
}

/* Values that are not finite are left out here and added by hand: see add_odd_values. */
static void pack_values(work *w, size_t start, size_t count) {
    const whet_attention *a = w->stream.attention;
    w->odd_count = whet_pack_columns(&w->stream, &a->v, a->value_dim, start, count, w->rows,
                                     w->values, w->odd);
}

static void add_odd_values(work *w, size_t start, const float *tile, size_t keys, float *out) {
    const whet_attention *a = w->stream.attention;
    for (size_t i = 0; i < w->odd_count && w->odd[i] < keys; i++) {
        const float *weights = tile + w->odd[i] * w->lanes;
        const float *row =
            whet_load_position(&w->stream, &a->v, start + w->odd[i], a->value_dim, w->rows);
        for (size_t lane = 0; lane < w->lanes; lane++)
            for (size_t c = 0; weights[lane] > 0 && c < a->value_dim; c++)
                out[c * w->lanes + lane] += weights[lane] * row[c];
    }
}

/* ---- tiles ---- */

/* The logits of a block for a panel, complete: [keys][lanes]. */
static void compute_tile(work *w, size_t index, size_t start, size_t keys, float *tile) {
    const panel *p = w->panels + index;
    const float *queries = w->queries + index * w->stream.attention->head_dim * w->lanes;
    whet_tile_logits(&w->stream, p->row, p->rows, w->keys, queries, start, keys, tile, NULL,
                     &w->ahead);
}

/* Keys of the block at `start` that a panel has to look at; 0: none. */
static size_t keys_in_block(const panel *p, size_t start) {
    if (p->high <= start || p->low >= start + BLOCK)
        return 0;
    return p->high - start < BLOCK ? p->high - start : BLOCK;
}

static float *tile_at(const work *w, size_t index, size_t start) {
    if (!w->shape.kept)
        return w->tiles;
    return w->tiles + (index * w->kept_keys + (start - w->first_key)) * w->lanes;
}

/* What to subtract: the maximum, or 0 while nothing unmasked has been seen. */
static void safe_max(const work *w, const float *max, float *result) {
    for (size_t lane = 0; lane < w->lanes; lane++)
        result[lane] = max[lane] == -INFINITY ? 0 : max[lane];
}

/*
 * Moves a panel's sums to the maximum that includes this tile, and returns in
 * rescale what everything summed so far has to be multiplied with.
 */
static void raise_max(work *w, panel *p, const float *tile, size_t keys, float *rescale) {
    float before[LANES_MAX];
    memcpy(before, p->max, sizeof before);
    w->shape.kernels->panel_max(tile, keys, p->max);
    for (size_t lane = 0; lane < w->lanes; lane++) {
        rescale[lane] = 1;
        if (!(p->max[lane] > before[lane]))
            continue;
        double shift = (double)before[lane] - (double)p->max[lane];
        /* the same rounded factor for all sums, so that it cancels in the end */
        rescale[lane] = p->z[lane] == 0 ? 0 : (float)exp2((double)p->c[lane] * shift);
        double factor = (double)rescale[lane];
        p->fold[lane] *= factor;
        p->s[lane] = p->z[lane] == 0 ? 0 : (p->s[lane] + shift * p->z[lane]) * factor;
        p->z[lane] *= factor;
    }
}

static void add_lanes(double *sums, const float *more, size_t lanes) {
    for (size_t lane = 0; lane < lanes; lane++)
        sums[lane] += (double)more[lane];
}

static void count_tile(work *w, panel *p, const float *tile, size_t keys) {
    float count[LANES_MAX];
    if (!w->shape.counted)
        return;
    w->shape.kernels->panel_count(tile, keys, count);
    add_lanes(p->n, count, w->lanes);
}

/* ---- passes ---- */

/* Weights of the lanes that take exponentials, and their sums. */
static void take_exponentials(work *w, panel *p, size_t keys, float *tile, float *z, bool wants_s) {
    const kernels *k = w->shape.kernels;
    float max[LANES_MAX], s[LANES_MAX];
    safe_max(w, p->max, max);
    if (wants_s) {
        k->panel_weights_sums(tile, keys, max, p->c, z, s);
        add_lanes(p->s, s, w->lanes);
    } else {
        k->panel_weights(tile, keys, max, p->c, z);
    }
}

/* The same where some lanes have other maps: their logits are put aside if need be. */
static void take_maps(work *w, panel *p, size_t keys, float *tile, float *z, bool wants_s) {
    panel_maps *maps = maps_of(w, p);
    const float *logits = tile;
    if (maps->used[WAY_EXP] > 0) {
        if (maps->used[WAY_EXP] < w->lanes) {
            memcpy(w->spare, tile, keys * w->lanes * sizeof(float));
            logits = w->spare;
        }
        if (maps->leaves_out)
            w->shape.kernels->map_keep(tile, keys, &maps->lanes);
        take_exponentials(w, p, keys, tile, z, wants_s);
    }
    whet_maps_weigh(maps, w->shape.kernels, logits, keys, tile, z, wants_s);
}

/* Weights from the logits of a tile, and what they select of the values. */
static void accumulate_tile(work *w, size_t index, size_t start, size_t keys, float *tile,
                            const float *rescale, bool wants_s) {
    const kernels *k = w->shape.kernels;
    panel *p = w->panels + index;
    float *out = w->outputs + index * w->value_groups * w->group * w->lanes;
    float z[LANES_MAX];
    if (w->maps)
        take_maps(w, p, keys, tile, z, wants_s);
    else
        take_exponentials(w, p, keys, tile, z, wants_s);
    add_lanes(p->z, z, w->lanes);
    for (size_t g = 0; g < w->value_groups; g++) {
        k->accumulate(w->values + g * BLOCK * w->group, 1, BLOCK * w->group, tile, keys, rescale,
                      out + g * w->group * w->lanes);
        whet_fetch_rows(&w->ahead);
    }
    if (w->odd_count)
        add_odd_values(w, start, tile, keys, out);
}

static void clear_outputs(work *w) {
    size_t count = w->panel_count * w->value_groups * w->group * w->lanes;
    memset(w->outputs, 0, count * sizeof *w->outputs);
    memset(w->totals, 0, count * sizeof *w->totals);
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->lanes; lane++)
            w->panels[i].fold[lane] = 1;
}

/* One long chain of f32 sums would lose what equal weights over many keys have in common. */
static void fold_outputs(work *w) {
    size_t columns = w->value_groups * w->group;
    for (size_t i = 0; i < w->panel_count; i++) {
        panel *p = w->panels + i;
        w->shape.kernels->fold(w->outputs + i * columns * w->lanes, columns, p->fold,
                               w->totals + i * columns * w->lanes);
        for (size_t lane = 0; lane < w->lanes; lane++)
            p->fold[lane] = 1;
    }
}

static size_t block_count(const work *w) { return (w->end_key - w->first_key + BLOCK - 1) / BLOCK; }

/* The first key of the block that comes i-th where outputs are summed. */
static size_t block_start(const work *w, size_t i) {
    return w->first_key + (w->shape.backwards ? block_count(w) - 1 - i : i) * BLOCK;
}

/* Whether the i-th block ends a fold. */
static bool ends_fold(const work *w, size_t i) {
    return i % FOLD_BLOCKS == FOLD_BLOCKS - 1 || i + 1 == block_count(w);
}

static size_t block_length(const work *w, size_t start) {
    return w->end_key - start < BLOCK ? w->end_key - start : BLOCK;
}

/* Brings block `block` into layout, its keys, its values or both, and has the next one fetched. */
static void pack_block(work *w, size_t block, bool keys, bool values) {
    const whet_attention *a = w->stream.attention;
    size_t start = block_start(w, block), next = 0, end = 0;
    if (keys)
        pack_keys(w, start, block_length(w, start));
    if (values)
        pack_values(w, start, block_length(w, start));
    if (block + 1 < block_count(w)) {
        next = block_start(w, block + 1);
        end = next + block_length(w, next);
    }
    w->ahead = whet_rows_ahead(&w->stream, keys ? &a->k : NULL, values ? &a->v : NULL, next, end,
                               w->panel_count);
}

static void fused_pass(work *w) {
    bool wants_stats = w->stream.attention->stats != NULL;
    clear_outputs(w);
    for (size_t block = 0; block < block_count(w); block++) {
        size_t start = block_start(w, block);
        pack_block(w, block, true, true);
        for (size_t i = 0; i < w->panel_count; i++) {
            panel *p = w->panels + i;
            size_t keys = keys_in_block(p, start);
            if (keys == 0)
                continue;
            float rescale[LANES_MAX];
            compute_tile(w, i, start, keys, w->tiles);
            count_tile(w, p, w->tiles, keys);
            raise_max(w, p, w->tiles, keys, rescale);
            accumulate_tile(w, i, start, keys, w->tiles, rescale, wants_stats);
        }
        if (ends_fold(w, block))
            fold_outputs(w);
    }
}

static void stats_pass(work *w) {
    for (size_t block = 0; block < block_count(w); block++) {
        size_t start = block_start(w, block);
        pack_block(w, block, true, false);
        for (size_t i = 0; i < w->panel_count; i++) {
            panel *p = w->panels + i;
            size_t keys = keys_in_block(p, start);
            if (keys == 0)
                continue;
            float rescale[LANES_MAX], max[LANES_MAX], z[LANES_MAX], s[LANES_MAX];
            float *tile = tile_at(w, i, start);
            compute_tile(w, i, start, keys, tile);
            count_tile(w, p, tile, keys);
            raise_max(w, p, tile, keys, rescale);
            if (!w->shape.summed)
                continue;
            safe_max(w, p->max, max);
            w->shape.kernels->panel_sums(tile, keys, max, p->c, z, s);
            add_lanes(p->z, z, w->lanes);
            add_lanes(p->s, s, w->lanes);
        }
    }
}

/* The logits of a block for a panel in a later pass: those kept, or computed again. */
static float *tile_again(work *w, size_t index, size_t start, size_t keys) {
    float *tile = tile_at(w, index, start);
    if (!w->shape.kept)
        compute_tile(w, index, start, keys, tile);
    return tile;
}

static void output_pass(work *w) {
    bool wants_stats = w->stream.attention->stats != NULL;
    float unchanged[LANES_MAX];
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    clear_outputs(w);
    for (size_t block = 0; block < block_count(w); block++) {
        size_t start = block_start(w, block);
        pack_block(w, block, !w->shape.kept, true);
        for (size_t i = 0; i < w->panel_count; i++) {
            size_t keys = keys_in_block(w->panels + i, start);
            if (keys == 0)
                continue;
            float *tile = tile_again(w, i, start, keys);
            accumulate_tile(w, i, start, keys, tile, unchanged, wants_stats);
        }
        if (ends_fold(w, block))
            fold_outputs(w);
    }
}

/* ---- beta ---- */

/* Whether the lane's sink has a share in its exponentials. */
static bool sink_counts(const work *w, const panel *p, size_t lane) {
    const panel_maps *maps = maps_of(w, p);
    double lowest = maps ? (double)maps->lanes.lowest[lane] : -(double)INFINITY;
    return p->sink[lane] > -(double)INFINITY && !(p->sink[lane] < lowest);
}

/* z, s and q of the sink alone (and of the logit 0 of softmax1) at the lane's c. */
static void start_sums(const work *w, panel *p, size_t lane) {
    if (way_of_lane(w, p, lane) != WAY_EXP) {
        p->z[lane] = whet_maps_sink_share(maps_of(w, p), lane);
        p->s[lane] = p->q[lane] = 0;
        return;
    }
    double d = p->sink[lane] - (double)p->max[lane];
    double e = sink_counts(w, p, lane) ? exp2((double)p->c[lane] * d) : 0;
    p->z[lane] = e;
    if (has_zero_logit(&p->row[lane]))
        p->z[lane] += exp(-(double)p->max[lane]);
    p->s[lane] = e == 0 ? 0 : d * e;
    p->q[lane] = e == 0 ? 0 : d * d * e;
}

static void complete_lane(const work *w, panel *p, size_t lane) {
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

static bool lane_has_beta(const whet_stats *stats) {
    return stats->n > 0 && !(stats->flags & WHET_ROW_NOT_FINITE);
}

static void moments_pass(work *w) {
    for (size_t block = 0; block < block_count(w); block++) {
        size_t start = block_start(w, block);
        pack_block(w, block, !w->shape.kept, false);
        for (size_t i = 0; i < w->panel_count; i++) {
            panel *p = w->panels + i;
            size_t keys = keys_in_block(p, start);
            if (keys == 0)
                continue;
            float max[LANES_MAX], z[LANES_MAX], s[LANES_MAX], q[LANES_MAX];
            safe_max(w, p->max, max);
            w->shape.kernels->panel_moments(tile_again(w, i, start, keys), keys, max, p->c, z, s,
                                            q);
            add_lanes(p->z, z, w->lanes);
            add_lanes(p->s, s, w->lanes);
            add_lanes(p->q, q, w->lanes);
        }
    }
}

/* Starts the Newton steps of lanes with a target; true if any has to be driven. */
static bool start_targets(work *w) {
    bool any = false;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
            panel *p = w->panels + i;
            p->solver[lane].done = 1;
            if (p->row[lane].policy->kind != WHET_POLICY_TARGET)
                continue;
            if (!lane_has_beta(&p->stats[lane]))
                continue;
            whet_target_start(&p->solver[lane], p->row[lane].policy, &p->stats[lane]);
            any = any || !p->solver[lane].done;
        }
    return any;
}

static bool step_targets(work *w) {
    bool any = false;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
            panel *p = w->panels + i;
            if (p->solver[lane].done)
                continue;
            whet_target_step(&p->solver[lane], p->z[lane], p->s[lane], p->q[lane]);
            any = any || !p->solver[lane].done;
        }
    return any;
}

static void solve_targets(work *w) {
    for (bool more = start_targets(w); more; more = step_targets(w)) {
        for (size_t i = 0; i < w->panel_count; i++)
            for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
                panel *p = w->panels + i;
                if (!p->solver[lane].done)
                    p->c[lane] = whet_beta_to_c(p->solver[lane].beta);
                start_sums(w, p, lane);
            }
        moments_pass(w);
    }
}

static double beta_of_lane(panel *p, size_t lane) {
    const whet_policy *policy = p->row[lane].policy;
    whet_stats *stats = &p->stats[lane];
    if (policy->kind != WHET_POLICY_TARGET)
        return whet_policy_beta(policy, stats);
    stats->flags |= p->solver[lane].flags;
    return whet_policy_weaken(policy, p->solver[lane].beta);
}

/* Thresholds of a panel's maps, in as many passes over its kept logits as they take. */
static void solve_maps(work *w, size_t index) {
    panel *p = w->panels + index;
    panel_maps *maps = w->maps + index;
    for (size_t lane = 0; lane < p->rows; lane++) {
        const query_row *row = &p->row[lane];
        if (!lane_has_beta(&p->stats[lane]) || whet_policy_is_temperature(row->policy))
            continue;
        whet_maps_search(maps, lane, row->policy, &p->stats[lane]);
        if (has_zero_logit(row) && p->max[lane] < 0)
            p->max[lane] = 0;
    }
    while (whet_maps_begin_pass(maps, w->lanes)) {
        for (size_t start = w->first_key; start < w->end_key; start += BLOCK) {
            size_t keys = keys_in_block(p, start);
            if (keys > 0)
                whet_maps_look(maps, w->shape.kernels, tile_at(w, index, start), keys);
        }
        whet_maps_end_pass(maps, w->lanes);
    }
}

/* From the sums of the first pass to every row's beta, ready for the second. */
static void choose_betas(work *w) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++)
            complete_lane(w, w->panels + i, lane);
    solve_targets(w);
    for (size_t i = 0; i < w->panel_count; i++) {
        panel *p = w->panels + i;
        for (size_t lane = 0; lane < p->rows; lane++) {
            whet_stats *stats = &p->stats[lane];
            if (!lane_has_beta(stats) || !whet_policy_is_temperature(p->row[lane].policy))
                continue;
            double beta = beta_of_lane(p, lane);
            if (isnan(beta))
                *stats = whet_stats_not_finite(stats->n);
            else
                p->c[lane] = whet_apply_beta(stats, beta);
        }
        if (w->maps)
            solve_maps(w, i);
        for (size_t lane = 0; lane < w->lanes; lane++)
            start_sums(w, p, lane);
    }
}

/* ---- results ---- */

static void finish_lane(work *w, size_t index, size_t lane) {
    const whet_attention *a = w->stream.attention;
    panel *p = w->panels + index;
    whet_stats *stats = &p->stats[lane];
    const double *total = w->totals + index * w->value_groups * w->group * w->lanes + lane;
    const whet_policy *policy = p->row[lane].policy;
    bool is_temperature = whet_policy_is_temperature(policy) != 0;
    double z = p->z[lane];
    if (w->shape.fused) {
        complete_lane(w, p, lane);
        if (lane_has_beta(stats) && is_temperature)
            whet_apply_beta(stats, whet_policy_beta(policy, stats));
    }
    if (isnan(z))
        *stats = whet_stats_not_finite(stats->n);
    bool good = !(stats->flags & WHET_ROW_NOT_FINITE);
    if (good && z > 0 && is_temperature)
        whet_stats_after(stats, z, p->s[lane]);
    if (lane_has_beta(stats) && !is_temperature)
        whet_maps_report(maps_of(w, p), lane, policy, (double)p->max[lane], z, p->s[lane], stats);
    double factor = z > 0 ? 1.0 / z : 0;
    if (!whet_way_is_normalised(way_of_lane(w, p, lane)))
        factor = 1;
    for (size_t c = 0; c < a->value_dim; c++)
        w->rows[c] = good ? (float)(total[c * w->lanes] * factor) : NAN;
    whet_store_output(&w->stream, &p->row[lane], w->rows);
    whet_stats *wanted = whet_row_stats(&w->stream, &p->row[lane]);
    if (wanted)
        *wanted = *stats;
}

static whet_status finish_work(work *w, uint64_t *first_bad_row) {
    whet_status status = WHET_OK;
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
            panel *p = w->panels + i;
            finish_lane(w, i, lane);
            if (!(p->stats[lane].flags & WHET_ROW_NOT_FINITE))
                continue;
            uint64_t index = whet_row_index(&w->stream, &p->row[lane]);
            if (first_bad_row && (status == WHET_OK || index < *first_bad_row))
                *first_bad_row = index;
            status = WHET_NOT_FINITE;
        }
    return status;
}

whet_status whet_run_prefill_task(const whet_plan *plan, size_t task, void *scratch,
                                  uint64_t *first_bad_row) {
    work w;
    start_work(&w, plan, task, scratch);
    if (w.shape.fused) {
        fused_pass(&w);
    } else {
        stats_pass(&w);
        choose_betas(&w);
        output_pass(&w);
    }
    return finish_work(&w, first_bad_row);
}
