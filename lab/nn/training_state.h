/*
 * The state of any training run: learned parameters, Adam's two moments of each
 * and the number of steps, in memory and in checkpoints; and the schedules that
 * trainers share.
 */
#ifndef WHET_LAB_TRAINING_STATE_H
#define WHET_LAB_TRAINING_STATE_H

#include "base/ranks.h"
#include "nn/checkpoint.h"
#include "nn/kernels.h"

enum { NN_LOG_SUMS_MAX = 80 };

/* Sums over the steps since the last line of the log. Checkpoints keep them, so that the log of a
 * resumed run is that of a run that was never stopped. */
typedef struct nn_log_sums {
    size_t count; /* of values; 0: no step since the last line */
    double values[NN_LOG_SUMS_MAX];
    double seconds; /* that the run has taken; only where count > 0 */
} nn_log_sums;

typedef struct nn_training_state {
    size_t count; /* of weights */
    uint64_t step;
    float *weights, *first, *second;
    nn_log_sums log_sums;
} nn_training_state;

/* Whether there are `count` of them, all plausible: a checkpoint may be hostile. */
bool nn_log_sums_are_good(const nn_log_sums *sums, size_t count);

/* Zeros, at step 0; to be freed in any case. False when memory runs out. */
bool nn_training_state_create(nn_training_state *state, size_t count);
void nn_training_state_free(nn_training_state *state);

/* Writes a checkpoint; `description` is stolen. */
bool nn_training_state_save(const nn_training_state *state, const char *path, json_t *description,
                            lab_error *error);

/* Whether a checkpoint belongs to the run that `context` describes. */
typedef bool (*nn_same_run)(const void *context, const nn_checkpoint *read, const char *path,
                            lab_error *error);

/* Continues from a checkpoint of the same run and size with at most `steps` steps. */
bool nn_training_state_restore(nn_training_state *state, const char *path, uint64_t steps,
                               nn_same_run is_same, const void *context, lab_error *error);

/* Gives all ranks what the first has; of the same number of weights. */
void nn_training_state_broadcast(nn_training_state *state, const lab_ranks *ranks);

/* From one rate to another along a half cosine, `share` of the way, from 0 to 1. */
double nn_half_cosine(double from, double to, double share);

/* Adam after `step` steps, both moments corrected for having started at zero; no decay. */
nn_adam nn_adam_at(double rate, double beta1, double beta2, uint64_t step);

/* The error of a run whose loss is no longer finite. */
bool nn_fail_not_finite(uint64_t seed, uint64_t step, lab_error *error);

#endif
