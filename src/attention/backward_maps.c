/*
 * The backward pass through maps that are not a temperature, between the sweeps:
 * once the logits and the gradients of the weights of all its keys are in the
 * tiles, a row is taken out, backpropagated as a whole by src/row, and put back
 * as weights and gradients of the logits.
 */
#include "attention/backward.h"
#include "attention/extra_logits.h"
#include "attention/lane_row.h"
#include <string.h>

void whet_backward_add_parameters(double *sums, const whet_policy_gradient *parameters,
                                  double factor) {
    double more[POLICY_PARAMETERS];
    memcpy(more, parameters, sizeof more);
    for (size_t i = 0; i < POLICY_PARAMETERS; i++)
        sums[i] += factor * more[i];
}

/* The two lanes of a row, and its sink; -inf if its map does not take one for an entry. */
typedef struct row_lanes {
    lane_row logits, weight_grads;
    float sink;
} row_lanes;

static row_lanes find_lanes(const backward_work *w, size_t index, size_t lane) {
    const backward_panel *p = w->panels + index;
    size_t first = p->low - p->low % BLOCK, at = backward_tile(w, index, first) + lane;
    row_lanes of = {.logits = {.row = &p->row[lane],
                               .entries = w->logits + at,
                               .step = w->lanes,
                               .first = first,
                               .end = p->high},
                    .sink = -INFINITY};
    of.weight_grads = of.logits;
    of.weight_grads.entries = w->weight_grads + at;
    if (lane < p->rows && policy_takes_sink(p->row[lane].policy))
        of.sink = sink_of_head(w->a, p->row[lane].head);
    return of;
}

/* Weights and gradients of one value; 0 where the logit is masked. */
static void fill_lanes(const row_lanes *of, float value) {
    whet_lane_fill(&of->weight_grads, &of->logits, value);
    whet_lane_fill(&of->logits, &of->logits, value);
}

/* The row with its sink, at which no gradient arrives; returns how many entries that makes. */
static size_t take_row(const backward_work *w, const row_lanes *of, double common) {
    size_t n = whet_lane_take(&of->logits, w->row_logits);
    whet_lane_take(&of->weight_grads, w->row_grads);
    for (size_t i = 0; i < n; i++)
        w->row_grads[i] = (float)((double)w->row_grads[i] + common);
    w->row_logits[n] = of->sink;
    w->row_grads[n] = 0;
    return of->sink == -INFINITY ? n : n + 1;
}

/* False if something is not finite: filled with NaN then. Adds to the gradients of the policy's
 * parameters and of the sink. */
static bool through_map(backward_work *w, const row_lanes *of, double common,
                        whet_policy_gradient *parameters, double *sink) {
    const query_row *row = of->logits.row;
    whet_policy policy = whet_row_policy(&w->slice, row);
    size_t n = take_row(w, of, common);
    if (!whet_f32_row_backward(&policy, w->row_logits, w->row_grads, n, w->row_logits, w->row_grads,
                               policy_bias_is_log_n(row->policy) ? NULL : parameters)) {
        fill_lanes(of, NAN);
        return false;
    }
    whet_lane_put(&of->weight_grads, &of->logits, w->row_grads);
    whet_lane_put(&of->logits, &of->logits, w->row_logits);
    if (of->sink > -INFINITY)
        *sink += (double)w->row_grads[n - 1];
    return true;
}

void whet_backward_through_map(backward_work *w, size_t index, size_t lane) {
    backward_panel *p = w->panels + index;
    const row_lanes of = find_lanes(w, index, lane);
    if (is_empty(p, lane) || p->bad[lane]) {
        fill_lanes(&of, p->bad[lane] ? NAN : 0);
        return;
    }
    whet_policy_gradient parameters = {.strength = 0};
    double sink = 0;
    p->bad[lane] = !through_map(w, &of, p->common[lane], &parameters, &sink);
    if (p->bad[lane] || !w->parameters)
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.heads_per_kv;
    whet_backward_add_parameters(sums->parameters, &parameters, 1);
    sums->sink += sink;
}
