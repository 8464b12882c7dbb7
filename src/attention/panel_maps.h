/*
 * Maps that are not a temperature, in prefill: what is known of them for the
 * rows of one panel, lane by lane. A panel may hold rows of any policies side by
 * side (of several heads), so every lane has a way of making weights of its own:
 *
 * exp       temperatures, softmax1 (one more logit of 0), and topk and hardmax,
 *           which mask what they leave out and are softmax of the rest
 * sigmoid   each logit by itself, never normalised
 * stick     stick-breaking: from the last key to the first
 * entmax    a = 2 and 1.5: a threshold, then a polynomial
 * power     other a: a threshold, then logarithm and exponential
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
#include "row/map.h"
#include "whet.h"
#include <stdbool.h>

typedef enum map_way { WAY_EXP, WAY_SIGMOID, WAY_STICK, WAY_ENTMAX, WAY_POWER, WAYS } map_way;

/* The search for a row's k-th largest logit, between entries that it is known to lie between. */
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
    float chosen[WAYS][LANES_MAX];
    size_t used[WAYS]; /* lanes of each way */
    map_way way[LANES_MAX];
    bool leaves_out; /* some lane has topk or hardmax */
    float sink[LANES_MAX];
    kth_search kth[LANES_MAX];
    entmax_solver entmax[LANES_MAX];
    entmax_sums sums[LANES_MAX];
    map_order order;           /* of all tiles of a pass */
    double count[LANES_MAX];   /* the same for counts, of which a float has not enough */
    double entropy[LANES_MAX]; /* of entmax: sum of w ln w */
} panel_maps;

/* Before anything is known of the lanes: all take exponentials. */
void whet_maps_clear(panel_maps *maps, size_t lanes);

/* A lane's policy (see whet_row_policy) and its sink (-inf for none). */
void whet_maps_set_lane(panel_maps *maps, size_t lane, const whet_policy *policy, float sink);

void whet_maps_search(panel_maps *maps, size_t lane, const whet_policy *policy,
                      const whet_stats *stats);
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

/* beta, entropy and largest coefficient of a finished row: z and s are its sums, relative to
 * `shift` where exponentials were taken. */
void whet_maps_report(const panel_maps *maps, size_t lane, const whet_policy *policy, double shift,
                      double z, double s, whet_stats *stats);

/* The same for softmax1 alone, which decode takes as exponentials, too. */
void whet_softmax1_report(double shift, double z, whet_stats *stats);

static inline bool whet_way_is_normalised(map_way way) {
    return way != WAY_SIGMOID && way != WAY_STICK;
}

#endif
