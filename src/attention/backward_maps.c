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

void whet_backward_add_numbers(double *sums, const whet_policy_gradient *numbers, double factor) {
    double more[NUMBERS];
    memcpy(more, numbers, sizeof more);
    for (size_t i = 0; i < NUMBERS; i++)
        sums[i] += factor * more[i];
}

/* The two lanes of a row, and its sink; -inf if its map does not take one for an entry. */
typedef struct map_lanes_of_row {
    lane_row logits, slopes;
    float sink;
} map_lanes_of_row;

static map_lanes_of_row find_lanes(const back_work *w, size_t index, size_t lane) {
    const back_panel *p = w->panels + index;
    size_t first = p->low - p->low % BLOCK, at = backward_tile(w, index, first) + lane;
    map_lanes_of_row of = {.logits = {.row = &p->row[lane],
                                      .entries = w->logits + at,
                                      .step = w->lanes,
                                      .first = first,
                                      .end = p->high},
                           .sink = -INFINITY};
    of.slopes = of.logits;
    of.slopes.entries = w->slopes + at;
    if (lane < p->rows && policy_takes_sink(p->row[lane].policy))
        of.sink = sink_of_head(w->a, p->row[lane].head);
    return of;
}

/* Weights and gradients of one value; 0 where the logit is masked. */
static void fill_lanes(const map_lanes_of_row *of, float value) {
    whet_lane_fill(&of->slopes, &of->logits, value);
    whet_lane_fill(&of->logits, &of->logits, value);
}

/* The row with its sink, at which no gradient arrives; returns how many entries that makes. */
static size_t take_row(const back_work *w, const map_lanes_of_row *of, double common) {
    size_t n = whet_lane_take(&of->logits, w->row_logits);
    whet_lane_take(&of->slopes, w->row_slopes);
    for (size_t i = 0; i < n; i++)
        w->row_slopes[i] = (float)((double)w->row_slopes[i] + common);
    w->row_logits[n] = of->sink;
    w->row_slopes[n] = 0;
    return of->sink == -INFINITY ? n : n + 1;
}

/* False if something is not finite: filled with NaN then. Adds to the gradients of the policy's
 * numbers and of the sink. */
static bool turn_row(back_work *w, const map_lanes_of_row *of, double common,
                     whet_policy_gradient *numbers, double *sink) {
    const query_row *row = of->logits.row;
    whet_policy policy = whet_row_policy(&w->stream, row);
    size_t n = take_row(w, of, common);
    if (!whet_f32_row_backward(&policy, w->row_logits, w->row_slopes, n, w->row_logits,
                               w->row_slopes, policy_bias_is_log_n(row->policy) ? NULL : numbers)) {
        fill_lanes(of, NAN);
        return false;
    }
    whet_lane_put(&of->slopes, &of->logits, w->row_slopes);
    whet_lane_put(&of->logits, &of->logits, w->row_logits);
    if (of->sink > -INFINITY)
        *sink += (double)w->row_slopes[n - 1];
    return true;
}

void whet_backward_turn_map(back_work *w, size_t index, size_t lane) {
    back_panel *p = w->panels + index;
    const map_lanes_of_row of = find_lanes(w, index, lane);
    if (is_empty(p, lane) || p->bad[lane]) {
        fill_lanes(&of, p->bad[lane] ? NAN : 0);
        return;
    }
    whet_policy_gradient numbers = {.strength = 0};
    double sink = 0;
    p->bad[lane] = !turn_row(w, &of, p->common[lane], &numbers, &sink);
    if (p->bad[lane] || !w->parameters)
        return;
    parameter_sums *sums = w->parameters + p->row[lane].head % w->shape.group;
    whet_backward_add_numbers(sums->numbers, &numbers, 1);
    sums->sink += sink;
}
