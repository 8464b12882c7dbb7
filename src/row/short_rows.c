/*
 * Many rows of plain f32 that are so short that finding their maxima and sums
 * across vectors would take longer than everything else. They are turned to lie
 * side by side, a row to a lane, and go through the loops made for panels of
 * queries (isa/panels.inc), where no sum crosses lanes; then turned back. A few
 * rows, which would leave most lanes empty, go one by one through the same
 * operations in the same order: what comes out does not depend on how many
 * there are.
 */
#include "row/row.h"
#include <math.h>
#include <string.h>

/* Longer rows gain nothing: turning costs as much for each entry, the rest ever less. */
#define SHORT_MAX 56

/* From how many rows on a panel is worth its empty lanes. */
#define PANEL_ROWS_MIN 8

bool whet_short_rows_take(const whet_rows *rows, const row_job *job, bool stores) {
    return rows->n <= SHORT_MAX && whet_pipeline_takes(rows, job, stores);
}

typedef struct panel {
    _Alignas(64) float tile[SHORT_MAX * LANES_MAX];
    _Alignas(64) float max[LANES_MAX];
    _Alignas(64) float c[LANES_MAX];
    _Alignas(64) float z[LANES_MAX];
    _Alignas(64) float s[LANES_MAX];
    float nowhere[SHORT_MAX]; /* what lanes without a row read and write */
    const whet_rows *rows;
    const row_job *job;
    const kernels *kernels;
    float constant_c;
    size_t first, count; /* rows in this panel */
    bool odd[LANES_MAX]; /* everything masked, or not finite: not for the panel */
} panel;

static row_view view_of(const panel *p, size_t lane) {
    ptrdiff_t r = (ptrdiff_t)(p->first + lane);
    return (row_view){.kernels = p->kernels,
                      .n = p->rows->n,
                      .in = (const float *)p->rows->in + r * p->rows->in_stride,
                      .out = (float *)p->rows->out + r * p->rows->out_stride};
}

static void gather(panel *p) {
    const float *from[LANES_MAX];
    for (size_t lane = 0; lane < p->kernels->lanes; lane++)
        from[lane] = lane < p->count ? view_of(p, lane).in : p->nowhere;
    p->kernels->panel_gather(from, p->rows->n, p->tile);
}

static void find_max(panel *p) {
    for (size_t lane = 0; lane < p->kernels->lanes; lane++)
        p->max[lane] = -INFINITY;
    p->kernels->panel_max(p->tile, p->rows->n, p->max);
    for (size_t lane = 0; lane < p->kernels->lanes; lane++) {
        p->odd[lane] = isinf(p->max[lane]);
        if (p->odd[lane])
            p->max[lane] = 0;
    }
}

static void set_c(panel *p, float c) {
    for (size_t lane = 0; lane < p->kernels->lanes; lane++)
        p->c[lane] = c;
}

static void choose_c(panel *p) {
    set_c(p, p->constant_c > 0 ? p->constant_c : whet_beta_to_c(1.0));
    if (p->constant_c > 0)
        return;
    if (p->job->needs_sums)
        p->kernels->panel_sums(p->tile, p->rows->n, p->max, p->c, p->z, p->s);
    for (size_t lane = 0; lane < p->count; lane++) {
        row_view view = view_of(p, lane);
        row_sums sums = {(double)p->z[lane], (double)p->s[lane], 0};
        float c = p->odd[lane] ? 0 : whet_row_c(p->job, &view, p->max[lane], sums);
        p->odd[lane] |= !(c > 0);
        p->c[lane] = p->odd[lane] ? 1 : c;
    }
}

/* Where results go; those of odd rows nowhere, for they are still wanted as they came. */
static void spread(panel *p) {
    float *to[LANES_MAX];
    for (size_t lane = 0; lane < p->kernels->lanes; lane++) {
        bool lost = lane >= p->count || p->odd[lane] || isnan(p->z[lane]);
        to[lane] = lost ? p->nowhere : view_of(p, lane).out;
        p->odd[lane] = lost;
        p->z[lane] = lost ? 0 : 1 / p->z[lane];
    }
    p->kernels->panel_spread(p->tile, p->rows->n, p->z, to);
}

/* Rows that were left out, by themselves. Returns the first lane that is not finite, or count. */
static size_t finish_odd(const panel *p) {
    size_t bad = p->count;
    for (size_t lane = 0; lane < p->count; lane++) {
        if (!p->odd[lane])
            continue;
        row_view view = view_of(p, lane);
        whet_stats stats;
        whet_one_row(&view, p->job, &stats);
        if ((stats.flags & WHET_ROW_NOT_FINITE) && bad == p->count)
            bad = lane;
    }
    return bad;
}

/* The rows of a panel, all lanes together. */
static void run_panel(panel *p) {
    gather(p);
    find_max(p);
    choose_c(p);
    p->kernels->panel_weights(p->tile, p->rows->n, p->max, p->c, p->z);
    spread(p);
}

/* One of its rows alone; odd ones are left for later. */
static void run_lane(panel *p, size_t lane) {
    const kernels *k = p->kernels;
    row_view view = view_of(p, lane);
    float *d = p->tile, *weights = p->tile + ROW_PAD + SHORT_MAX;
    float max = k->max(view.in, view.n), c = p->constant_c, z, s;
    p->odd[lane] = isinf(max);
    if (p->odd[lane])
        return;
    if (!(c > 0)) {
        row_sums sums = {0, 0, 0};
        if (p->job->needs_sums) {
            k->panel_lane(view.in, view.n, max, whet_beta_to_c(1.0), d, weights, &z, &s);
            sums = (row_sums){(double)z, (double)s, 0};
        }
        c = whet_row_c(p->job, &view, max, sums);
    }
    k->panel_lane(view.in, view.n, max, c > 0 ? c : 1, d, weights, &z, &s);
    p->odd[lane] = !(c > 0) || isnan(z);
    if (!p->odd[lane])
        k->scale(weights, view.n, 1 / z, view.out);
}

whet_status whet_short_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    panel p;
    p.rows = rows;
    p.job = job;
    p.kernels = whet_kernels_get();
    p.constant_c = whet_constant_c(job->policy);
    memset(p.nowhere, 0, sizeof p.nowhere);
    memset(p.z, 0, sizeof p.z);
    memset(p.s, 0, sizeof p.s);
    whet_status status = WHET_OK;
    for (p.first = 0; p.first < rows->rows; p.first += p.kernels->lanes) {
        size_t left = rows->rows - p.first;
        p.count = left < p.kernels->lanes ? left : p.kernels->lanes;
        if (p.count >= PANEL_ROWS_MIN)
            run_panel(&p);
        else
            for (size_t lane = 0; lane < p.count; lane++)
                run_lane(&p, lane);
        size_t bad = finish_odd(&p);
        if (bad < p.count && status == WHET_OK) {
            status = WHET_NOT_FINITE;
            if (first_bad_row)
                *first_bad_row = p.first + bad;
        }
    }
    return status;
}
