/*
 * Shared by the files of attention over many queries: a task's scratch and the state of
 * the rows it works on. prefill.c explains the passes and drives them: prefill_plan.c
 * divides the work, prefill_rows.c brings rows into layout, prefill_passes.c has the
 * passes over keys and values, prefill_betas.c the steps between them.
 */
#ifndef WHET_PREFILL_H
#define WHET_PREFILL_H

#include "attention/panel_maps.h"
#include "attention/row_form.h"
#include "attention/skip.h"
#include "attention/tiles.h"
#include "row/extra_logits.h"
#include <math.h>
#include <string.h>

/* What is known of the rows of one panel; the lane is always the last index. */
typedef struct prefill_panel {
    query_row row[LANES_MAX];
    size_t row_count; /* lanes in use */
    size_t low, high; /* the keys any of them sees */
    float max[LANES_MAX];
    float exp2_scale[LANES_MAX];
    double z[LANES_MAX], s[LANES_MAX], q[LANES_MAX];
    double n[LANES_MAX];
    /* if requested: of the keys alone; `most` is NaN if there is a NaN */
    float least[LANES_MAX], most[LANES_MAX];
    uint64_t argmax[LANES_MAX];
    double first[LANES_MAX];         /* with statistics: the weight of key 0, not normalised yet */
    double totals_factor[LANES_MAX]; /* factor still to be applied to the totals */
    whet_stats stats[LANES_MAX];
    beta_solver solver[LANES_MAX];
    double skipped[LANES_MAX]; /* weight that is left out */
} prefill_panel;

/* A task's scratch, cut into its parts. */
typedef struct prefill_work {
    kv_slice slice;
    plan_shape shape;
    size_t lanes, interleave;
    size_t panel_count;
    size_t value_strips;
    size_t first_key; /* of the first block; kept logits start there */
    size_t end_key;
    size_t kept_keys; /* keys whose logits a panel can keep */
    prefill_panel *panels;
    float *queries;          /* [panel][head_dim][lanes] */
    float *outputs;          /* [panel][value_strips * interleave][lanes], not yet in the totals */
    double *totals;          /* the same, of everything before */
    float *keys;             /* [BLOCK / interleave][head_dim][interleave] */
    float *values;           /* [value_strips][BLOCK][interleave] */
    panel_maps *maps;        /* of each prefill_panel; NULL where all maps are softmax */
    float *spare;            /* logits of a tile while some lanes have their weights already */
    float *map_row;          /* a row that is made by its row form */
    float *tiles;            /* [kept_keys][lanes] for each panel, or one of [BLOCK][lanes] */
    uint64_t *marks;         /* with a mask: keys that the task's rows see, and a panel's */
    uint32_t *listed;        /* the former, where they are listed */
    float *row_buffer;       /* STRIP_MAX rows of HEAD_DIM_MAX, to convert in */
    size_t nonfinite[BLOCK]; /* keys of the block whose values are not finite */
    size_t nonfinite_count;
    rows_ahead ahead; /* keys and values of the next block */
    /* with skip, for kept_blocks blocks from the first key on: */
    size_t kept_blocks;
    float *block_weights; /* [block][lanes], of one panel at a time */
    uint32_t *block_order;
    bool *left_out; /* [panel][block] */
} prefill_work;

static inline panel_maps *maps_of(const prefill_work *w, const prefill_panel *p) {
    return w->maps ? w->maps + (p - w->panels) : NULL;
}

static inline panel_form form_of_lane(const prefill_work *w, const prefill_panel *p, size_t lane) {
    const panel_maps *maps = maps_of(w, p);
    return maps ? maps->form[lane] : PANEL_EXP;
}

/* Whether a lane's row has one more logit of zero. */
static inline bool lane_has_zero(const prefill_panel *p, size_t lane) {
    return lane < p->row_count && (p->row[lane].map->traits & MAP_ZERO_LOGIT);
}

/* What a lane's weights are multiplied with in the end. */
static inline double lane_factor(const prefill_work *w, const prefill_panel *p, size_t lane) {
    if (!form_is_normalised(form_of_lane(w, p, lane)))
        return 1;
    return p->z[lane] > 0 ? 1.0 / p->z[lane] : 0;
}

static inline float *prefill_tile(const prefill_work *w, size_t index, size_t start) {
    if (!w->shape.kept)
        return w->tiles;
    return w->tiles + (index * w->kept_keys + (start - w->first_key)) * w->lanes;
}

/* Bytes of scratch, and the division of work; false on overflow. */
bool whet_plan_prefill(whet_plan *plan, plan_shape *shape);

whet_status whet_run_prefill_task(const whet_plan *plan, size_t task, void *scratch,
                                  uint64_t *first_bad_row);

/* Cuts scratch into the parts of a task and finds its rows; returns the first of them. */
size_t whet_prefill_cut_scratch(prefill_work *w, const whet_plan *plan, size_t task, void *scratch);

/* Brings a task's query rows into layout, before their first key. */
void whet_prefill_start(prefill_work *w, const whet_plan *plan, size_t task, void *scratch);

/* With a mask, before the first key: leaves out the keys that it hides from all rows. */
void whet_prefill_leave_out_keys(prefill_work *w);

/* The passes: everything in one; maxima and sums; sums for a step of `target`; weights, with skip;
 * outputs. */
void whet_prefill_fused_pass(prefill_work *w);
void whet_prefill_stats_pass(prefill_work *w);
void whet_prefill_moments_pass(prefill_work *w);
void whet_prefill_weigh_pass(prefill_work *w);
void whet_prefill_output_pass(prefill_work *w);

/* After the fused pass: every row's statistics and the beta it was computed with. */
void whet_prefill_settle_betas(prefill_work *w);

/* The blocks that a panel leaves out, from its weights: prefill_skip.c. */
void whet_prefill_choose_blocks(prefill_work *w, size_t index);

/* From the sums of the first pass to every row's beta, ready for the second. */
void whet_prefill_choose_betas(prefill_work *w);

#endif
