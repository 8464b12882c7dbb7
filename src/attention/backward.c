/*
 * The way back through attention. With p a row's weights, v its values and g =
 * dL/dout . v the gradients of the weights:
 *
 *     D = sum p g          G = dL/dbeta = sum p (g - D) e
 *     dL/de = beta p (g - D) - G factor w (e - mean)     through beta, see beta_path
 *     dL/dv = p dL/dout    dL/dq = scale k dL/de    dL/dk = scale q dL/de
 *
 * A task takes every so-many-th set of panels of one stream (see tiles.h)
 * through two sweeps over the keys. The first computes logits and g and the
 * sums over a row that D, G and w need; both tiles are kept, so that the
 * second has but to turn them into p and dL/de and to multiply: five products,
 * none of them done twice. Distances are taken from the largest logit that was
 * met so far, g from what it was there: the sharper a row, the closer D comes to
 * that, and the more digits g - D would lose otherwise. For the same reason g is
 * computed without what all values have in common, column by column. The maximum of the way
 * forth would not do for either: it may have come about in another order of
 * summation, and beta makes much of a last bit. Gradients of keys and values are summed over the
 * task's rows in f32, a set at a time. Where a stream has several tasks, these
 * sums lie in the workspace and a second phase adds them up, in order; the
 * gradients of parameters are gathered and added likewise, in double.
 *
 * A row that is not finite gets NaN for 1 / Z and D, and with them for every
 * weight and slope of keys that it sees; masked ones are zeros whatever else.
 * What q and dL/dout hold of such rows is left out of the products, since zero
 * times NaN would reach keys that were masked; k likewise.
 *
 * Maps that are not a temperature come in between the sweeps, where the logits
 * and g of whole rows are at hand (see map_lane.h): their lanes hold weights and
 * dL/de from there on, and the second sweep leaves these as they are.
 */
#include "attention/map_lane.h"
#include "attention/tiles.h"
#include "base/checked.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define ROWS_TO_SET 288  /* what layout and loading sums are spread over ... */
#define ROWS_AT_LEAST 96 /* ... and where logits take more than KEPT_BYTES */
#define KEPT_BYTES ((size_t)25 << 20)
#define TASKS_WANTED 8 /* with fewer streams, each is divided into several tasks */
#define FOLD_BLOCKS 8  /* blocks of dL/dq summed in f32 before they join the totals in double */

/* Gradients of a head's parameters, one double each. */
enum { NUMBERS = sizeof(whet_policy_gradient) / sizeof(double) };
typedef struct parameter_sums {
    double numbers[NUMBERS]; /* a whet_policy_gradient */
    double sink, slope;
} parameter_sums;

/* What is known of the rows of one panel; the lane is always the last index. */
typedef struct panel {
    query_row row[LANES_MAX];
    size_t rows;      /* lanes in use */
    size_t low, high; /* the keys any of them sees */
    size_t maps;      /* lanes whose policy is not a temperature */
    whet_stats stats[LANES_MAX];
    bool bad[LANES_MAX];
    bool solved;                                        /* some w is not exp(e) / Z */
    double z[LANES_MAX], s[LANES_MAX];                  /* sums of exp(beta d), d exp(beta d) */
    double a[LANES_MAX], b[LANES_MAX];                  /* the same times g - base */
    double z0[LANES_MAX], s0[LANES_MAX], q0[LANES_MAX]; /* moments at beta0 */
    double distance[LANES_MAX];                         /* of dL/de times distance */
    double common[LANES_MAX]; /* dL/dout . what all values have in common: what g lacks */
    float peak[LANES_MAX];    /* the largest logit so far, the sink among them; -inf for none */
    panel_slopes by;          /* max is the peak, or 0 */
} panel;

/* A task's memory, cut into its parts. */
typedef struct work {
    key_stream stream;
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
    panel *panels;
    float *queries, *grads;          /* [panel][dim][lanes] of scaled q and of dL/dout */
    float *query_rows, *grad_rows;   /* [dim / columns][panel][lanes][columns] */
    float *query_sums;               /* [panel][head_dim][lanes], since the last fold */
    double *query_totals;            /* of everything before */
    float *keys, *values;            /* a block of each, interleaved */
    float *key_columns;              /* a block of keys for dL/dq */
    float *logits, *slopes, *capped; /* [panel][kept_keys][lanes]; capped with a soft-cap only */
    float *row_logits, *row_slopes; /* one row and a sink, for maps; a tile of either, to set ... */
    float *spare_logits, *spare_slopes; /* ... lanes aside in */
    float *rows;                        /* GROUP_MAX rows of HEAD_DIM_MAX, to convert in */
    float *key_sums, *value_sums;       /* [dim / columns][padded_keys][columns] */
    parameter_sums *parameters;         /* [group], or NULL if not wanted */
} work;

/* ---- dividing the work ---- */

static bool wants_parameters(const whet_gradients *g) {
    return g->policies || g->sinks || g->alibi_slopes;
}

/* Floats of the sums over rows for one task: of keys, then of values. */
typedef struct sum_sizes {
    size_t keys, values, total;
} sum_sizes;

static bool size_sums(const whet_gradients *g, const kernels *k, sum_sizes *size) {
    const whet_attention *a = &g->attention;
    *size = (sum_sizes){.total = 0};
    size_t padded = round_up(a->keys, BLOCK);
    size_t key_columns = g->k.data ? round_up(a->head_dim, k->outer_columns) : 0;
    size_t value_columns = g->v.data ? round_up(a->value_dim, k->outer_columns) : 0;
    return size_multiply(padded, key_columns, &size->keys) &&
           size_multiply(padded, value_columns, &size->values) &&
           size_add(size->keys, size->values, &size->total);
}

typedef struct layout {
    size_t panels, queries, grads, query_rows, grad_rows, query_sums, query_totals;
    size_t keys, values, key_columns, logits, slopes, capped, map_rows, spare, rows, sums, total;
} layout;

/* Keys that one set of panels may see. */
static size_t keys_to_set(const whet_attention *a, const plan_shape *shape) {
    size_t all = round_up(a->keys, BLOCK);
    if (a->window == 0 || a->window > a->keys)
        return all;
    size_t queries = shape->panels * shape->kernels->lanes / shape->group + 2;
    size_t seen = round_up(2 * a->window + queries, BLOCK) + BLOCK;
    return seen < all ? seen : all;
}

static bool lay_out(const whet_gradients *g, const plan_shape *shape, layout *at) {
    const whet_attention *a = &g->attention;
    const kernels *k = shape->kernels;
    size_t rows = shape->panels * k->lanes;
    size_t columns = round_up(a->head_dim, k->group);
    size_t outer = k->outer_columns;
    size_t row = shape->mapped ? keys_to_set(a, shape) + 1 : 0;
    size_t tile = shape->mapped ? BLOCK * k->lanes : 0;
    size_t kept;
    sum_sizes sums;
    *at = (layout){.total = 0};
    return size_multiply(keys_to_set(a, shape), rows, &kept) && size_sums(g, k, &sums) &&
           whet_place(&at->total, &at->panels, shape->panels, sizeof(panel)) &&
           whet_place(&at->total, &at->queries, a->head_dim * rows, sizeof(float)) &&
           whet_place(&at->total, &at->grads, a->value_dim * rows, sizeof(float)) &&
           whet_place(&at->total, &at->query_rows, round_up(a->head_dim, outer) * rows,
                      sizeof(float)) &&
           whet_place(&at->total, &at->grad_rows, round_up(a->value_dim, outer) * rows,
                      sizeof(float)) &&
           whet_place(&at->total, &at->query_sums, columns * rows, sizeof(float)) &&
           whet_place(&at->total, &at->query_totals, columns * rows, sizeof(double)) &&
           whet_place(&at->total, &at->keys, BLOCK * a->head_dim, sizeof(float)) &&
           whet_place(&at->total, &at->values, BLOCK * a->value_dim, sizeof(float)) &&
           whet_place(&at->total, &at->key_columns, BLOCK * columns, sizeof(float)) &&
           whet_place(&at->total, &at->logits, kept, sizeof(float)) &&
           whet_place(&at->total, &at->slopes, kept, sizeof(float)) &&
           whet_place(&at->total, &at->capped, a->softcap > 0 ? kept : 0, sizeof(float)) &&
           whet_place(&at->total, &at->map_rows, row, 2 * sizeof(float)) &&
           whet_place(&at->total, &at->spare, tile, 2 * sizeof(float)) &&
           whet_place(&at->total, &at->rows, (size_t)GROUP_MAX * HEAD_DIM_MAX, sizeof(float)) &&
           whet_place(&at->total, &at->sums, shape->chunks == 1 ? sums.total : 0, sizeof(float));
}

/* The workspace: sums over rows of every task, unless a task has them to itself; parameters. */
typedef struct workspace_layout {
    size_t sums, parameters, total;
} workspace_layout;

static bool lay_out_workspace(const whet_gradients *g, const plan_shape *shape,
                              workspace_layout *at) {
    size_t tasks, sums, parameters;
    sum_sizes size;
    *at = (workspace_layout){.total = 0};
    return size_multiply(shape->streams, shape->chunks, &tasks) &&
           size_sums(g, shape->kernels, &size) &&
           size_multiply(tasks, shape->chunks > 1 ? size.total : 0, &sums) &&
           size_multiply(tasks, wants_parameters(g) ? shape->group : 0, &parameters) &&
           whet_place(&at->total, &at->sums, sums, sizeof(float)) &&
           whet_place(&at->total, &at->parameters, parameters, sizeof(parameter_sums));
}

static size_t sets_of(const plan_shape *shape) {
    size_t rows = shape->panels * shape->kernels->lanes;
    return (shape->rows + rows - 1) / rows;
}

/* Panels to a set where a stream has so many tasks. */
static size_t panels_to_set(const whet_attention *a, const plan_shape *shape, size_t tasks) {
    size_t lanes = shape->kernels->lanes, least = (ROWS_AT_LEAST + lanes - 1) / lanes;
    size_t panels = (ROWS_TO_SET + lanes - 1) / lanes;
    size_t needed = (shape->rows + lanes - 1) / lanes;
    if (needed == 0)
        return 1;
    while (panels > least &&
           round_up(a->keys, BLOCK) > KEPT_BYTES / (2 * sizeof(float)) / (panels * lanes))
        panels--;
    /* as many sets for one task as for the other, unless that makes them too small */
    size_t rounds = (needed - 1) / (tasks * panels) + 1;
    size_t even = (needed - 1) / (tasks * rounds) + 1;
    panels = even > least ? even : least;
    return panels < needed ? panels : needed;
}

/* Blocks of keys that the second phase adds up, each a task. */
static size_t blocks_to_add(const whet_gradients *g, const plan_shape *shape) {
    if (shape->chunks == 1 || !(g->k.data || g->v.data))
        return 0;
    return round_up(g->attention.keys, BLOCK) / BLOCK;
}

static bool is_map(const whet_policy *policy) { return !whet_policy_is_temperature(policy); }

bool whet_plan_backward(whet_plan *plan, plan_shape *shape) {
    const whet_gradients *g = &plan->description.gradients;
    layout at;
    workspace_layout workspace;
    if (!g->q.data && !g->k.data && !g->v.data && !wants_parameters(g))
        return true; /* nothing to do: no phases */
    for (size_t i = 0; i < g->attention.policy_count; i++)
        if (is_map(&g->attention.policies[i]))
            shape->mapped = 1;
    shape->chunks = 1;
    if (shape->streams < TASKS_WANTED)
        shape->chunks = (TASKS_WANTED + shape->streams - 1) / shape->streams;
    shape->panels = panels_to_set(&g->attention, shape, shape->chunks);
    size_t sets = sets_of(shape);
    if (shape->chunks > sets)
        shape->chunks = sets > 0 ? sets : 1;
    if (!lay_out(g, shape, &at) || !lay_out_workspace(g, shape, &workspace))
        return false;
    plan->scratch_bytes = at.total;
    plan->workspace_bytes = workspace.total;
    size_t adding;
    if (!size_multiply(shape->streams, shape->chunks, &plan->tasks[0]) ||
        !size_multiply(shape->streams, blocks_to_add(g, shape), &adding))
        return false;
    plan->tasks[1] = adding + (wants_parameters(g) ? 1 : 0);
    plan->phases = plan->tasks[1] > 0 ? 2 : 1;
    return true;
}

/* ---- setting out ---- */

static float *floats_at(void *base, size_t offset) {
    return (float *)(void *)((char *)base + offset);
}

static void place_sums(work *w, const whet_plan *plan, size_t task, float *scratch_sums) {
    workspace_layout at;
    sum_sizes size;
    lay_out_workspace(w->gradients, &w->shape, &at);
    size_sums(w->gradients, w->k, &size);
    w->key_sums = scratch_sums;
    if (w->shape.chunks > 1)
        w->key_sums = floats_at(plan->workspace, at.sums) + task * size.total;
    w->value_sums = w->key_sums + size.keys;
    if (size.total > 0)
        memset(w->key_sums, 0, size.total * sizeof(float));
    w->parameters = NULL;
    if (wants_parameters(w->gradients)) {
        w->parameters = (parameter_sums *)(void *)((char *)plan->workspace + at.parameters) +
                        task * w->shape.group;
        memset(w->parameters, 0, w->shape.group * sizeof *w->parameters);
    }
}

/*
 * What every value has at least of a column: the smallest if all are above zero, the largest if
 * all are below. Taking it away makes no number larger. Keys that nobody sees are left out, as are
 * infinities and NaN.
 */
static void find_common(work *w) {
    float low[HEAD_DIM_MAX], high[HEAD_DIM_MAX];
    size_t dim = w->a->value_dim, rows = w->shape.rows;
    for (size_t i = 0; i < dim; i++) {
        low[i] = INFINITY;
        high[i] = -INFINITY;
    }
    /* limits do not fall from one query to the next */
    size_t start = rows > 0 ? whet_row_of(&w->stream, 0).low : 0;
    size_t end = rows > 0 ? whet_row_of(&w->stream, rows - 1).high : 0;
    for (size_t j = start; j < end; j++) {
        const float *v = whet_load_position(&w->stream, &w->a->v, j, dim, w->rows);
        for (size_t i = 0; i < dim; i++) {
            low[i] = v[i] < low[i] ? v[i] : low[i];
            high[i] = v[i] > high[i] ? v[i] : high[i];
        }
    }
    w->has_common = false;
    for (size_t i = 0; i < dim; i++) {
        float least = low[i] > 0 ? low[i] : high[i] < 0 ? high[i] : 0;
        w->common[i] = isfinite(least) ? least : 0;
        w->has_common = w->has_common || w->common[i] != 0;
    }
}

static void start_work(work *w, const whet_plan *plan, size_t task, void *scratch) {
    layout at;
    w->gradients = &plan->description.gradients;
    w->a = &w->gradients->attention;
    w->shape = whet_shape_of(plan);
    w->stream = whet_stream_at(plan, &w->shape, task / w->shape.chunks);
    w->k = w->shape.kernels;
    w->lanes = w->k->lanes;
    w->kept_keys = keys_to_set(w->a, &w->shape);
    w->padded_keys = round_up(w->a->keys, BLOCK);
    lay_out(w->gradients, &w->shape, &at);
    w->panels = (panel *)(void *)((char *)scratch + at.panels);
    w->queries = floats_at(scratch, at.queries);
    w->grads = floats_at(scratch, at.grads);
    w->query_rows = floats_at(scratch, at.query_rows);
    w->grad_rows = floats_at(scratch, at.grad_rows);
    w->query_sums = floats_at(scratch, at.query_sums);
    w->query_totals = (double *)(void *)((char *)scratch + at.query_totals);
    w->keys = floats_at(scratch, at.keys);
    w->values = floats_at(scratch, at.values);
    w->key_columns = floats_at(scratch, at.key_columns);
    w->logits = floats_at(scratch, at.logits);
    w->slopes = floats_at(scratch, at.slopes);
    w->capped = w->a->softcap > 0 ? floats_at(scratch, at.capped) : NULL;
    w->row_logits = floats_at(scratch, at.map_rows);
    w->row_slopes = w->row_logits + w->kept_keys + 1;
    w->spare_logits = floats_at(scratch, at.spare);
    w->spare_slopes = w->spare_logits + BLOCK * w->lanes;
    w->rows = floats_at(scratch, at.rows);
    place_sums(w, plan, task, floats_at(scratch, at.sums));
    find_common(w);
}

/* A row as one of the set's rows for `outer`, or zeros: [dim / columns][panels * lanes][columns].
 */
static void pack_row(const work *w, const float *row, size_t dim, size_t index, float *result) {
    size_t columns = w->k->outer_columns, set_rows = w->shape.panels * w->lanes;
    bool finite = row && w->k->finite(row, dim);
    for (size_t start = 0; start < dim; start += columns) {
        size_t count = dim - start < columns ? dim - start : columns;
        float *to = result + start * set_rows + index * columns;
        memset(to, 0, columns * sizeof(float));
        if (finite)
            memcpy(to, row + start, count * sizeof(float));
    }
}

static void start_lane(work *w, size_t index, size_t lane, size_t r) {
    panel *p = w->panels + index;
    query_row row = whet_row_of(&w->stream, r);
    p->row[lane] = row;
    p->maps += is_map(row.policy);
    p->stats[lane] = *whet_row_stats(&w->stream, &row);
    if (row.low < p->low)
        p->low = row.low;
    if (row.high > p->high)
        p->high = row.high;
    size_t at = index * w->lanes + lane;
    whet_load_query(&w->stream, &row, w->rows);
    whet_pack_lane(w->rows, w->a->head_dim, w->lanes, lane,
                   w->queries + index * w->a->head_dim * w->lanes);
    pack_row(w, w->rows, w->a->head_dim, at, w->query_rows);
    const float *grad =
        whet_load_row(&w->stream, &w->gradients->out, &row, w->a->value_dim, w->rows);
    whet_pack_lane(grad, w->a->value_dim, w->lanes, lane,
                   w->grads + index * w->a->value_dim * w->lanes);
    pack_row(w, grad, w->a->value_dim, at, w->grad_rows);
    p->common[lane] = 0;
    for (size_t i = 0; w->has_common && i < w->a->value_dim; i++)
        p->common[lane] += (double)grad[i] * (double)w->common[i];
}

static bool is_usable(const whet_stats *stats, const whet_policy *policy) {
    return !(stats->flags & WHET_ROW_NOT_FINITE) && fabs(stats->max) <= (double)FLT_MAX &&
           (is_map(policy) || isfinite(stats->beta));
}

/* Whether a lane has no row, or one that saw nothing. */
static bool is_empty(const panel *p, size_t lane) {
    return lane >= p->rows ||
           (p->stats[lane].n == 0 && !(p->stats[lane].flags & WHET_ROW_NOT_FINITE));
}

/* A lane before its first key: exponents from the statistics of the way forth; with a sink, which
 * no gradient arrives at, that is the largest logit so far. */
static void start_sums(const work *w, panel *p, size_t lane) {
    const whet_stats *stats = &p->stats[lane];
    panel_slopes *by = &p->by;
    bool empty = is_empty(p, lane);
    p->bad[lane] = !empty && !is_usable(stats, p->row[lane].policy);
    p->peak[lane] = -INFINITY;
    by->max[lane] = by->base[lane] = by->mean[lane] = by->mean0[lane] = 0;
    by->factor[lane] = by->beta[lane] = by->pull[lane] = 0;
    by->c[lane] = by->c0[lane] = 1;
    p->z[lane] = p->s[lane] = p->a[lane] = p->b[lane] = 0;
    p->z0[lane] = p->s0[lane] = p->q0[lane] = p->distance[lane] = 0;
    if (empty || p->bad[lane] || is_map(p->row[lane].policy))
        return;
    double beta0 = whet_beta_path_start(p->row[lane].policy, stats);
    by->c[lane] = whet_beta_to_c(stats->beta);
    by->c0[lane] = whet_beta_to_c(beta0);
    p->solved = p->solved || beta0 != 1;
    p->peak[lane] = w->a->sinks ? w->a->sinks[p->row[lane].head] : -INFINITY;
    if (p->peak[lane] > -INFINITY) {
        by->max[lane] = p->peak[lane];
        by->base[lane] = (float)-p->common[lane];
    }
}

static void start_panel(work *w, size_t index, size_t first_row) {
    panel *p = w->panels + index;
    size_t left = w->shape.rows - first_row;
    p->rows = left < w->lanes ? left : w->lanes;
    p->low = SIZE_MAX;
    p->high = 0;
    p->maps = 0;
    p->solved = false;
    for (size_t lane = 0; lane < w->lanes; lane++) {
        size_t at = index * w->lanes + lane;
        if (lane < p->rows) {
            start_lane(w, index, lane, first_row + lane);
        } else {
            pack_row(w, NULL, w->a->head_dim, at, w->query_rows);
            pack_row(w, NULL, w->a->value_dim, at, w->grad_rows);
            p->common[lane] = 0;
        }
        start_sums(w, p, lane);
    }
    if (p->low > p->high)
        p->low = p->high;
}

static void start_set(work *w, size_t set) {
    size_t first_row = set * w->shape.panels * w->lanes;
    size_t rows = w->shape.panels * w->lanes, left = w->shape.rows - first_row;
    w->panel_count = 0;
    while (w->panel_count < w->shape.panels && w->panel_count * w->lanes < left)
        w->panel_count++;
    w->first_key = SIZE_MAX;
    w->end_key = 0;
    memset(w->queries, 0, w->a->head_dim * rows * sizeof(float));
    memset(w->grads, 0, w->a->value_dim * rows * sizeof(float));
    for (size_t i = 0; i < w->panel_count; i++) {
        const panel *p = w->panels + i;
        start_panel(w, i, first_row + i * w->lanes);
        if (p->low < p->high && p->low < w->first_key)
            w->first_key = p->low;
        if (p->low < p->high && p->high > w->end_key)
            w->end_key = p->high;
    }
    if (w->first_key > w->end_key)
        w->first_key = w->end_key;
    w->first_key -= w->first_key % BLOCK;
}

/* ---- the first sweep ---- */

/* Keys of the block at `start` that a panel has to look at; 0: none. */
static size_t keys_in_block(const panel *p, size_t start) {
    if (p->high <= start || p->low >= start + BLOCK)
        return 0;
    return p->high - start < BLOCK ? p->high - start : BLOCK;
}

static size_t block_length(const work *w, size_t start) {
    return w->end_key - start < BLOCK ? w->end_key - start : BLOCK;
}

/* Where a panel's part of kept tiles lies for the block at `start`. */
static size_t tile_at(const work *w, size_t index, size_t start) {
    return (index * w->kept_keys + (start - w->first_key)) * w->lanes;
}

static void add_lanes(double *sums, const float *more, size_t lanes) {
    for (size_t lane = 0; lane < lanes; lane++)
        sums[lane] += (double)more[lane];
}

/* Brings sums of exp, d exp and d d exp to a maximum that lies `rise` higher. */
static void raise_sums(double rise, double c, double *z, double *s, double *q) {
    double factor = exp2(-c * rise);
    if (q)
        *q = factor * (*q - rise * (2 * *s - rise * *z));
    *s = factor * (*s - rise * *z);
    *z *= factor;
}

/* Brings the sums of a lane to a new largest logit, where the gradient is `base`. */
static void raise_lane(panel *p, size_t lane, float max, float base) {
    panel_slopes *by = &p->by;
    if (p->peak[lane] > -INFINITY) {
        double rise = (double)max - (double)by->max[lane];
        double step = (double)base - (double)by->base[lane];
        p->a[lane] -= step * p->z[lane];
        p->b[lane] -= step * p->s[lane];
        raise_sums(rise, (double)by->c[lane], &p->a[lane], &p->b[lane], NULL);
        raise_sums(rise, (double)by->c[lane], &p->z[lane], &p->s[lane], NULL);
        raise_sums(rise, (double)by->c0[lane], &p->z0[lane], &p->s0[lane], &p->q0[lane]);
    }
    p->peak[lane] = by->max[lane] = max;
    by->base[lane] = base;
}

static void raise_peaks(const work *w, panel *p, const float *logits, const float *slopes,
                        size_t keys) {
    float max[LANES_MAX], base[LANES_MAX];
    memcpy(max, p->peak, sizeof max);
    memcpy(base, p->by.base, sizeof base);
    w->k->panel_peak(logits, slopes, keys, max, base);
    for (size_t lane = 0; lane < w->lanes; lane++)
        if (max[lane] > p->peak[lane])
            raise_lane(p, lane, max[lane], base[lane]);
}

static void sum_tile(const work *w, panel *p, const float *logits, const float *slopes,
                     size_t keys) {
    float z[LANES_MAX], s[LANES_MAX], a[LANES_MAX], b[LANES_MAX];
    raise_peaks(w, p, logits, slopes, keys);
    w->k->panel_gradient_sums(logits, slopes, keys, p->by.max, p->by.c, p->by.base, z, s, a, b);
    add_lanes(p->z, z, w->lanes);
    add_lanes(p->s, s, w->lanes);
    add_lanes(p->a, a, w->lanes);
    add_lanes(p->b, b, w->lanes);
    if (!p->solved)
        return;
    w->k->panel_moments(logits, keys, p->by.max, p->by.c0, z, s, a);
    add_lanes(p->z0, z, w->lanes);
    add_lanes(p->s0, s, w->lanes);
    add_lanes(p->q0, a, w->lanes);
}

static void first_sweep(work *w) {
    const whet_attention *a = w->a;
    for (size_t start = w->first_key; start < w->end_key; start += BLOCK) {
        size_t length = block_length(w, start);
        whet_pack_interleaved(&w->stream, &a->k, a->head_dim, start, length, NULL, w->rows,
                              w->keys);
        whet_pack_interleaved(&w->stream, &a->v, a->value_dim, start, length,
                              w->has_common ? w->common : NULL, w->rows, w->values);
        rows_ahead ahead =
            whet_rows_ahead(&w->stream, &a->k, &a->v, start + length,
                            start + length + block_length(w, start + length), w->panel_count);
        for (size_t i = 0; i < w->panel_count; i++) {
            panel *p = w->panels + i;
            size_t keys = keys_in_block(p, start), at = tile_at(w, i, start);
            if (keys == 0)
                continue;
            whet_tile_logits(&w->stream, p->row, p->rows, w->keys,
                             w->queries + i * a->head_dim * w->lanes, start, keys, w->logits + at,
                             w->capped ? w->capped + at : NULL, &ahead);
            w->k->scores(w->values, (keys + w->k->group - 1) / w->k->group,
                         w->grads + i * a->value_dim * w->lanes, a->value_dim, w->slopes + at);
            if (p->maps < p->rows)
                sum_tile(w, p, w->logits + at, w->slopes + at, keys);
        }
    }
}

/* ---- in between ---- */

/* A row's sink: its distance to the maximum and its weight before division, at beta and beta0. */
typedef struct sink_weight {
    double d, e, e0;
} sink_weight;

static sink_weight weigh_sink(const work *w, const panel *p, size_t lane) {
    double sink = w->a->sinks ? (double)w->a->sinks[p->row[lane].head] : -(double)INFINITY;
    if (sink == -(double)INFINITY)
        return (sink_weight){0, 0, 0};
    double d = sink - (double)p->by.max[lane];
    return (sink_weight){d, exp2((double)p->by.c[lane] * d), exp2((double)p->by.c0[lane] * d)};
}

/* Moments at beta0 with the sink: those of the way forth where beta0 is 1, brought to the maximum
 * that was found here. */
static void complete_moments(panel *p, size_t lane, sink_weight sink) {
    const whet_stats *stats = &p->stats[lane];
    if (whet_beta_path_start(p->row[lane].policy, stats) == 1) {
        p->z0[lane] = stats->z;
        p->s0[lane] = stats->s;
        raise_sums((double)p->by.max[lane] - stats->max, (double)p->by.c0[lane], &p->z0[lane],
                   &p->s0[lane], NULL);
        return;
    }
    p->z0[lane] += sink.e0;
    p->s0[lane] += sink.d * sink.e0;
    p->q0[lane] += sink.d * sink.d * sink.e0;
}

static float to_float(double x) { return (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, x)); }

static void add_numbers(double *sums, const whet_policy_gradient *numbers, double factor) {
    double more[NUMBERS];
    memcpy(more, numbers, sizeof more);
    for (size_t i = 0; i < NUMBERS; i++)
        sums[i] += factor * more[i];
}

/* How a lane's weights and gradients lead back to its logits; its own share of parameters. */
static void turn_lane(work *w, panel *p, size_t lane) {
    panel_slopes *by = &p->by;
    const whet_stats *stats = &p->stats[lane];
    if (is_empty(p, lane))
        return;
    sink_weight sink = weigh_sink(w, p, lane);
    double base = (double)by->base[lane] + p->common[lane]; /* of g; a sink's g is 0 */
    double z = p->z[lane] + sink.e, s = p->s[lane] + sink.d * sink.e;
    double mean = (p->a[lane] - base * sink.e) / z;
    double slope = (p->b[lane] - base * sink.d * sink.e) / z - mean * (s / z); /* dL/dbeta */
    p->bad[lane] = p->bad[lane] || !(z > 0) || !isfinite(z) || !isfinite(mean) || !isfinite(slope);
    if (p->bad[lane]) {
        by->factor[lane] = by->mean[lane] = NAN;
        return;
    }
    beta_path path;
    complete_moments(p, lane, sink);
    double mean0 = p->s0[lane] / p->z0[lane];
    double variance = p->q0[lane] / p->z0[lane] - mean0 * mean0;
    whet_beta_path(p->row[lane].policy, stats, variance, &path);
    double pull = slope * path.factor / p->z0[lane];
    by->factor[lane] = (float)(1 / z);
    by->mean[lane] = (float)mean;
    by->beta[lane] = (float)stats->beta;
    if (path.factor != 0) {
        by->pull[lane] = to_float(pull);
        by->mean0[lane] = to_float(mean0);
        by->moves = 1;
    }
    if (!w->parameters)
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.group;
    add_numbers(sums->numbers, &path.numbers, slope);
    sums->sink -= stats->beta * (sink.e / z) * (base + mean);
    if (path.factor != 0)
        sums->sink -= pull * sink.e0 * (sink.d - mean0);
}

/* Whether the lanes of a panel that a temperature has not to turn are turned beforehand. */
static bool is_turned(const panel *p, size_t lane) {
    return p->maps > 0 && (lane >= p->rows || is_map(p->row[lane].policy));
}

/* The same for a lane with a map, or without a row beside such lanes: all of it at once. */
static void turn_map(work *w, size_t index, size_t lane) {
    panel *p = w->panels + index;
    size_t first = p->low - p->low % BLOCK, at = tile_at(w, index, first) + lane;
    const map_lane all = {.stream = &w->stream,
                          .row = &p->row[lane],
                          .logits = w->logits + at,
                          .slopes = w->slopes + at,
                          .step = w->lanes,
                          .first = first,
                          .end = p->high,
                          .common = p->common[lane],
                          .row_logits = w->row_logits,
                          .row_slopes = w->row_slopes};
    if (is_empty(p, lane) || p->bad[lane]) {
        whet_map_lane_fill(&all, p->bad[lane] ? NAN : 0);
        return;
    }
    whet_policy_gradient numbers = {.strength = 0};
    double sink = 0;
    p->bad[lane] = !whet_map_lane_turn(&all, &numbers, &sink);
    if (p->bad[lane] || !w->parameters)
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.group;
    add_numbers(sums->numbers, &numbers, 1);
    sums->sink += sink;
}

static void turn_panels(work *w) {
    for (size_t i = 0; i < w->panel_count; i++) {
        panel *p = w->panels + i;
        p->by.moves = 0;
        for (size_t lane = 0; lane < w->lanes; lane++) {
            if (!is_turned(p, lane))
                turn_lane(w, p, lane);
            else if (p->low < p->high)
                turn_map(w, i, lane);
        }
    }
}

/* ---- the second sweep ---- */

static void clear_queries(work *w) {
    size_t count = round_up(w->a->head_dim, w->k->group) * w->panel_count * w->lanes;
    memset(w->query_sums, 0, count * sizeof *w->query_sums);
    memset(w->query_totals, 0, count * sizeof *w->query_totals);
}

static void fold_queries(work *w) {
    size_t columns = round_up(w->a->head_dim, w->k->group) * w->panel_count;
    double unchanged[LANES_MAX];
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    w->k->fold(w->query_sums, columns, unchanged, w->query_totals);
}

/* Weights and slopes of a tile by temperatures; lanes that are turned already keep theirs. */
static void turn_temperatures(work *w, const panel *p, float *logits, float *slopes, size_t keys) {
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
static void turn_tile(work *w, size_t index, size_t start, size_t keys) {
    panel *p = w->panels + index;
    size_t at = tile_at(w, index, start);
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

static void add_queries(work *w, size_t index, size_t start, size_t keys) {
    size_t group = w->k->group, columns = round_up(w->a->head_dim, group);
    float unchanged[LANES_MAX];
    for (size_t lane = 0; lane < LANES_MAX; lane++)
        unchanged[lane] = 1;
    w->k->accumulate(w->key_columns, columns / group, BLOCK * group,
                     w->slopes + tile_at(w, index, start), keys, unchanged,
                     w->query_sums + index * columns * w->lanes);
}

/* Zeros for the keys that a panel did not look at, up to `end` of the block. */
static void clear_rest(work *w, size_t index, size_t start, size_t keys, size_t end) {
    size_t at = tile_at(w, index, start) + keys * w->lanes;
    memset(w->logits + at, 0, (end - keys) * w->lanes * sizeof(float));
    memset(w->slopes + at, 0, (end - keys) * w->lanes * sizeof(float));
}

/* Panels [first, end) of a set, and the groups of keys that any of them sees. */
typedef struct panel_range {
    size_t first, end, groups;
} panel_range;

/* Sums over the rows of panels, for the keys of a block. */
static void add_outer(const work *w, panel_range range, size_t start, const float *tiles,
                      const float *rows, size_t dim, float *sums) {
    size_t columns = w->k->outer_columns, set_rows = w->shape.panels * w->lanes;
    for (size_t c = 0; c < dim; c += columns)
        w->k->outer(tiles + tile_at(w, range.first, start), w->kept_keys * w->lanes,
                    range.end - range.first, range.groups,
                    rows + c * set_rows + range.first * w->lanes * columns,
                    sums + c * w->padded_keys + start * columns);
}

static void second_sweep_block(work *w, size_t start) {
    panel_range range = {SIZE_MAX, 0, 0};
    size_t most = 0;
    for (size_t i = 0; i < w->panel_count; i++) {
        size_t keys = keys_in_block(w->panels + i, start);
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
    for (size_t i = range.first; i < range.end; i++)
        clear_rest(w, i, start, keys_in_block(w->panels + i, start),
                   range.groups * w->k->outer_keys);
    if (w->gradients->v.data)
        add_outer(w, range, start, w->logits, w->grad_rows, w->a->value_dim, w->value_sums);
    if (w->gradients->k.data)
        add_outer(w, range, start, w->slopes, w->query_rows, w->a->head_dim, w->key_sums);
}

static void second_sweep(work *w) {
    size_t odd[BLOCK];
    clear_queries(w);
    for (size_t start = w->first_key; start < w->end_key; start += BLOCK) {
        /* keys that are not finite count as zeros: a row that sees one is not finite either, or
         * has it capped, with slope 0 */
        if (w->gradients->q.data)
            whet_pack_columns(&w->stream, &w->a->k, w->a->head_dim, start, block_length(w, start),
                              w->rows, w->key_columns, odd);
        second_sweep_block(w, start);
        if ((start - w->first_key) / BLOCK % FOLD_BLOCKS == FOLD_BLOCKS - 1)
            fold_queries(w);
    }
    fold_queries(w);
}

/* ---- results ---- */

static void store_query(work *w, size_t index, size_t lane) {
    const panel *p = w->panels + index;
    const double *total =
        w->query_totals + index * round_up(w->a->head_dim, w->k->group) * w->lanes + lane;
    for (size_t c = 0; c < w->a->head_dim; c++)
        w->rows[c] = p->bad[lane] ? NAN : (float)(total[c * w->lanes] * (double)w->a->scale);
    whet_store_row(&w->stream, &w->gradients->q, p->row[lane].head, p->row[lane].query, w->rows,
                   w->a->head_dim);
}

static whet_status finish_set(work *w, whet_status status, uint64_t *first_bad_row) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].rows; lane++) {
            const panel *p = w->panels + i;
            if (w->gradients->q.data)
                store_query(w, i, lane);
            if (!p->bad[lane]) {
                if (w->parameters)
                    w->parameters[p->row[lane].head % w->shape.group].slope -= p->distance[lane];
                continue;
            }
            uint64_t index = whet_row_index(&w->stream, &p->row[lane]);
            if (first_bad_row && (status == WHET_OK || index < *first_bad_row))
                *first_bad_row = index;
            status = WHET_NOT_FINITE;
        }
    return status;
}

/* Gradients of keys or values of a block from the sums of a stream's tasks, added in order. */
static void store_keys(const key_stream *stream, const whet_tensor_out *to, size_t dim,
                       const float *sums, size_t parts, size_t part_stride, size_t padded,
                       size_t start, size_t count) {
    size_t columns = stream->kernels->outer_columns;
    for (size_t j = start; j < start + count; j++) {
        float row[HEAD_DIM_MAX + OUTER_COLUMNS_MAX];
        for (size_t c = 0; c < dim; c += columns) {
            const float *part = sums + c * padded + j * columns;
            memcpy(row + c, part, columns * sizeof(float));
            for (size_t i = 1; i < parts; i++)
                stream->kernels->add(part + i * part_stride, columns, row + c);
        }
        whet_store_row(stream, to, stream->kv_head, j, row, dim);
    }
}

/* Both gradients of a block of keys. sums are those of the stream's first task. */
static void store_block(const key_stream *stream, const whet_gradients *g, const float *sums,
                        size_t parts, size_t start) {
    const whet_attention *a = &g->attention;
    size_t padded = round_up(a->keys, BLOCK);
    size_t count = a->keys - start < BLOCK ? a->keys - start : BLOCK;
    sum_sizes size;
    size_sums(g, stream->kernels, &size);
    if (g->k.data)
        store_keys(stream, &g->k, a->head_dim, sums, parts, size.total, padded, start, count);
    if (g->v.data)
        store_keys(stream, &g->v, a->value_dim, sums + size.keys, parts, size.total, padded, start,
                   count);
}

/* Parameters of every head, summed over batches, tasks and, where one policy serves all, heads. */
static void store_parameters(const whet_plan *plan, const plan_shape *shape) {
    const whet_gradients *g = &plan->description.gradients;
    const whet_attention *a = &g->attention;
    workspace_layout at;
    lay_out_workspace(g, shape, &at);
    const parameter_sums *all =
        (const parameter_sums *)(const void *)((const char *)plan->workspace + at.parameters);
    for (size_t i = 0; g->policies && i < a->policy_count; i++)
        memset(&g->policies[i], 0, sizeof g->policies[i]);
    for (size_t head = 0; head < a->heads; head++) {
        parameter_sums total = {.sink = 0};
        for (size_t batch = 0; batch < a->batch; batch++) {
            size_t stream = batch * a->kv_heads + head / shape->group;
            for (size_t part = 0; part < shape->chunks; part++) {
                const parameter_sums *more =
                    all + (stream * shape->chunks + part) * shape->group + head % shape->group;
                for (size_t i = 0; i < NUMBERS; i++)
                    total.numbers[i] += more->numbers[i];
                total.sink += more->sink;
                total.slope += more->slope;
            }
        }
        if (g->sinks)
            g->sinks[head] = (float)total.sink;
        if (g->alibi_slopes)
            g->alibi_slopes[head] = (float)total.slope;
        if (!g->policies)
            continue;
        double numbers[NUMBERS];
        whet_policy_gradient *to = &g->policies[a->policy_count > 1 ? head : 0];
        memcpy(numbers, to, sizeof numbers);
        for (size_t i = 0; i < NUMBERS; i++)
            numbers[i] += total.numbers[i];
        memcpy(to, numbers, sizeof numbers);
    }
}

static whet_status run_stream_part(const whet_plan *plan, size_t task, void *scratch,
                                   uint64_t *first_bad_row) {
    work w;
    whet_status status = WHET_OK;
    start_work(&w, plan, task, scratch);
    size_t sets = sets_of(&w.shape), parts = w.shape.chunks, part = task % parts;
    for (size_t first = 0; first < sets; first += parts) {
        /* dealt to and fro: under a causal mask later sets take longer */
        size_t set = first + (first / parts % 2 ? parts - 1 - part : part);
        if (set >= sets)
            continue;
        start_set(&w, set);
        first_sweep(&w);
        turn_panels(&w);
        second_sweep(&w);
        status = finish_set(&w, status, first_bad_row);
    }
    if (w.shape.chunks == 1)
        for (size_t start = 0; start < w.a->keys; start += BLOCK)
            store_block(&w.stream, w.gradients, w.key_sums, 1, start);
    return status;
}

whet_status whet_run_backward_task(const whet_plan *plan, unsigned phase, size_t task,
                                   void *scratch, uint64_t *first_bad_row) {
    if (phase == 0)
        return run_stream_part(plan, task, scratch, first_bad_row);
    const whet_gradients *g = &plan->description.gradients;
    plan_shape shape = whet_shape_of(plan);
    size_t blocks = blocks_to_add(g, &shape);
    if (blocks == 0 || task == shape.streams * blocks) {
        store_parameters(plan, &shape);
        return WHET_OK;
    }
    workspace_layout at;
    sum_sizes size;
    lay_out_workspace(g, &shape, &at);
    size_sums(g, shape.kernels, &size);
    key_stream stream = whet_stream_at(plan, &shape, task / blocks);
    const float *sums =
        floats_at(plan->workspace, at.sums) + task / blocks * shape.chunks * size.total;
    store_block(&stream, g, sums, shape.chunks, task % blocks * BLOCK);
    return WHET_OK;
}
