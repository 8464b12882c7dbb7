/*
 * Shared by the files of attention's backward pass: a task's memory and the state of the
 * rows it works on. backward.c explains the arithmetic and drives the rest:
 * backward_check.c checks a description, backward_plan.c divides the work,
 * backward_layout.c lays out memory, backward_rows.c brings a set of rows into layout,
 * backward_sums.c is the first sweep over the keys and evaluates its sums,
 * backward_maps.c computes maps panel by panel, backward_by_row.c what is left of them
 * row by row, backward_products.c is the second sweep,
 * and backward_results.c writes gradients.
 */
#ifndef WHET_ATTENTION_BACKWARD_H
#define WHET_ATTENTION_BACKWARD_H

#include "attention/backward_part.h"
#include "attention/panel_maps.h"
#include "attention/row_form.h"
#include "attention/skip.h"
#include "attention/tiles.h"
#include "row/extra_logits.h"

/* Gradients of a head's parameters, one double each. */
enum { POLICY_PARAMETERS = sizeof(whet_policy_gradient) / sizeof(double) };
typedef struct parameter_sums {
    double parameters[POLICY_PARAMETERS]; /* a whet_policy_gradient */
    double sink, alibi_slope;
} parameter_sums;

/* What is known of the rows of one panel; the lane is always the last index. */
typedef struct backward_panel {
    query_row row[LANES_MAX];
    size_t row_count;           /* lanes in use */
    size_t low, high;           /* the keys any of them sees */
    panel_form form[LANES_MAX]; /* PANEL_BY_ROW: computed row by row */
    size_t settled;             /* lanes that hold weights and gradients before the second sweep */
    bool mapped;                /* some form is neither PANEL_EXP nor PANEL_BY_ROW */
    whet_stats stats[LANES_MAX];
    bool bad[LANES_MAX];
    bool solved;                                        /* some w is not exp(e) / Z */
    double z[LANES_MAX], s[LANES_MAX];                  /* sums of exp(beta d), d exp(beta d) */
    double a[LANES_MAX], b[LANES_MAX];                  /* the same times g - base */
    double z0[LANES_MAX], s0[LANES_MAX], q0[LANES_MAX]; /* moments at beta0 */
    double distance[LANES_MAX];                         /* of dL/de times distance */
    double beta_grad[LANES_MAX];                        /* dL/dbeta */
    double common[LANES_MAX]; /* dL/dout . what all values have in common: what g lacks */
    float peak[LANES_MAX];    /* the largest logit so far, the sink among them; -inf for none */
    panel_backward to_logits; /* max is the peak, or 0 */
} backward_panel;

/* A task's memory, cut into its parts. */
typedef struct backward_work {
    kv_slice slice;
    plan_shape shape;
    const whet_gradients *gradients;
    const whet_attention *a;
    const kernels *k;
    size_t lanes;
    size_t panel_count;
    size_t first_key, end_key;
    size_t kept_keys, padded_keys;
    bool has_common;
    float common[HEAD_DIM_MAX]; /* what is the same in all values */
    backward_panel *panels;
    panel_maps *maps;              /* of one panel at a time, if there are any */
    float *queries, *grads;        /* [panel][dim][lanes] of scaled q and of dL/dout */
    float *query_rows, *grad_rows; /* [dim / columns][panel][lanes][columns] */
    float *query_sums;             /* [panel][head_dim][lanes], not yet in the totals */
    double *query_totals;          /* of everything before */
    float *keys, *values;          /* a block of each, interleaved */
    float *key_columns;            /* a block of keys for dL/dq */
    float *logits, *weight_grads;  /* [panel][kept_keys][lanes]; */
    float *softcap_grads;          /* the same, or NULL without a soft-cap */
    float *row_logits, *row_grads; /* one row and a sink, for maps; a tile of either, to set ... */
    float *spare_logits, *spare_grads; /* ... lanes aside in */
    float *row_buffer;                 /* STRIP_MAX rows of HEAD_DIM_MAX, to convert in */
    float *key_sums, *value_sums;      /* [dim / columns][padded_keys][columns] */
    /* with skip, for the blocks from the first key on: */
    float *block_weights; /* [block][set's rows] */
    uint32_t *block_order;
    bool *left_out;             /* [panel][kept_keys / SKIP_KEYS] */
    double *row_weights;        /* [set's rows] */
    double *bias_sums;          /* [heads_per_kv][padded_keys], or NULL, like ... */
    parameter_sums *parameters; /* ... [heads_per_kv], if not wanted */
    const backward_part *part;  /* of longer rows, or NULL */
} backward_work;

/* Whether a lane has no row, or one that saw nothing. */
static inline bool is_empty(const backward_panel *p, size_t lane) {
    return lane >= p->row_count ||
           (p->stats[lane].n == 0 && !(p->stats[lane].flags & WHET_ROW_NOT_FINITE));
}

static inline bool has_statistics_gradients(const whet_gradients *g) {
    return g->logsumexp || g->entropy || g->entropy_after;
}

/* Whether rows with this policy may be computed row by row: all maps except softmax, and every row
 * if statistics have gradients. */
static inline bool is_by_row(const whet_gradients *g, const whet_policy *policy) {
    return !whet_policy_is_temperature(policy) || has_statistics_gradients(g);
}

/* Whether a lane holds weights and gradients of logits before the second sweep: lanes that do not
 * take exponentials, and idle lanes of their panels. */
static inline bool has_logit_grads(const backward_panel *p, size_t lane) {
    return p->settled > 0 && (lane >= p->row_count || !form_is_exponential(p->form[lane]));
}

/* The offset of a panel's kept tiles for the block at `start`. */
static inline size_t backward_tile(const backward_work *w, size_t index, size_t start) {
    return (index * w->kept_keys + (start - w->first_key)) * w->lanes;
}

whet_status whet_run_backward_task(const whet_plan *plan, unsigned phase, size_t task,
                                   void *scratch, uint64_t *first_bad_row);

/* Checks a description and fills in its defaults. */
whet_status whet_backward_check(whet_gradients *g);

/* ---- the layout ---- */

static inline bool wants_parameters(const whet_gradients *g) {
    return g->policies || g->sinks || g->alibi_slopes;
}

/* Floats of the sums over rows for one task: of keys, then of values. */
typedef struct sum_sizes {
    size_t keys, values, total;
} sum_sizes;

/* This and the workspace's: false on overflow. */
bool whet_backward_size_sums(const whet_gradients *g, const kernels *k, sum_sizes *size);

/* Bytes of scratch; false on overflow. */
bool whet_backward_scratch(const whet_gradients *g, const plan_shape *shape, size_t *bytes);

/* The workspace: sums over rows of every task, unless a task has them to itself; those of biases
 * and parameters, which several slices may share. */
typedef struct workspace_layout {
    size_t sums, bias, parameters, total;
} workspace_layout;

bool whet_backward_lay_out_workspace(const whet_gradients *g, const plan_shape *shape,
                                     workspace_layout *at);

/* The number of sets of panels of a slice. */
size_t whet_backward_sets(const plan_shape *shape);

/* Blocks of keys that the second phase adds up, each a task. */
size_t whet_backward_blocks_to_add(const whet_gradients *g, const plan_shape *shape);

/* Blocks of keys whose bias it adds up, each also a task. */
size_t whet_backward_bias_blocks(const whet_gradients *g);

/* Cuts scratch and workspace into the parts of a task of the first phase. */
void whet_backward_start_task(backward_work *w, const whet_plan *plan, size_t task, void *scratch);

/* ---- the steps of a task, in their order ---- */

/* What all values of the slice have in common. */
void whet_backward_find_common(backward_work *w);

/* The rows of a set in the kernels' layouts, before their first key. */
void whet_backward_start_set(backward_work *w, size_t set);

/* Logits and gradients of weights, and the sums over rows; or the logits alone. */
void whet_backward_first_sweep(backward_work *w);
void whet_backward_find_logits(backward_work *w);

/* The sums of a lane, and to another peak; with backward_part.h. */
backward_sums whet_backward_lane_sums(const backward_panel *p, size_t lane);
void whet_backward_set_lane(backward_panel *p, size_t lane, const backward_sums *sums);
void whet_backward_raise(backward_sums *sums, double exp2_scale, double exp2_scale0, double peak,
                         double base);

/* Whether sums over whole rows are this task's to add to those of parameters. */
static inline bool counts_rows(const backward_work *w) {
    return w->parameters && (!w->part || w->part->is_first);
}

/* After the first sweep over a part: leaves the sums of its rows, or takes those of all parts. */
void whet_backward_exchange(backward_work *w);

/* With skip, once all logits are known: the blocks that each panel leaves out. */
void whet_backward_choose_blocks(backward_work *w);

/* Whether a panel needs values of the block at `start`, of which it sees `keys`. */
bool whet_backward_needs_values(const backward_work *w, size_t index, size_t start, size_t keys);

/* Overwrites a tile where its keys are left out: with minus `values` by lane, or zeros. */
void whet_backward_leave_out(const backward_work *w, size_t index, size_t start, size_t keys,
                             const double *values, float *tile);

/* From the sums: what the gradients of logits are made of. */
void whet_backward_prepare(backward_work *w);

/* How a row is computed. */
panel_form whet_backward_form(const backward_work *w, const query_row *row);

/* The lanes of a panel with maps, except those computed row by row. */
void whet_backward_through_maps(backward_work *w, size_t index);

/* The same for one lane, or an idle lane of its panel: everything at once. */
void whet_backward_through_row(backward_work *w, size_t index, size_t lane);

/* Adds factor times the gradient of a policy's parameters. */
void whet_backward_add_parameters(double *sums, const whet_policy_gradient *parameters,
                                  double factor);

/* Weights and gradients of logits, and the products with them. */
void whet_backward_second_sweep(backward_work *w);

/* Gradients of queries; WHET_NOT_FINITE, and the first such row, if a row is not. */
whet_status whet_backward_finish_set(backward_work *w, whet_status status, uint64_t *first_bad_row);

/* Both gradients of a block of keys. sums are those of the slice's first task. */
void whet_backward_store_block(const kv_slice *slice, const whet_gradients *g, const float *sums,
                               size_t parts, size_t start);

/* The gradient of the bias of a block of keys: all tasks' sums. */
void whet_backward_store_bias(const whet_plan *plan, const plan_shape *shape, size_t start);

/* Gradients of parameters: all tasks' sums. */
void whet_backward_store_parameters(const whet_plan *plan, const plan_shape *shape);

/*
 * Plans one run; `part` must outlive the plan. Runs before the last have no gradients to write
 * except `betas`, which must be given but is not written. skip must be 0.
 */
whet_status whet_plan_backward_part(const whet_gradients *gradients, const backward_part *part,
                                    whet_plan *plan);

#endif
