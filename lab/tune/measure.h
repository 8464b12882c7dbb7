/*
 * Losses of an arm on a set of sequences, reduced to what is reported: means of each sequence, by
 * part and by position. Differences between arms are paired: the same sequences in both.
 */
#ifndef WHET_LAB_TUNE_MEASURE_H
#define WHET_LAB_TUNE_MEASURE_H

#include "base/statistics.h"
#include "tune/judge.h"
#include "tune/ledger.h"

enum { TUNE_BINS = 16 };

/* Parts of a sequence: tokens up to n0, those beyond, and both. */
typedef enum tune_part { TUNE_WITHIN, TUNE_BEYOND, TUNE_ALL, TUNE_PARTS } tune_part;

typedef struct tune_measure {
    size_t count;
    double *loss[TUNE_PARTS]; /* [count]: the mean loss of a sequence's judged tokens there; NaN
                                 where there are none */
    double *right;            /* [count]: the share of tokens that were the likeliest */
    double *exact;            /* [count]: 1 where all of them were */
    double bins[TUNE_BINS];   /* the mean loss by position, in equal parts of the longest sequence;
                                 NaN where there are no tokens */
} tune_measure;

void tune_measure_free(tune_measure *measure); /* a zeroed one is fine */

/* Measures, or takes the result of an earlier run from the ledger under this key. Free it whatever
 * this returns. */
bool tune_measure_run(const tune_judge *judge, const tune_arm *arm, const tune_sequence *sequences,
                      size_t count, const char *key, tune_ledger *ledger, tune_heard heard,
                      void *listener, tune_measure *measure, lab_error *error);

/* exp of the mean loss. */
double tune_perplexity(const tune_measure *measure, tune_part part);

/* How much more perplexity an arm has, as a share (-0.02: two per cent less), with its interval
 * over sequences. Both were measured on the same sequences. */
lab_interval tune_change(const tune_measure *arm, const tune_measure *base, tune_part part);

/* The mean difference of any quantity, [count] each, with its interval. */
lab_interval tune_difference(const double *arm, const double *base, size_t count);

#endif
