/* Maps over panels: see panel_maps.h. */
#include "attention/panel_maps.h"
#include "policy/ordered_bits.h"
#include "policy/beta.h"
#include "policy/softpick.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Changes of a threshold too small for sums in f32 to resolve. */
#define EXACT_TOLERANCE 1e-7
#define POWER_TOLERANCE 1e-6
#define REACH 0.1 /* and the distance over which such sums still give a threshold */

/* Every second pivot halves what the bits of a float leave open: this is never reached. */
#define KTH_STEPS_MAX 100

void whet_maps_clear(panel_maps *maps, size_t lanes) {
    memset(maps, 0, sizeof *maps);
    for (size_t lane = 0; lane < lanes; lane++) {
        maps->kth[lane].done = true;
        maps->entmax[lane].done = 1;
        maps->lanes.lowest[lane] = -INFINITY;
        maps->lanes.left[lane] = 1;
        maps->lanes.beta[lane] = maps->lanes.factor[lane] = 1;
        /* lanes without a search have only masked entries, which stay zero */
        maps->lanes.scale[lane] = 1;
        maps->lanes.power[lane] = 1;
        maps->form[lane] = PANEL_EXP;
        maps->chosen[PANEL_EXP][lane] = 1;
    }
    maps->used[PANEL_EXP] = lanes;
}

void whet_maps_set_lane(panel_maps *maps, size_t lane, panel_form form, float sink) {
    panel_form kernel = form_is_exponential(form) ? PANEL_EXP : form;
    maps->form[lane] = form;
    maps->chosen[PANEL_EXP][lane] = 0;
    maps->used[PANEL_EXP]--;
    maps->chosen[kernel][lane] = 1;
    maps->used[kernel]++;
    maps->sink[lane] = sink;
    if (form == PANEL_EXP_KTH || form == PANEL_EXP_LARGEST)
        maps->leaves_out = true;
}

void whet_maps_set_bias(panel_maps *maps, size_t lane, double bias) {
    double b = fmax(-FLT_MAX, fmin(FLT_MAX, bias)); /* beyond, all of it is 0 or 1 as well */
    maps->lanes.bias[lane] = (float)b;
    /* what b loses as a float all keys would lose alike */
    double lost = b - (double)(float)b;
    maps->lanes.factor[lane] = fabs(lost) < 1 ? (float)exp(-lost) : 1;
}

void whet_maps_set_beta(panel_maps *maps, size_t lane, double beta) {
    maps->lanes.beta[lane] = (float)whet_positive_beta(beta);
}

/* ---- searching ---- */

static void start_kth(kth_search *search, double k, double max) {
    *search = (kth_search){.k = k, .low = -FLT_MAX, .top = (float)max, .high = (float)max};
    search->pivot = -FLT_MAX; /* the first pass finds how many there are, and the smallest */
}

void whet_maps_search(panel_maps *maps, size_t lane, double parameter, const whet_stats *stats) {
    panel_form form = maps->form[lane];
    maps->lanes.max[lane] = (float)stats->max;
    whet_maps_set_beta(maps, lane, stats->beta);
    if (form == PANEL_SOFTPICK) {
        double shift = softpick_shift((double)maps->lanes.beta[lane], stats->max);
        maps->lanes.bias[lane] = (float)shift;
        maps->lanes.factor[lane] = (float)exp(-(double)maps->lanes.bias[lane]);
    }
    if (form == PANEL_EXP_LARGEST)
        maps->lanes.lowest[lane] = (float)stats->max;
    if (form == PANEL_EXP_KTH)
        start_kth(&maps->kth[lane], parameter, stats->max);
    if (form == PANEL_ENTMAX)
        whet_entmax_start(&maps->entmax[lane], parameter, EXACT_TOLERANCE, REACH);
    if (form == PANEL_POWER)
        whet_entmax_start(&maps->entmax[lane], parameter, POWER_TOLERANCE, REACH);
}

/* The parameters that give the kernels a lane's threshold. */
static void set_threshold(panel_maps *maps, size_t lane) {
    map_lanes *lanes = &maps->lanes;
    entmax_solver *solver = &maps->entmax[lane];
    double less = solver->a - 1, scale = less * (double)lanes->beta[lane];
    lanes->power[lane] = (float)(1 / less);
    if (maps->form[lane] == PANEL_ENTMAX) {
        lanes->threshold[lane] = (float)solver->threshold;
        solver->threshold = (double)lanes->threshold[lane]; /* what the sums will belong to */
        lanes->scale[lane] = (float)scale;
        lanes->square[lane] = solver->a == 1.5 ? 1 : 0;
    } else {
        lanes->log_top[lane] = (float)solver->threshold;
        lanes->scale[lane] = (float)(scale / exp(less * solver->threshold));
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

static void look_for_thresholds(panel_maps *maps, const kernels *k, panel_form form,
                                const float *tile, size_t keys) {
    map_support found;
    if (form == PANEL_ENTMAX)
        k->map_entmax_support(tile, keys, &maps->lanes, &found);
    else
        k->map_power_support(tile, keys, &maps->lanes, &found);
    for (size_t lane = 0; lane < k->lanes; lane++) {
        if (maps->form[lane] != form)
            continue;
        entmax_sums *sums = &maps->sums[lane];
        sums->sum += (double)found.sum[lane];
        sums->squares += (double)found.squares[lane];
        if (form == PANEL_POWER)
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
    if (maps->used[PANEL_ENTMAX])
        look_for_thresholds(maps, k, PANEL_ENTMAX, tile, keys);
    if (maps->used[PANEL_POWER])
        look_for_thresholds(maps, k, PANEL_POWER, tile, keys);
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
    if (maps->form[lane] == PANEL_SOFTPICK)
        return fabs(softpick_excess((double)maps->lanes.beta[lane] * (double)maps->sink[lane],
                                    (double)maps->lanes.bias[lane]));
    if (maps->form[lane] == PANEL_ENTMAX) {
        double y = fmax(0, ratio - (double)maps->lanes.threshold[lane]);
        return maps->lanes.square[lane] > 0 ? y * y : y;
    }
    if (maps->form[lane] == PANEL_POWER && ratio > -1)
        return exp((double)maps->lanes.log_top[lane] +
                   (double)maps->lanes.power[lane] * log1p(ratio));
    return 0;
}

static void add_sink(panel_maps *maps, size_t lane) {
    entmax_sums *sums = &maps->sums[lane];
    double share = whet_maps_sink_share(maps, lane);
    if (!(share > 0))
        return;
    if (maps->form[lane] == PANEL_POWER) {
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
    if (maps->form[lane] == PANEL_POWER) {
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

/* Weights that have already been computed. */
static void copy_weights(const panel_maps *maps, const float *made, size_t keys, size_t lanes,
                         float *weights) {
    const float *chosen = maps->chosen[PANEL_BY_ROW];
    if (made == weights)
        return;
    for (size_t j = 0; j < keys * lanes; j += lanes)
        for (size_t lane = 0; lane < lanes; lane++)
            weights[j + lane] = chosen[lane] > 0 ? made[j + lane] : weights[j + lane];
}

void whet_maps_weigh(panel_maps *maps, const kernels *k, const float *logits, size_t keys,
                     float *weights, float *z, bool wants_entropy) {
    void (*const kernel[PANEL_FORMS])(const float *, size_t, const float *, map_lanes *,
                                      float *) = {[PANEL_SIGMOID] = k->map_sigmoid,
                                                  [PANEL_STICK] = k->map_stick,
                                                  [PANEL_SOFTPICK] = k->map_softpick,
                                                  [PANEL_ENTMAX] = k->map_entmax,
                                                  [PANEL_POWER] = k->map_power};
    for (size_t form = 0; form < PANEL_FORMS; form++) {
        if (!maps->used[form] || !kernel[form])
            continue;
        kernel[form](logits, keys, maps->chosen[form], &maps->lanes, weights);
        for (size_t lane = 0; lane < k->lanes; lane++)
            if (maps->form[lane] == form)
                z[lane] = maps->lanes.z[lane];
    }
    if (maps->used[PANEL_BY_ROW]) {
        copy_weights(maps, logits, keys, k->lanes, weights);
        for (size_t lane = 0; lane < k->lanes; lane++)
            z[lane] = maps->form[lane] == PANEL_BY_ROW ? 0 : z[lane];
    }
    if (wants_entropy && (maps->used[PANEL_ENTMAX] || maps->used[PANEL_POWER])) {
        float sum[LANES_MAX];
        k->map_entropy(weights, keys, sum);
        for (size_t lane = 0; lane < k->lanes; lane++)
            maps->entropy[lane] += (double)sum[lane];
    }
}

static double entmax_top(const panel_maps *maps, size_t lane) {
    const map_lanes *lanes = &maps->lanes;
    double tau = (double)lanes->threshold[lane];
    if (maps->form[lane] == PANEL_POWER)
        return exp((double)lanes->log_top[lane]);
    return lanes->square[lane] > 0 ? tau * tau : -tau;
}

static void report_entmax(const panel_maps *maps, size_t lane, double z, whet_stats *stats) {
    double share = whet_maps_sink_share(maps, lane);
    double sum = maps->entropy[lane] + (share > 0 ? share * log(share) : 0);
    stats->entropy_after = fmax(0, log(z) - sum / z);
    stats->max_prob = entmax_top(maps, lane) / z;
}

static void report_softpick(const panel_maps *maps, size_t lane, double z, whet_stats *stats) {
    double top = softpick_excess((double)maps->lanes.beta[lane] * stats->max,
                                 (double)maps->lanes.bias[lane]);
    stats->max_prob = top > 0 ? top / z : 0;
    stats->entropy_after = (double)NAN;
}

void whet_maps_report(const panel_maps *maps, size_t lane, double z, whet_stats *stats) {
    switch (maps->form[lane]) {
    case PANEL_ENTMAX:
    case PANEL_POWER:
        report_entmax(maps, lane, z, stats);
        break;
    case PANEL_SIGMOID:
    case PANEL_STICK:
        stats->max_prob = (double)maps->lanes.largest[lane];
        stats->entropy_after = (double)NAN;
        break;
    case PANEL_SOFTPICK:
        report_softpick(maps, lane, z, stats);
        break;
    default: /* the row form has reported them */
        break;
    }
}
