/*
 * Learning temperatures by gradients through a frozen model: Adam on a and h of every head, of
 * every layer, or of all heads together, bounded so that no |ln beta| exceeds a limit.
 */
#ifndef WHET_LAB_TUNE_CALIBRATE_H
#define WHET_LAB_TUNE_CALIBRATE_H

#include "tune/ledger.h"
#include "tune/network_judge.h"

/* Which heads share their numbers. */
typedef enum tune_by { TUNE_BY_ALL, TUNE_BY_LAYER, TUNE_BY_HEAD } tune_by;
extern const char *const tune_by_names[]; /* "all", "layer", "head", NULL */

typedef struct tune_calibration {
    tune_network *network;
    tune_by by;
    const unsigned char *is_tuned; /* [layers][heads], or NULL: all of them */
    size_t layers, heads;
    double n0, longest; /* keys up to which a alone applies, and at most; equal: h stays 0 */
    const tune_sequence *texts;
    size_t text_count;
    const tune_sequence *tasks; /* whose answers are learned besides; or none */
    size_t task_count;
    double text_weight; /* of a text's mean loss, where that of an answer is 1 */
    size_t steps, batch;
    double rate;  /* Adam's; falls to a tenth along a half cosine */
    double bound; /* of |ln beta| */
    uint64_t seed;
} tune_calibration;

/* Numbers in training. */
typedef struct tune_state {
    size_t step, count; /* steps done; numbers */
    double *theta, *first, *second;
    double loss; /* of the last step */
} tune_state;

/* At step 0: beta = 1. Free it whatever this returns. */
bool tune_state_create(const tune_calibration *c, tune_state *state, lab_error *error);
void tune_state_free(tune_state *state); /* a zeroed one is fine */

/* Called after every step; false stops. */
typedef bool (*tune_stepped)(void *listener, const tune_state *state);

/*
 * Trains up to step `until`. Every step goes to the ledger under `key`, and the numbers at `until`
 * beside it: a run that was interrupted continues with the same bits, and the numbers at an earlier
 * `until` are found again.
 */
bool tune_calibrate(const tune_calibration *c, size_t until, const char *key, tune_ledger *ledger,
                    tune_stepped stepped, void *listener, tune_state *state, lab_error *error);

/* The numbers as a setting of all heads. */
void tune_state_setting(const tune_calibration *c, const tune_state *state, tune_setting *setting);

#endif
