/*
 * The maps that are not a temperature: which policy is which map, and the pass
 * that all but stick-breaking end with. In place works because that pass reads
 * a block, computes, and writes the same block, and needs no logit twice.
 */
#include "row/map.h"

#include <math.h>

void whet_map_store(const row_view *row, map_function function, const double *found,
                    whet_stats *stats) {
    float results[ROW_BLOCK];
    double largest = 0;
    double entropy = 0;
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        double block_entropy = 0;
        for (size_t i = 0; i < walk.count; i++) {
            double p = function((double)walk.logits[i], found);
            if (p > 0) {
                block_entropy -= p * log(p);
                largest = p > largest ? p : largest;
            }
            results[i] = (float)p;
        }
        entropy += block_entropy;
        if (row->out) {
            whet_row_store(row, walk.start, walk.count, results);
        }
    }
    stats->max_prob = largest;
    stats->entropy_after = fmax(0, entropy);
}

void whet_map_row(const whet_policy *policy, const row_view *row, whet_stats *stats) {
    switch (policy->kind) {
    case WHET_POLICY_TOPK:
        whet_map_topk(policy, row, stats);
        break;
    case WHET_POLICY_HARDMAX:
        whet_map_hardmax(row, stats);
        break;
    case WHET_POLICY_ENTMAX:
        whet_map_entmax(policy, row, stats);
        break;
    case WHET_POLICY_SOFTMAX1:
        whet_map_softmax1(row, stats);
        break;
    case WHET_POLICY_SIGMOID:
        whet_map_sigmoid(policy, row, stats);
        break;
    default:
        whet_map_stick_breaking(row, stats);
        break;
    }
    stats->beta = NAN;
}
