/*
 * Many rows of plain f32, so short that finding their maxima and sums across vectors
 * would take longer than everything else. They are transposed, one row per lane, computed
 * by the loops for panels of queries (isa/panels.inc), where no sum crosses lanes, and
 * transposed back. A few rows, which would leave most lanes empty, are computed one by
 * one with the same operations in the same order: results do not depend on the number of
 * rows.
 */
#include "row/short_rows.h"
#include "row/batch.h"
#include "policy/beta.h"
#include <math.h>
#include <string.h>

/* From how many rows on a panel is worth its empty lanes. */
#define PANEL_ROWS_MIN 8

typedef struct panel {
    _Alignas(64) float tile[SHORT_MAX * LANES_MAX];
    _Alignas(64) float max[LANES_MAX];
    _Alignas(64) float exp2_scale[LANES_MAX];
    _Alignas(64) float z[LANES_MAX];
    _Alignas(64) float s[LANES_MAX];
    float nowhere[SHORT_MAX]; /* what lanes without a row read and write */
    row_batch batch;
} panel;

static void gather(panel *p) {
    const float *from[LANES_MAX];
    for (size_t lane = 0; lane < p->batch.kernels->lanes; lane++)
        from[lane] = lane < p->batch.count ? whet_batch_in(&p->batch, lane) : p->nowhere;
    p->batch.kernels->panel_transpose(from, p->batch.rows->n, p->tile);
}

static void set_all(float *values, float value) {
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        values[lane] = value;
}

static void find_max(panel *p) {
    set_all(p->max, -INFINITY);
    p->batch.kernels->panel_max(p->tile, p->batch.rows->n, p->max);
    whet_batch_check_max(&p->batch, p->max);
}

static void choose_scales(panel *p) {
    bool constant = p->batch.constant_scale > 0;
    set_all(p->exp2_scale, constant ? p->batch.constant_scale : whet_exp2_scale(1.0));
    if (constant)
        return;
    if (p->batch.job->needs_sums)
        p->batch.kernels->panel_sums(p->tile, p->batch.rows->n, p->max, p->exp2_scale, p->z, p->s);
    whet_batch_choose(&p->batch, p->max, p->z, p->s, p->exp2_scale);
}

/* Where results go; nowhere for special rows, whose logits are still needed. */
static void scatter(panel *p) {
    float *to[LANES_MAX];
    for (size_t lane = 0; lane < p->batch.kernels->lanes; lane++) {
        bool lost = lane >= p->batch.count || p->batch.special[lane] || isnan(p->z[lane]);
        to[lane] = lost ? p->nowhere : whet_batch_out(&p->batch, lane);
        p->batch.special[lane] = lost;
        p->z[lane] = lost ? 0 : 1 / p->z[lane];
    }
    p->batch.kernels->panel_transpose_back(p->tile, p->batch.rows->n, p->z, to);
}

/* The rows of a panel, all lanes at once. */
static void run_panel(panel *p) {
    gather(p);
    find_max(p);
    choose_scales(p);
    p->batch.kernels->panel_weights(p->tile, p->batch.rows->n, p->max, p->exp2_scale, p->z);
    scatter(p);
}

/* The same, bit for bit, one row after the other; special ones are left for later. */
static void run_lanes(panel *p) {
    const kernels *k = p->batch.kernels;
    float *d = p->tile, *weights = p->tile + ROW_PAD + SHORT_MAX, unused;
    bool constant = p->batch.constant_scale > 0;
    size_t n = p->batch.rows->n;
    for (size_t i = 0; i < p->batch.count; i++)
        p->max[i] = k->max(whet_batch_in(&p->batch, i), n);
    whet_batch_check_max(&p->batch, p->max);
    set_all(p->exp2_scale, constant ? p->batch.constant_scale : whet_exp2_scale(1.0));
    for (size_t i = 0; !constant && p->batch.job->needs_sums && i < p->batch.count; i++)
        k->panel_lane(whet_batch_in(&p->batch, i), n, p->max[i], p->exp2_scale[i], d, weights,
                      &p->z[i], &p->s[i]);
    if (!constant)
        whet_batch_choose(&p->batch, p->max, p->z, p->s, p->exp2_scale);
    for (size_t i = 0; i < p->batch.count; i++) {
        k->panel_lane(whet_batch_in(&p->batch, i), n, p->max[i], p->exp2_scale[i], d, weights,
                      &p->z[i], &unused);
        p->batch.special[i] |= isnan(p->z[i]);
        if (!p->batch.special[i])
            k->scale(weights, n, 1 / p->z[i], whet_batch_out(&p->batch, i));
    }
}

whet_status whet_short_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row) {
    panel p;
    p.batch = whet_batch_start(rows, job);
    memset(p.nowhere, 0, sizeof p.nowhere);
    memset(p.z, 0, sizeof p.z);
    memset(p.s, 0, sizeof p.s);
    whet_status status = WHET_OK;
    size_t lanes = p.batch.kernels->lanes;
    for (size_t first = 0; first < rows->rows; first += lanes) {
        p.batch.first = first;
        p.batch.count = rows->rows - first < lanes ? rows->rows - first : lanes;
        if (p.batch.count >= PANEL_ROWS_MIN)
            run_panel(&p);
        else
            run_lanes(&p);
        whet_batch_finish_special(&p.batch, &status, first_bad_row);
    }
    return status;
}
