/*
 * Many rows of plain f32 that are so short that finding their maxima and sums
 * across vectors would take longer than everything else. They are turned to lie
 * side by side, a row to a lane, and go through the loops made for panels of
 * queries (isa/panels.inc), where no sum crosses lanes; then turned back. A few
 * rows, which would leave most lanes empty, go one by one through the same
 * operations in the same order: what comes out does not depend on how many
 * there are.
 */
#include "row/group.h"
#include <math.h>
#include <string.h>

/* From how many rows on a panel is worth its empty lanes. */
#define PANEL_ROWS_MIN 8

typedef struct panel {
    _Alignas(64) float tile[SHORT_MAX * LANES_MAX];
    _Alignas(64) float max[LANES_MAX];
    _Alignas(64) float c[LANES_MAX];
    _Alignas(64) float z[LANES_MAX];
    _Alignas(64) float s[LANES_MAX];
    float nowhere[SHORT_MAX]; /* what lanes without a row read and write */
    row_group group;
} panel;

static void gather(panel *p) {
    const float *from[LANES_MAX];
    for (size_t lane = 0; lane < p->group.kernels->lanes; lane++)
        from[lane] = lane < p->group.count ? whet_group_in(&p->group, lane) : p->nowhere;
    p->group.kernels->panel_gather(from, p->group.rows->n, p->tile);
}

static void set_all(float *values, float value) {
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        values[lane] = value;
}

static void find_max(panel *p) {
    set_all(p->max, -INFINITY);
    p->group.kernels->panel_max(p->tile, p->group.rows->n, p->max);
    whet_group_check_max(&p->group, p->max);
}

static void choose_c(panel *p) {
    bool constant = p->group.constant_c > 0;
    set_all(p->c, constant ? p->group.constant_c : whet_beta_to_c(1.0));
    if (constant)
        return;
    if (p->group.job->needs_sums)
        p->group.kernels->panel_sums(p->tile, p->group.rows->n, p->max, p->c, p->z, p->s);
    whet_group_choose(&p->group, p->max, p->z, p->s, p->c);
}

/* Where results go; those of odd rows nowhere, for they are still wanted as they came. */
static void spread(panel *p) {
    float *to[LANES_MAX];
    for (size_t lane = 0; lane < p->group.kernels->lanes; lane++) {
        bool lost = lane >= p->group.count || p->group.odd[lane] || isnan(p->z[lane]);
        to[lane] = lost ? p->nowhere : whet_group_out(&p->group, lane);
        p->group.odd[lane] = lost;
        p->z[lane] = lost ? 0 : 1 / p->z[lane];
    }
    p->group.kernels->panel_spread(p->tile, p->group.rows->n, p->z, to);
}

/* The rows of a panel, all lanes together. */
static void run_panel(panel *p) {
    gather(p);
    find_max(p);
    choose_c(p);
    p->group.kernels->panel_weights(p->tile, p->group.rows->n, p->max, p->c, p->z);
    spread(p);
}

/* The same, bit for bit, one row after the other; odd ones are left for later. */
static void run_lanes(panel *p) {
    const kernels *k = p->group.kernels;
    float *d = p->tile, *weights = p->tile + ROW_PAD + SHORT_MAX, unused;
    bool constant = p->group.constant_c > 0;
    size_t n = p->group.rows->n;
    for (size_t i = 0; i < p->group.count; i++)
        p->max[i] = k->max(whet_group_in(&p->group, i), n);
    whet_group_check_max(&p->group, p->max);
    set_all(p->c, constant ? p->group.constant_c : whet_beta_to_c(1.0));
    for (size_t i = 0; !constant && p->group.job->needs_sums && i < p->group.count; i++)
        k->panel_lane(whet_group_in(&p->group, i), n, p->max[i], p->c[i], d, weights, &p->z[i],
                      &p->s[i]);
    if (!constant)
        whet_group_choose(&p->group, p->max, p->z, p->s, p->c);
    for (size_t i = 0; i < p->group.count; i++) {
        k->panel_lane(whet_group_in(&p->group, i), n, p->max[i], p->c[i], d, weights, &p->z[i],
                      &unused);
        p->group.odd[i] |= isnan(p->z[i]);
        if (!p->group.odd[i])
            k->scale(weights, n, 1 / p->z[i], whet_group_out(&p->group, i));
    }
}

whet_status whet_short_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    panel p;
    p.group = whet_group_start(rows, job);
    memset(p.nowhere, 0, sizeof p.nowhere);
    memset(p.z, 0, sizeof p.z);
    memset(p.s, 0, sizeof p.s);
    whet_status status = WHET_OK;
    size_t lanes = p.group.kernels->lanes;
    for (size_t first = 0; first < rows->rows; first += lanes) {
        p.group.first = first;
        p.group.count = rows->rows - first < lanes ? rows->rows - first : lanes;
        if (p.group.count >= PANEL_ROWS_MIN)
            run_panel(&p);
        else
            run_lanes(&p);
        whet_group_finish_odd(&p.group, &status, first_bad_row);
    }
    return status;
}
