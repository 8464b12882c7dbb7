/*
 * The backward pass through maps other than softmax, between the sweeps: once the tiles
 * hold the logits and the gradients of the weights of all its keys, a row is extracted,
 * backpropagated as a whole by src/row, and put back as weights and gradients of the
 * logits.
 */
#include "attention/backward.h"
#include "attention/lane_row.h"
#include "row/row_backward.h"
#include <string.h>

void whet_backward_add_parameters(double *sums, const whet_policy_gradient *parameters,
                                  double factor) {
    double more[POLICY_PARAMETERS];
    memcpy(more, parameters, sizeof more);
    for (size_t i = 0; i < POLICY_PARAMETERS; i++)
        sums[i] += factor * more[i];
}

/* The two lanes of a row. */
typedef struct row_lanes {
    lane_row logits, weight_grads;
} row_lanes;

static row_lanes find_lanes(const backward_work *w, size_t index, size_t lane) {
    const backward_panel *p = w->panels + index;
    size_t first = p->low - p->low % BLOCK, at = backward_tile(w, index, first) + lane;
    row_lanes of = {.logits = {.row = &p->row[lane],
                               .entries = w->logits + at,
                               .stride = w->lanes,
                               .first = first,
                               .end = p->high}};
    of.weight_grads = of.logits;
    of.weight_grads.entries = w->weight_grads + at;
    return of;
}

/* Weights and gradients of one value; 0 where the logit is masked. */
static void fill_lanes(const row_lanes *of, float value) {
    whet_lane_fill(&of->weight_grads, &of->logits, value);
    whet_lane_fill(&of->logits, &of->logits, value);
}

static double given(const float *gradients, uint64_t index) {
    return gradients ? (double)gradients[index] : 0;
}

/* Whoever has the other parts of the row computes it. */
static bool visit_part(const backward_work *w, const query_row *row, const row_view *logits,
                       const whet_stats *stats, row_gradients *gradients) {
    bool has_values = w->part->run != RUN_LOGITS;
    part_row part = {.index = whet_row_index(&w->slice, row),
                     .slice = &w->slice,
                     .row = row,
                     .stats = stats,
                     .logits = *logits,
                     .gradients = has_values ? gradients : NULL};
    part.logits.has_sink = false;
    return w->part->visit(w->part->context, &part);
}

/* False if something is not finite: filled with NaN then. */
static bool through_row(backward_work *w, const row_lanes *of, const whet_stats *stats,
                        row_gradients *gradients) {
    const query_row *row = of->logits.row;
    row_view view = whet_row_form(&w->slice, row, w->row_logits);
    row_view arriving = {.kernels = w->k, .n = view.n, .in = w->row_grads};
    row_job job = whet_row_plan(row->policy, false);
    if (view.n > 0) {
        whet_lane_take(&of->logits, w->row_logits);
        whet_lane_take(&of->weight_grads, w->row_grads);
    }
    view.out = w->row_grads;
    row_gradients own = *gradients;
    own.out = &arriving;
    own.weights = w->row_logits;
    bool is_finite =
        w->part ? visit_part(w, row, &view, stats, &own) : whet_row_backward(&view, &job, &own);
    if (w->part && w->part->run != RUN_GRADIENTS)
        return true;
    gradients->beta = own.beta;
    gradients->sink = own.sink;
    if (!is_finite) {
        fill_lanes(of, NAN);
        return false;
    }
    whet_lane_put(&of->weight_grads, &of->logits, w->row_grads);
    whet_lane_put(&of->logits, &of->logits, w->row_logits);
    return true;
}

/* A row that sees no key: its sink, if it has one, is all there is of its logsumexp. */
static void through_empty_row(backward_work *w, backward_panel *p, size_t lane) {
    if (lane >= p->row_count || p->bad[lane] || p->row[lane].sink == -INFINITY)
        return;
    double sink_grad = given(w->gradients->logsumexp, whet_row_index(&w->slice, &p->row[lane]));
    p->bad[lane] = !isfinite(sink_grad);
    if (counts_rows(w) && !p->bad[lane])
        w->parameters[p->row[lane].head % w->shape.heads_per_kv].sink += sink_grad;
}

void whet_backward_through_row(backward_work *w, size_t index, size_t lane) {
    backward_panel *p = w->panels + index;
    bool has_tiles = p->low < p->high;
    if (is_empty(p, lane) || !(has_tiles || w->part))
        through_empty_row(w, p, lane);
    if (!has_tiles && (is_empty(p, lane) || p->bad[lane] || !w->part))
        return;
    /* a part may have no keys that the row sees */
    const row_lanes of =
        has_tiles ? find_lanes(w, index, lane) : (row_lanes){.logits = {.row = &p->row[lane]}};
    if (is_empty(p, lane) || p->bad[lane]) {
        fill_lanes(&of, p->bad[lane] ? NAN : 0);
        return;
    }
    const whet_gradients *g = w->gradients;
    uint64_t row = whet_row_index(&w->slice, &p->row[lane]);
    whet_policy_gradient parameters = {.strength = 0};
    row_gradients gradients = {.common = p->common[lane],
                               .logsumexp = given(g->logsumexp, row),
                               .entropy = given(g->entropy, row),
                               .entropy_after = given(g->entropy_after, row),
                               .wants_beta = g->betas != NULL,
                               .parameters = w->parameters ? &parameters : NULL};
    p->bad[lane] = !through_row(w, &of, &p->stats[lane], &gradients);
    if (p->bad[lane])
        return;
    p->beta_grad[lane] = gradients.beta;
    if (!w->parameters)
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.heads_per_kv;
    whet_backward_add_parameters(sums->parameters, &parameters, 1);
    sums->sink += gradients.sink;
}
