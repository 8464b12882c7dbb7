/*
 * The maps that are not a temperature: which policy is which map, and the pass
 * that all but stick-breaking end with. In place works because that pass reads
 * a block, computes, and writes the same block, and needs no logit twice.
 */
#include "row/map.h"

#include <math.h>

/* Sets max_prob, and entropy_after to -sum p ln p. */
static void store_map(const row_view *row, const map_solution *map, whet_stats *stats) {
    float results[ROW_BLOCK];
    double largest = 0;
    double entropy = 0;
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        double block_entropy = 0;
        for (size_t i = 0; i < walk.count; i++) {
            double p = map->coefficient((double)walk.logits[i], map->found);
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

map_solution whet_map_solve(const whet_policy *policy, const row_view *row,
                            const whet_stats *stats) {
    switch (policy->kind) {
    case WHET_POLICY_TOPK:
        return whet_map_topk(policy, row, stats);
    case WHET_POLICY_HARDMAX:
        return whet_map_hardmax(row, stats);
    case WHET_POLICY_ENTMAX:
        return whet_map_entmax(policy, row, stats);
    case WHET_POLICY_SOFTMAX1:
        return whet_map_softmax1(row, stats);
    default:
        return whet_map_sigmoid(policy, stats);
    }
}

void whet_map_row(const whet_policy *policy, const row_view *row, whet_stats *stats) {
    stats->beta = NAN;
    if (policy->kind == WHET_POLICY_STICK_BREAKING) {
        whet_map_stick_breaking(row, stats);
        return;
    }
    map_solution map = whet_map_solve(policy, row, stats);
    store_map(row, &map, stats);
    if (policy->kind == WHET_POLICY_HARDMAX) {
        stats->entropy_after = log(map.found[2]);
    } else if (policy->kind == WHET_POLICY_SOFTMAX1 || policy->kind == WHET_POLICY_SIGMOID) {
        stats->entropy_after = NAN;
    }
}
