/*
 * How the work of prefill is divided, and how a task sets out: a few panels of
 * query rows, one row to a lane, with what is known of each before its first
 * key.
 */
#include "attention/prefill.h"
#include "base/checked.h"

#define ROWS_TO_TASK 384 /* what bringing keys into layout is spread over */
#define KEPT_BYTES ((size_t)25 << 20)
#define KEPT_ROWS 48 /* with fewer to a task, layout costs more than computing logits twice */

typedef struct layout {
    size_t panels, queries, outputs, totals, keys, values, tiles, rows, maps, spare, total;
} layout;

static bool lay_out(const whet_attention *a, const plan_shape *shape, layout *at) {
    size_t lanes = shape->kernels->lanes, panels = shape->panels;
    size_t columns = round_up(a->value_dim, shape->kernels->group);
    size_t tile_keys = shape->kept ? panels * round_up(a->keys, BLOCK) : BLOCK;
    at->total = 0;
    return whet_place(&at->total, &at->panels, panels, sizeof(prefill_panel)) &&
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

static void start_map(const prefill_work *w, prefill_panel *p, size_t lane) {
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

static void start_lane(const prefill_work *w, prefill_panel *p, size_t lane, size_t r) {
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
static void start_idle_lane(prefill_panel *p, size_t lane) {
    p->row[lane] = (query_row){.policy = NULL};
    p->max[lane] = 0;
    p->c[lane] = 1;
    p->z[lane] = 1;
    p->s[lane] = p->n[lane] = 0;
    p->sink[lane] = -(double)INFINITY;
}

static void start_panel(prefill_work *w, size_t index, size_t first_row) {
    const whet_attention *a = w->stream.attention;
    prefill_panel *p = w->panels + index;
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

void whet_prefill_start(prefill_work *w, const whet_plan *plan, size_t task, void *scratch) {
    const whet_attention *a = &plan->description.attention;
    layout at;
    w->shape = whet_shape_of(plan);
    lay_out(a, &w->shape, &at);
    char *base = scratch;
    w->panels = (prefill_panel *)(void *)(base + at.panels);
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
        prefill_panel *p = w->panels + i;
        widen_keys(p->low, p->high, &w->first_key, &w->end_key);
    }
    w->first_key = first_block(w->first_key, w->end_key);
}
