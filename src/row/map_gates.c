/*
 * Maps whose coefficients need not sum to one, so that a head can attend to
 * nothing: softmax1, sigmoid and stick-breaking. Their entropy is left NaN.
 */
#include "row/map.h"

#include <math.h>

/* found: the shift, the denominator. */
static double softmax1_coefficient(double logit, const double *found) {
    return exp(logit - found[0]) / found[1];
}

/* The 1 in 1 + sum exp(e) is a logit of zero: shifting by the larger of it and the maximum keeps
 * every exponential at 1 or below. */
map_solution whet_map_softmax1(const row_view *row, const whet_stats *stats) {
    double shift = fmax(0, stats->max);
    double denominator = exp(-shift);
    row_walk walk;
    walk_begin(&walk, row);
    while (walk_next(&walk)) {
        double block = 0;
        for (size_t i = 0; i < walk.count; i++) {
            block += exp((double)walk.logits[i] - shift);
        }
        denominator += block;
    }
    return (map_solution){softmax1_coefficient, {shift, denominator}};
}

static double sigmoid_coefficient(double logit, const double *found) {
    return 1 / (1 + exp(found[0] - logit));
}

map_solution whet_map_sigmoid(const whet_policy *policy, const whet_stats *stats) {
    double b = policy->value[0];
    return (map_solution){sigmoid_coefficient, {isnan(b) ? log((double)stats->n) : b}};
}

/*
 * What is left of the stick after later positions have broken off their part.
 * It may become too small for a double, and is rightly zero from then on.
 */
static double break_stick(const float *logits, size_t count, double left, float *results,
                          double *largest) {
    for (size_t i = count; i-- > 0;) {
        stick_parts parts = stick_parts_at((double)logits[i]);
        double part = left * parts.taken;
        left *= parts.left;
        *largest = part > *largest ? part : *largest;
        results[i] = (float)part;
    }
    return left;
}

/* From the last position to the first, a block at a time. */
void whet_map_stick_breaking(const row_view *row, whet_stats *stats) {
    _Alignas(64) float buffer[ROW_BLOCK];
    float results[ROW_BLOCK];
    double left = 1;
    double largest = 0;
    for (size_t end = row->n; end > 0;) {
        size_t count = end < ROW_BLOCK ? end : ROW_BLOCK;
        end -= count;
        const float *logits = whet_row_load(row, end, count, buffer);
        left = break_stick(logits, count, left, results, &largest);
        if (row->out) {
            whet_row_store(row, end, count, results);
        }
    }
    stats->max_prob = largest;
    stats->entropy_after = NAN;
}
