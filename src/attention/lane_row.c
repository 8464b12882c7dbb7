/* One row of a panel on the way back through a map: see lane_row.h. */
#include "attention/lane_row.h"
#include "attention/mask.h"
#include <math.h>

void whet_map_lane_fill(const map_lane *lane, float value) {
    for (size_t i = 0; i < (lane->end - lane->first) * lane->step; i += lane->step) {
        bool masked = lane->logits[i] == -INFINITY;
        lane->logits[i] = lane->slopes[i] = masked ? 0 : value;
    }
}

/* The sink of the row if its map takes one for an entry, or -inf: sigmoid looks at every logit by
 * itself, stick-breaking comes to the sink last. */
static float sink_of(const map_lane *lane) {
    const float *sinks = lane->stream->attention->sinks;
    uint32_t kind = lane->row->policy->kind;
    if (!sinks || kind == WHET_POLICY_SIGMOID || kind == WHET_POLICY_STICK_BREAKING)
        return -INFINITY;
    return sinks[lane->row->head];
}

/* The row with its sink, at which nothing arrives; returns how many entries that makes. */
static size_t take_out(const map_lane *lane, float sink) {
    size_t n = lane->row->high - lane->row->low;
    size_t at = (lane->row->low - lane->first) * lane->step;
    for (size_t i = 0; i < n; i++, at += lane->step) {
        lane->row_logits[i] = lane->logits[at];
        lane->row_slopes[i] = (float)((double)lane->slopes[at] + lane->common);
    }
    lane->row_logits[n] = sink;
    lane->row_slopes[n] = 0;
    return sink == -INFINITY ? n : n + 1;
}

static void put_back(const map_lane *lane) {
    for (size_t j = lane->first, at = 0; j < lane->end; j++, at += lane->step) {
        bool masked = lane->logits[at] == -INFINITY; /* as is all that the row does not see */
        lane->logits[at] = masked ? 0 : lane->row_logits[j - lane->row->low];
        lane->slopes[at] = masked ? 0 : lane->row_slopes[j - lane->row->low];
    }
}

bool whet_map_lane_turn(const map_lane *lane, whet_policy_gradient *numbers, double *sink) {
    whet_policy policy = *lane->row->policy;
    bool by_count = policy.kind == WHET_POLICY_SIGMOID && isnan(policy.value[0]);
    if (by_count)
        policy.value[0] = log((double)whet_count_visible(lane->stream, lane->row));
    float logit = sink_of(lane);
    size_t n = take_out(lane, logit);
    if (!whet_f32_row_backward(&policy, lane->row_logits, lane->row_slopes, n, lane->row_logits,
                               lane->row_slopes, by_count ? NULL : numbers)) {
        whet_map_lane_fill(lane, NAN);
        return false;
    }
    put_back(lane);
    if (logit > -INFINITY)
        *sink += (double)lane->row_slopes[n - 1];
    return true;
}
