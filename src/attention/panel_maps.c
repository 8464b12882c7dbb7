/* Maps over panels: see panel_maps.h. */
#include "attention/panel_maps.h"
#include "attention/policy_traits.h"
#include "row/row.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Changes of a threshold that sums in f32 no longer tell apart from nothing. */
#define EXACT_TOLERANCE 1e-7
#define POWER_TOLERANCE 1e-6
#define REACH 0.1 /* and from how far away such sums still tell a threshold */

/* Every second pivot halves what the bits of a float leave open: this is never reached. */
#define KTH_STEPS_MAX 100

static map_way way_of(const whet_policy *policy) {
    switch (policy->kind) {
    case WHET_POLICY_SIGMOID:
        return WAY_SIGMOID;
    case WHET_POLICY_STICK_BREAKING:
        return WAY_STICK;
    case WHET_POLICY_ENTMAX:
        return whet_entmax_is_exact(policy->value[0]) ? WAY_ENTMAX : WAY_POWER;
    default:
        return WAY_EXP;
    }
}

void whet_maps_clear(panel_maps *maps, size_t lanes) {
    memset(maps, 0, sizeof *maps);
    for (size_t lane = 0; lane < lanes; lane++) {
        maps->kth[lane].done = true;
        maps->entmax[lane].done = 1;
        maps->lanes.lowest[lane] = -INFINITY;
        maps->lanes.left[lane] = 1;
        maps->lanes.factor[lane] = 1;
        /* whoever has nothing to search for has masked entries alone, which these leave at zero */
        maps->lanes.scale[lane] = 1;
        maps->lanes.power[lane] = 1;
        maps->chosen[WAY_EXP][lane] = 1;
    }
    maps->used[WAY_EXP] = lanes;
}

void whet_maps_set_lane(panel_maps *maps, size_t lane, const whet_policy *policy, float sink) {
    map_way way = way_of(policy);
    maps->way[lane] = way;
    maps->chosen[WAY_EXP][lane] = 0;
    maps->used[WAY_EXP]--;
    maps->chosen[way][lane] = 1;
    maps->used[way]++;
    maps->sink[lane] = sink;
    if (policy_leaves_out(policy))
        maps->leaves_out = true;
    if (way == WAY_SIGMOID) {
        double b = fmax(-FLT_MAX,
                        fmin(FLT_MAX, policy->value[0])); /* beyond, all of it is 0 or 1 as well */
        maps->lanes.bias[lane] = (float)b;
        /* what b loses as a float all keys would lose alike */
        double lost = b - (double)(float)b;
        maps->lanes.factor[lane] = fabs(lost) < 1 ? (float)exp(-lost) : 1;
    }
}

/* ---- searching ---- */

static void start_kth(kth_search *search, double k, double max) {
    *search = (kth_search){.k = k, .low = -FLT_MAX, .top = (float)max, .high = (float)max};
    search->pivot = -FLT_MAX; /* the first pass tells how many there are, and the least of them */
}

void whet_maps_search(panel_maps *maps, size_t lane, const whet_policy *policy,
                      const whet_stats *stats) {
    maps->lanes.max[lane] = (float)stats->max;
    if (policy->kind == WHET_POLICY_HARDMAX)
        maps->lanes.lowest[lane] = (float)stats->max;
    if (policy->kind == WHET_POLICY_TOPK)
        start_kth(&maps->kth[lane], policy->value[0], stats->max);
    if (policy->kind == WHET_POLICY_ENTMAX)
        whet_entmax_start(&maps->entmax[lane], policy->value[0],
                          maps->way[lane] == WAY_ENTMAX ? EXACT_TOLERANCE : POWER_TOLERANCE, REACH);
}

/* The parameters that the kernels take a lane's threshold from. */
static void set_threshold(panel_maps *maps, size_t lane) {
    map_lanes *lanes = &maps->lanes;
    entmax_solver *solver = &maps->entmax[lane];
    double less = solver->a - 1;
    if (maps->way[lane] == WAY_ENTMAX) {
        lanes->threshold[lane] = (float)solver->threshold;
        solver->threshold = (double)lanes->threshold[lane]; /* what the sums will belong to */
        lanes->scale[lane] = (float)less;
        lanes->square[lane] = solver->a == 1.5 ? 1 : 0;
    } else {
        lanes->log_top[lane] = (float)solver->threshold;
        lanes->power[lane] = (float)(1 / less);
        lanes->scale[lane] = (float)(less / exp(less * solver->threshold));
    }
}

bool whet_maps_begin_pass(panel_maps *maps, size_t lanes) {
    bool any = false;
    for (size_t lane = 0; lane < lanes; lane++) {
        any = any || !maps->kth[lane].done || !maps->entmax[lane].done;
        if (maps->entmax[lane].a > 0)
            set_threshold(maps, lane);
        maps->sums[lane] = (entmax_sums){.lowest = (double)INFINITY};
        maps->order.least[lane] = INFINITY;
        maps->order.below[lane] = -INFINITY;
        maps->count[lane] = 0;
    }
    return any;
}

static void look_for_thresholds(panel_maps *maps, const kernels *k, map_way way, const float *tile,
                                size_t keys) {
    map_support found;
    if (way == WAY_ENTMAX)
        k->map_entmax_support(tile, keys, &maps->lanes, &found);
    else
        k->map_power_support(tile, keys, &maps->lanes, &found);
    for (size_t lane = 0; lane < k->lanes; lane++) {
        if (maps->way[lane] != way)
            continue;
        entmax_sums *sums = &maps->sums[lane];
        sums->sum += (double)found.sum[lane];
        sums->squares += (double)found.squares[lane];
        if (way == WAY_POWER)
            continue;
        sums->count += (double)found.count[lane];
        sums->lowest = fmin(sums->lowest, (double)found.lowest[lane]);
    }
}

static void look_for_order(panel_maps *maps, const kernels *k, const float *tile, size_t keys) {
    map_order found;
    float pivot[LANES_MAX];
    for (size_t lane = 0; lane < k->lanes; lane++)
        pivot[lane] = maps->kth[lane].pivot;
    k->map_order(tile, keys, pivot, &found);
    for (size_t lane = 0; lane < k->lanes; lane++) {
        maps->count[lane] += (double)found.count[lane];
        maps->order.least[lane] = fminf(maps->order.least[lane], found.least[lane]);
        maps->order.below[lane] = fmaxf(maps->order.below[lane], found.below[lane]);
    }
}

void whet_maps_look(panel_maps *maps, const kernels *k, const float *tile, size_t keys) {
    if (maps->used[WAY_ENTMAX])
        look_for_thresholds(maps, k, WAY_ENTMAX, tile, keys);
    if (maps->used[WAY_POWER])
        look_for_thresholds(maps, k, WAY_POWER, tile, keys);
    if (maps->leaves_out)
        look_for_order(maps, k, tile, keys);
}

/* ratio = scale (e - max) of the sink; -1 or less: it gets nothing. */
static double sink_ratio(const panel_maps *maps, size_t lane) {
    return (double)maps->lanes.scale[lane] *
           ((double)maps->sink[lane] - (double)maps->lanes.max[lane]);
}

double whet_maps_sink_share(const panel_maps *maps, size_t lane) {
    double ratio = sink_ratio(maps, lane);
    if (maps->sink[lane] == -INFINITY)
        return 0;
    if (maps->way[lane] == WAY_ENTMAX) {
        double y = fmax(0, ratio - (double)maps->lanes.threshold[lane]);
        return maps->lanes.square[lane] > 0 ? y * y : y;
    }
    if (maps->way[lane] == WAY_POWER && ratio > -1)
        return exp((double)maps->lanes.log_top[lane] +
                   (double)maps->lanes.power[lane] * log1p(ratio));
    return 0;
}

static void add_sink(panel_maps *maps, size_t lane) {
    entmax_sums *sums = &maps->sums[lane];
    double share = whet_maps_sink_share(maps, lane);
    if (!(share > 0))
        return;
    if (maps->way[lane] == WAY_POWER) {
        sums->sum += share;
        sums->squares += share / (1 + sink_ratio(maps, lane));
        return;
    }
    double y = sink_ratio(maps, lane) - (double)maps->lanes.threshold[lane];
    sums->count++;
    sums->sum += y;
    sums->squares += y * y;
    sums->lowest = fmin(sums->lowest, y);
}

static void step_entmax(panel_maps *maps, size_t lane) {
    entmax_solver *solver = &maps->entmax[lane];
    entmax_sums *sums = &maps->sums[lane];
    add_sink(maps, lane);
    if (maps->way[lane] == WAY_POWER) {
        /* what log_top lost as a float */
        double lost = exp(solver->threshold - (double)maps->lanes.log_top[lane]);
        sums->sum *= lost;
        sums->squares *= lost;
    }
    whet_entmax_step(solver, sums);
}

/*
 * Where to look next, above low and not above top. By turns: where the k-th would
 * be if the logarithm of counts were a straight line, as it nearly is in tails;
 * and the middle as the bits of floats are ordered, which bounds the steps.
 */
static float next_pivot(const kth_search *search) {
    float pivot;
    if (search->steps % 2) {
        double whole = log(search->low_count / fmax(0.5, search->high_count));
        double part = log(search->low_count / search->k) / whole;
        double low = (double)search->low;
        pivot = (float)(low + part * ((double)search->high - low));
    } else {
        uint32_t low = whet_ordered_bits(search->low), top = whet_ordered_bits(search->top);
        pivot = whet_from_ordered_bits(low + (top - low) / 2 + 1);
    }
    return pivot > search->low && pivot <= search->top ? pivot : search->top;
}

static void step_kth(kth_search *search, double count, float least, float below) {
    if (count >= search->k) {
        search->low = least;
        search->low_count = count;
    } else {
        search->high = search->pivot;
        search->high_count = count;
        search->top = below;
    }
    search->steps++;
    search->done =
        count == search->k || !(search->low < search->top) || search->steps >= KTH_STEPS_MAX;
    if (!search->done)
        search->pivot = next_pivot(search);
}

static void step_order(panel_maps *maps, size_t lane) {
    kth_search *search = &maps->kth[lane];
    float sink = maps->sink[lane];
    double count = maps->count[lane];
    float least = maps->order.least[lane], below = maps->order.below[lane];
    if (sink >= search->pivot) {
        count++;
        least = fminf(least, sink);
    } else {
        below = fmaxf(below, sink);
    }
    if (search->steps == 0 && count <= search->k)
        search->done = true; /* nothing to leave out */
    else
        step_kth(search, count, least, below);
    maps->lanes.lowest[lane] = search->steps ? search->low : -INFINITY;
}

void whet_maps_end_pass(panel_maps *maps, size_t lanes) {
    for (size_t lane = 0; lane < lanes; lane++) {
        if (!maps->kth[lane].done)
            step_order(maps, lane);
        if (!maps->entmax[lane].done)
            step_entmax(maps, lane);
    }
}

/* ---- weights, and what is reported of them ---- */

void whet_maps_weigh(panel_maps *maps, const kernels *k, const float *logits, size_t keys,
                     float *weights, float *z, bool wants_entropy) {
    void (*const kernel[WAYS])(const float *, size_t, const float *, map_lanes *, float *) = {
        NULL, k->map_sigmoid, k->map_stick, k->map_entmax, k->map_power};
    for (size_t way = WAY_SIGMOID; way < WAYS; way++) {
        if (!maps->used[way])
            continue;
        kernel[way](logits, keys, maps->chosen[way], &maps->lanes, weights);
        for (size_t lane = 0; lane < k->lanes; lane++)
            if (maps->way[lane] == way)
                z[lane] = maps->lanes.z[lane];
    }
    if (wants_entropy && (maps->used[WAY_ENTMAX] || maps->used[WAY_POWER])) {
        float sum[LANES_MAX];
        k->map_entropy(weights, keys, sum);
        for (size_t lane = 0; lane < k->lanes; lane++)
            maps->entropy[lane] += (double)sum[lane];
    }
}

void whet_softmax1_report(double shift, double z, whet_stats *stats) {
    stats->beta = stats->entropy_after = (double)NAN;
    stats->max_prob = exp(stats->max - shift) / z;
}

static double entmax_top(const panel_maps *maps, size_t lane) {
    const map_lanes *lanes = &maps->lanes;
    double tau = (double)lanes->threshold[lane];
    if (maps->way[lane] == WAY_POWER)
        return exp((double)lanes->log_top[lane]);
    return lanes->square[lane] > 0 ? tau * tau : -tau;
}

static void report_entmax(const panel_maps *maps, size_t lane, double z, whet_stats *stats) {
    double share = whet_maps_sink_share(maps, lane);
    double sum = maps->entropy[lane] + (share > 0 ? share * log(share) : 0);
    stats->entropy_after = fmax(0, log(z) - sum / z);
    stats->max_prob = entmax_top(maps, lane) / z;
}

void whet_maps_report(const panel_maps *maps, size_t lane, const whet_policy *policy, double shift,
                      double z, double s, whet_stats *stats) {
    if (policy_has_zero_logit(policy)) {
        whet_softmax1_report(shift, z, stats);
    } else if (maps->way[lane] == WAY_EXP) { /* softmax of what was not left out, at beta 1 */
        whet_stats_after(stats, z, s);
    } else if (whet_way_is_normalised(maps->way[lane])) {
        report_entmax(maps, lane, z, stats);
    } else {
        stats->max_prob = (double)maps->lanes.largest[lane];
        stats->entropy_after = (double)NAN;
    }
    stats->beta = (double)NAN;
}
