/*
 * Maps in prefill: what is known of them for the rows of one panel, lane by lane. A panel
 * may hold rows with different policies (of different heads), so every lane has its own
 * panel_form: the kernel that computes its weights, or PANEL_BY_ROW, for which its row is
 * extracted, computed by the row form and put back first.
 *
 * Thresholds are searched for in kept logits, all lanes of a panel in one pass:
 *
 *     whet_maps_search(maps, lane, ...);            // each lane that needs it
 *     while (whet_maps_begin_pass(maps)) {
 *         whet_maps_look(maps, tile);               // all tiles
 *         whet_maps_end_pass(maps);
 *     }
 */
#ifndef WHET_PANEL_MAPS_H
#define WHET_PANEL_MAPS_H

#include "isa/kernels.h"
#include "attention/row_form.h"
#include "policy/entmax.h"
#include "whet.h"
#include <stdbool.h>

/* The search for a row's k-th largest logit, between the entries known to bound it. */
typedef struct kth_search {
    double k;
    float low; /* no fewer than k entries are not below it */
    double low_count;
    float high; /* fewer than k are not below this pivot ... */
    double high_count;
    float top; /* ... and this is the largest entry below it */
    float pivot;
    unsigned steps;
    bool done;
} kth_search;

typedef struct panel_maps {
    map_lanes lanes;
    float chosen[PANEL_FORMS][LANES_MAX];
    size_t used[PANEL_FORMS]; /* lanes of each form; those that take exponentials as PANEL_EXP */
    panel_form form[LANES_MAX];
    bool leaves_out; /* some lane takes exponentials of a part of its entries */
    float sink[LANES_MAX];
    kth_search kth[LANES_MAX];
    entmax_solver entmax[LANES_MAX];
    entmax_sums sums[LANES_MAX];
    map_order order;           /* of all tiles of a pass */
    double count[LANES_MAX];   /* the same for counts, too large for a float */
    double entropy[LANES_MAX]; /* of entmax: sum of w ln w */
} panel_maps;

/* Before anything is known of the lanes: all take exponentials. */
void whet_maps_clear(panel_maps *maps, size_t lanes);

/* A lane's form, and its sink (-inf for none). */
void whet_maps_set_lane(panel_maps *maps, size_t lane, panel_form form, float sink);

/* What sigmoid subtracts from a lane's logits. */
void whet_maps_set_bias(panel_maps *maps, size_t lane, double bias);

/* The beta of a lane whose map has no search. */
void whet_maps_set_beta(panel_maps *maps, size_t lane, double beta);

/* Sets the beta of stats and starts a search, if the lane's form has one, for a map with this
 * parameter. */
void whet_maps_search(panel_maps *maps, size_t lane, double parameter, const whet_stats *stats);
bool whet_maps_begin_pass(panel_maps *maps, size_t lanes);
void whet_maps_look(panel_maps *maps, const kernels *k, const float *tile, size_t keys);
void whet_maps_end_pass(panel_maps *maps, size_t lanes);

/* z of the sink alone in a lane that takes no exponentials. */
double whet_maps_sink_share(const panel_maps *maps, size_t lane);

/*
 * Weights of the lanes that take no exponentials, from the logits of a tile,
 * which may be `weights` itself; sets their z. With wants_entropy, entmax adds
 * to its entropy.
 */
void whet_maps_weigh(panel_maps *maps, const kernels *k, const float *logits, size_t keys,
                     float *weights, float *z, bool wants_entropy);

/* Entropy and largest coefficient of a finished row whose weights are not exponentials. */
void whet_maps_report(const panel_maps *maps, size_t lane, double z, whet_stats *stats);

/* Whether weights still have to be divided by their sum. */
static inline bool form_is_normalised(panel_form form) {
    return form != PANEL_SIGMOID && form != PANEL_STICK && form != PANEL_BY_ROW;
}

#endif
