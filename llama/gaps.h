/*
 * How many logits of a row lie close to its largest one: a histogram of logits in bins of 1/16 nat
 * that are the same for every row. Histograms of pieces of a row therefore merge into that of the
 * whole, in any order and without rounding, like the other statistics of rows.
 *
 * From it follows the largest weight that softmax would give at any beta, and so the beta that a
 * row of this length calls for. Gaps are known up to half a bin: a weight is off by a factor of at
 * most e^(beta / 32).
 */
#ifndef WHET_LLAMA_GAPS_H
#define WHET_LLAMA_GAPS_H

#include <stddef.h>
#include <stdint.h>

#define GAP_BINS_PER_NAT 16

enum { GAP_BINS = 512 }; /* 32 nats: whatever lies deeper has no weight that matters */

/* Zero it first. Bin b has the logits from b / 16 up to (b + 1) / 16. */
typedef struct gap_histogram {
    float largest;             /* logit; counted below like the others */
    int64_t top;               /* its bin */
    uint32_t counts[GAP_BINS]; /* of bins top, top - 1, ...; counts[0] is 0 in an empty histogram */
} gap_histogram;

/* Adds `count` logits of bin `bin`, the largest of which is `largest`; of a histogram written bin
 * by bin, from the top. */
void gaps_add(gap_histogram *all, int64_t bin, uint32_t count, float largest);

/* Adds those of a row that are finite. */
void gaps_add_row(gap_histogram *all, const float *logits, size_t n);

void gaps_merge(gap_histogram *all, const gap_histogram *piece);

/* The number of logits within `delta` of the largest, itself included; bins that straddle the edge
 * count where their middle lies. 0 in an empty histogram. */
double gaps_within(const gap_histogram *all, double delta);

/* ln of the sum of exp(-beta (largest - e)), which is -ln of softmax's largest weight; NaN in an
 * empty histogram. */
double gaps_ln_sum(const gap_histogram *all, double beta);

#endif
