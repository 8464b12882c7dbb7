/*
 * The backward pass through maps other than softmax, between the sweeps, all lanes of a panel at
 * once. What the search for a row's threshold is in prefill (panel_maps.h) comes first. After
 * that, exponentials of a part of a row are a softmax whose other entries are masked, which the
 * second sweep takes like any other. Maps whose gradients have the form own g - shared D
 * (policy/map.h) take one pass over the tiles for the sums in D and in the gradient of beta, and
 * one that leaves coefficients and gradients of logits for the second sweep; stick-breaking takes
 * one in either direction.
 *
 * Rows whose beta moves with their logits, or whose statistics have gradients, go one by one
 * (backward_by_row.c); so do some sinks, and rows with skip.
 */
#include "attention/backward.h"
#include "attention/mask.h"
#include <float.h>
#include <math.h>
#include <string.h>

panel_form whet_backward_form(const backward_work *w, const query_row *row) {
    unsigned moving = NEEDS_SUMS | NEEDS_SEARCH | NEEDS_STATS;
    panel_form form = whet_panel_form(row->policy);
    /* rows of which a part is here are computed by whoever has all parts */
    if (has_statistics_gradients(w->gradients) || (w->part && is_by_row(w->gradients, row->policy)))
        return PANEL_BY_ROW;
    if (whet_policy_is_temperature(row->policy))
        return PANEL_EXP;
    bool moves = !w->a->betas && (row->temperature->needs & moving);
    bool has_sink = row->sink != -INFINITY && !form_is_exponential(form);
    bool is_alone = moves || has_sink || form == PANEL_EXP_LARGEST || w->a->skip > 0;
    return is_alone ? PANEL_BY_ROW : form;
}

/* A walk over the kept tiles of a panel, from the first to the last or back. */
typedef struct tile_walk {
    const backward_work *w;
    size_t index, start, keys;
    float *logits, *grads;
} tile_walk;

static bool find_tile(tile_walk *t, size_t start) {
    const backward_panel *p = t->w->panels + t->index;
    size_t at = backward_tile(t->w, t->index, start);
    t->start = start;
    t->keys = keys_in_block(p->low, p->high, start);
    t->logits = t->w->logits + at;
    t->grads = t->w->weight_grads + at;
    return t->keys > 0;
}

static tile_walk walk_tiles(const backward_work *w, size_t index) {
    return (tile_walk){.w = w, .index = index, .start = SIZE_MAX};
}

static bool next_tile(tile_walk *t) {
    const backward_panel *p = t->w->panels + t->index;
    size_t start = t->start == SIZE_MAX ? p->low - p->low % BLOCK : t->start + BLOCK;
    return start < p->high && find_tile(t, start);
}

static bool tile_before(tile_walk *t) {
    const backward_panel *p = t->w->panels + t->index;
    if (t->start == SIZE_MAX)
        return p->low < p->high && find_tile(t, (p->high - 1) / BLOCK * BLOCK);
    return t->start > p->low && find_tile(t, t->start - BLOCK);
}

/* ---- lanes ---- */

static void start_bias(const backward_work *w, panel_maps *maps, const query_row *row,
                       size_t lane) {
    double bias = row->policy->map_value[0];
    if (isnan(bias))
        bias = log((double)whet_count_visible(&w->slice, row));
    whet_maps_set_bias(maps, lane, bias);
}

/* Gradients of weights count from the one at the largest logit where they are compared with a mean;
 * else from zero. */
static void start_lane(const backward_work *w, backward_panel *p, panel_maps *maps, size_t lane) {
    const query_row *row = &p->row[lane];
    panel_form form = p->form[lane];
    const whet_stats found = {.max = (double)p->to_logits.max[lane],
                              .beta = whet_bound_beta(p->stats[lane].beta)};
    whet_maps_set_lane(maps, lane, form, row->sink);
    if (form == PANEL_SIGMOID)
        start_bias(w, maps, row, lane);
    whet_maps_search(maps, lane, row->policy->map_value[0], &found);
    if (form == PANEL_SIGMOID || form == PANEL_STICK)
        p->to_logits.base[lane] = (float)-p->common[lane];
}

/* Rows that are empty or spoilt are filled one by one. */
static void start_lanes(const backward_work *w, backward_panel *p, panel_maps *maps) {
    whet_maps_clear(maps, w->lanes);
    for (size_t lane = 0; lane < p->row_count; lane++) {
        bool is_idle = is_empty(p, lane) || p->bad[lane];
        if (p->form[lane] == PANEL_EXP || p->form[lane] == PANEL_BY_ROW)
            continue;
        if (is_idle && !form_is_exponential(p->form[lane]))
            p->form[lane] = PANEL_BY_ROW;
        else if (!is_idle)
            start_lane(w, p, maps, lane);
    }
}

static void search(const backward_work *w, size_t index, panel_maps *maps) {
    while (whet_maps_begin_pass(maps, w->lanes)) {
        for (tile_walk t = walk_tiles(w, index); next_tile(&t);)
            whet_maps_look(maps, w->k, t.logits, t.keys);
        whet_maps_end_pass(maps, w->lanes);
    }
}

/* ---- exponentials of a part of the row ---- */

/* Gives a lane up to backward_by_row.c, which fills it with NaN. */
static void spoil(backward_panel *p, size_t lane) {
    p->bad[lane] = true;
    p->settled += form_is_exponential(p->form[lane]);
    p->form[lane] = PANEL_BY_ROW;
}

/* Rows that are not finite are so in all keys, those that would be left out, too. */
static void spoil_before_leaving_out(backward_panel *p, panel_maps *maps) {
    for (size_t lane = 0; lane < p->row_count; lane++)
        if (p->form[lane] == PANEL_EXP_KTH && (p->bad[lane] || !isfinite(p->a[lane]))) {
            spoil(p, lane);
            maps->lanes.lowest[lane] = -INFINITY;
        }
}

/* Masks what is left out and sums the rest again. Gradients that are not finite are known from the
 * sums over all. */
static void sum_kept(const backward_work *w, size_t index, const panel_maps *maps) {
    backward_panel *p = w->panels + index;
    double sums[4][LANES_MAX] = {{0}};
    for (tile_walk t = walk_tiles(w, index); next_tile(&t);) {
        float z[LANES_MAX], s[LANES_MAX], a[LANES_MAX], b[LANES_MAX];
        w->k->map_keep(t.logits, t.keys, &maps->lanes);
        w->k->panel_gradient_sums(t.logits, t.grads, t.keys, p->to_logits.max,
                                  p->to_logits.exp2_scale, p->to_logits.base, z, s, a, b);
        add_lanes(sums[0], z, w->lanes);
        add_lanes(sums[1], s, w->lanes);
        add_lanes(sums[2], a, w->lanes);
        add_lanes(sums[3], b, w->lanes);
    }
    for (size_t lane = 0; lane < p->row_count; lane++) {
        if (p->form[lane] != PANEL_EXP_KTH)
            continue;
        p->z[lane] = sums[0][lane];
        p->s[lane] = sums[1][lane];
        p->a[lane] = sums[2][lane];
        p->b[lane] = sums[3][lane];
        if (p->row[lane].sink < maps->lanes.lowest[lane])
            p->row[lane].sink = -INFINITY;
    }
}

/* ---- own g - shared D ---- */

/* map_gradient_sums and map_backward of a whole row, and the gradient of its map's parameter. */
typedef struct map_totals {
    double norm, mean, mean_g, parameter, parameter_g;
    double sum, sum_d;
    double parameter_grad;
} map_totals;

/* What becomes of the gradients of a row's beta and of its map's parameter. */
static void note_parameters(backward_work *w, backward_panel *p, size_t lane, double beta_grad,
                            double parameter_grad) {
    const query_row *row = &p->row[lane];
    whet_policy_gradient parameters = {.strength = 0};
    beta_derivative derivative = {.beta0 = 1};
    p->bad[lane] = !isfinite(beta_grad);
    p->beta_grad[lane] = beta_grad;
    if (w->a->betas && !whet_beta_is_free((double)w->a->betas[whet_row_index(&w->slice, row)]))
        p->beta_grad[lane] = 0;
    if (!w->parameters || p->bad[lane])
        return;
    if (!w->a->betas)
        whet_differentiate_beta(row->policy, &p->stats[lane], (double)NAN, &derivative);
    whet_add_parameters(&derivative.parameters, beta_grad, &parameters);
    parameters.map_value[0] += parameter_grad;
    whet_backward_add_parameters(w->parameters[row->head % w->shape.heads_per_kv].parameters,
                                 &parameters, 1);
}

static double beta_of(const backward_panel *p, size_t lane) {
    return whet_positive_beta(whet_bound_beta(p->stats[lane].beta));
}

/*
 * D, and with it the second pass. Softpick's sum of coefficients P may be below one: with g counted
 * from b, own g - shared D is own (g - D + b (1 - P)) + (own - shared) (D + b P).
 */
static void find_mean(backward_panel *p, size_t lane, map_totals *sums, map_backward *at) {
    const query_row *row = &p->row[lane];
    unsigned traits = row->map->traits;
    bool is_default = p->form[lane] == PANEL_SIGMOID && isnan(row->policy->map_value[0]);
    double unit = traits & MAP_SUMS_TO_ONE || p->form[lane] == PANEL_SOFTPICK ? 1 / sums->norm : 1;
    double mean = traits & MAP_MEAN_OVER_SUM ? sums->mean_g / sums->mean : sums->mean_g;
    at->base[lane] = p->to_logits.base[lane];
    at->slope[lane] = (float)beta_of(p, lane);
    if (p->form[lane] == PANEL_SOFTPICK) {
        double base = (double)at->base[lane] + p->common[lane];
        unit = sums->norm > 0 ? unit : 0;
        at->slope[lane] = (float)(beta_of(p, lane) * unit);
        at->full_mean[lane] = (float)(unit * (mean + base * sums->mean));
        mean = unit * (mean - base * (sums->norm - sums->mean));
    }
    at->mean[lane] = (float)mean;
    at->unit[lane] = (float)unit;
    sums->parameter_grad = is_default ? 0 : sums->parameter_g - mean * sums->parameter;
    if (!isfinite(mean) || !isfinite(unit))
        spoil(p, lane);
}

static void sum_terms(const backward_work *w, size_t index, const panel_maps *maps,
                      gradient_form kernel, map_totals *sums) {
    const backward_panel *p = w->panels + index;
    for (tile_walk t = walk_tiles(w, index); next_tile(&t);) {
        map_gradient_sums found;
        w->k->map_gradient_sums(kernel, t.logits, t.grads, t.keys, &maps->lanes, p->to_logits.base,
                                w->parameters != NULL, &found);
        for (size_t lane = 0; lane < p->row_count; lane++) {
            sums[lane].norm += (double)found.norm[lane];
            sums[lane].mean += (double)found.mean[lane];
            sums[lane].mean_g += (double)found.mean_g[lane];
            sums[lane].parameter += (double)found.parameter[lane];
            sums[lane].parameter_g += (double)found.parameter_g[lane];
        }
    }
}

static void take_form(backward_work *w, size_t index, panel_maps *maps, panel_form form,
                      gradient_form kernel) {
    backward_panel *p = w->panels + index;
    map_totals sums[LANES_MAX] = {{.norm = 0}};
    map_backward at = {.base = {0}};
    if (maps->used[form] == 0)
        return;
    sum_terms(w, index, maps, kernel, sums);
    for (size_t lane = 0; lane < p->row_count; lane++) {
        if (p->form[lane] == form)
            find_mean(p, lane, &sums[lane], &at);
        if (p->form[lane] != form)
            maps->chosen[form][lane] = 0;
    }
    for (tile_walk t = walk_tiles(w, index); next_tile(&t);) {
        w->k->map_gradients(kernel, t.logits, t.grads, t.keys, maps->chosen[form], &maps->lanes,
                            &at);
        for (size_t lane = 0; lane < p->row_count; lane++) {
            sums[lane].sum += (double)at.sum[lane];
            sums[lane].sum_d += (double)at.sum_d[lane];
        }
    }
    for (size_t lane = 0; lane < p->row_count; lane++) {
        if (p->form[lane] != form)
            continue;
        /* where coefficients sum to one, the gradients sum to zero */
        bool is_level = p->row[lane].map->traits & MAP_SUMS_TO_ONE;
        double level = is_level ? 0 : (double)p->to_logits.max[lane] * sums[lane].sum;
        note_parameters(w, p, lane, (sums[lane].sum_d + level) / beta_of(p, lane),
                        sums[lane].parameter_grad);
    }
}

/* ---- stick-breaking ---- */

static void take_sticks(backward_work *w, size_t index, panel_maps *maps) {
    backward_panel *p = w->panels + index;
    float *chosen = maps->chosen[PANEL_STICK];
    float q[LANES_MAX] = {0}, left[LANES_MAX], found[LANES_MAX];
    double beta_grads[LANES_MAX] = {0};
    if (maps->used[PANEL_STICK] == 0)
        return;
    for (tile_walk t = walk_tiles(w, index); next_tile(&t);)
        w->k->map_stick_climb(t.logits, t.grads, t.keys, chosen, &maps->lanes, p->to_logits.base,
                              q);
    for (size_t lane = 0; lane < w->lanes; lane++) {
        left[lane] = 1;
        if (p->form[lane] == PANEL_STICK && !isfinite(q[lane])) {
            spoil(p, lane);
            chosen[lane] = 0;
        }
    }
    for (tile_walk t = walk_tiles(w, index); tile_before(&t);) {
        w->k->map_stick_descend(t.logits, t.grads, t.keys, chosen, &maps->lanes, left, found);
        add_lanes(beta_grads, found, w->lanes);
    }
    for (size_t lane = 0; lane < p->row_count; lane++)
        if (p->form[lane] == PANEL_STICK)
            note_parameters(w, p, lane, beta_grads[lane], 0);
}

void whet_backward_through_maps(backward_work *w, size_t index) {
    backward_panel *p = w->panels + index;
    panel_maps *maps = w->maps;
    start_lanes(w, p, maps);
    search(w, index, maps);
    if (maps->leaves_out) {
        spoil_before_leaving_out(p, maps);
        sum_kept(w, index, maps);
    }
    take_form(w, index, maps, PANEL_SIGMOID, GRADIENT_SIGMOID);
    take_form(w, index, maps, PANEL_SOFTPICK, GRADIENT_SOFTPICK);
    take_form(w, index, maps, PANEL_ENTMAX, GRADIENT_ENTMAX);
    take_form(w, index, maps, PANEL_POWER, GRADIENT_POWER);
    take_sticks(w, index, maps);
}
