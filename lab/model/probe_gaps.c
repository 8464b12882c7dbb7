/*
 * How many logits crowd below the largest as the input grows, and the beta that this calls for.
 *
 * Softmax's largest weight is exp(-L(beta)) with L(beta) = ln of the sum of exp(-beta gap) over the
 * logits' distances from the largest, which a histogram of these gives for every beta. As n grows
 * at beta 1, logits enter the crowd below the largest and L grows; the beta that keeps L where it
 * was on the shortest input is what the length calls for. Where the crowd grows like a power of n,
 * that beta grows like a power of ln n, which differs from head to head.
 */
#include "model/probe_parts.h"

#include <math.h>

const double probe_deltas[PROBE_DELTAS] = {0.5, 1, 2, 4, 8};

/* L is kept at these betas: powers of the fourth root of 2, from 1/16 to 64. */
enum { BETAS = PROBE_GAP_VALUES - PROBE_DELTAS, STEPS_TO_2 = 4, FIRST_POWER = -4 };

static double beta_at(double step) { return exp2(FIRST_POWER + step / STEPS_TO_2); }

enum { BETA_ONE = -FIRST_POWER * STEPS_TO_2 };

void probe_gap_values(const gap_histogram *gaps, float values[PROBE_GAP_VALUES]) {
    for (size_t i = 0; i < PROBE_DELTAS; i++)
        values[i] = (float)gaps_within(gaps, probe_deltas[i]);
    for (size_t i = 0; i < BETAS; i++)
        values[PROBE_DELTAS + i] = (float)gaps_ln_sum(gaps, beta_at((double)i));
}

/* Mean over sequences. */
static double mean_of(const probe_result *r, size_t size, size_t layer, size_t head, size_t value) {
    double sum = 0;
    for (size_t i = 0; r->gaps && i < r->sequences; i++) {
        size_t place = ((size * r->sequences + i) * r->layers + layer) * r->heads + head;
        sum += (double)r->gaps[place * PROBE_GAP_VALUES + value];
    }
    return r->gaps ? sum / (double)r->sequences : (double)NAN;
}

double probe_within(const probe_result *r, size_t size, size_t layer, size_t head, size_t delta) {
    return mean_of(r, size, layer, head, delta);
}

double probe_beta_called_for(const probe_result *r, size_t size, size_t layer, size_t head) {
    double wanted = mean_of(r, 0, layer, head, PROBE_DELTAS + BETA_ONE);
    double before = mean_of(r, size, layer, head, PROBE_DELTAS);
    if (size == 0 && !isnan(wanted))
        return 1;
    for (size_t i = 1; i < BETAS && before >= wanted; i++) { /* L falls as beta grows */
        double after = mean_of(r, size, layer, head, PROBE_DELTAS + i);
        if (after <= wanted)
            return beta_at((double)(i - 1) +
                           (before > after ? (before - wanted) / (before - after) : 0));
        before = after;
    }
    return (double)NAN;
}

double probe_exponent(const probe_result *r, size_t layer, size_t head) {
    double xx = 0, xy = 0;
    for (size_t s = 1; s < r->sizes; s++) {
        double x = log(probe_ceiling(r, s) / probe_ceiling(r, 0));
        double y = log(probe_beta_called_for(r, s, layer, head));
        xx += x * x;
        xy += x * y;
    }
    return xx > 0 && isfinite(xx) ? xy / xx : (double)NAN;
}
