/*
 * One model in training, step by step. A step's pieces are dealt to a fixed
 * number of lanes, each of which adds up the gradients of its own in order;
 * lanes are added in order, too. The assignment of lanes to threads does not
 * matter, so a seed gives one result for any number of threads.
 */
#ifndef WHET_LAB_LM_TRAINER_H
#define WHET_LAB_LM_TRAINER_H

#include "base/ranks.h"
#include "lm/model.h"
#include "lm/network.h"
#include "lm/pack.h"
#include "nn/training_state.h"

enum { LM_LANES = 8 };

typedef struct lm_trainer lm_trainer;

/* What training needs: parameters; tokens of a piece initially, more when a longer sequence comes;
 * and approximate memory: weights, gradients, moments, activations, and a checkpoint being
 * written. */
typedef struct lm_needs {
    size_t parameters, piece_tokens, bytes;
} lm_needs;

/* Allocates nothing; fails if it exceeds the address space. */
bool lm_trainer_needs(const lm_config *config, const lm_training *training,
                      const whet_executor *executor, lm_needs *needs, lab_error *error);

/* At step 0, with initial weights. The executor (or NULL) must outlive the trainer. */
lm_trainer *lm_trainer_create(const nn_engine *engine, const lm_config *config,
                              const lm_training *training, const whet_executor *executor,
                              lab_error *error);
void lm_trainer_destroy(lm_trainer *trainer);

/* Makes it one of several that train the same model, each on some of a step's lanes, with the same
 * result as one alone; all start from what the first has. The ranks must outlive the trainer. */
bool lm_trainer_join(lm_trainer *trainer, const lab_ranks *ranks, lab_error *error);

/* The accuracy on one task. */
typedef struct lm_tally {
    uint64_t sequences, exact; /* whose every answer token was the most likely */
} lm_tally;

typedef struct lm_step {
    double loss;        /* as trained on: weighted mean over targets */
    double answer_loss; /* mean over the tokens of answers */
    double norm;        /* of the gradient, before clipping */
    double rate;
    uint64_t tokens;               /* in all sequences, without padding */
    uint64_t answer_tokens, right; /* and those that were the most likely */
    lm_tally all, tasks[CLRS_ALGORITHM_COUNT];
    uint64_t left_out; /* samples longer than the context, since the start */
} lm_step;

/* One step. False if the loss is no longer finite. */
bool lm_trainer_step(lm_trainer *trainer, lm_step *result, lab_error *error);

/* The same on given sequences, for tests and benchmarks. */
bool lm_trainer_step_on(lm_trainer *trainer, const lm_sequences *sequences, lm_step *result,
                        lab_error *error);

uint64_t lm_trainer_done(const lm_trainer *trainer);

/* Pending sums of the log, saved to and restored from checkpoints. */
nn_log_sums *lm_trainer_log_sums(lm_trainer *trainer);

/* Weights, gradients, moments, activations and scratch, in bytes, as they are now. */
size_t lm_trainer_bytes(const lm_trainer *trainer);
size_t lm_trainer_parameters(const lm_trainer *trainer);

/* To be read, or, before the first step, set. */
float *lm_trainer_weights(lm_trainer *trainer);

/* Weights, moments and step, to a file and back; a checkpoint of other options is refused. */
bool lm_trainer_save(const lm_trainer *trainer, const char *path, lab_error *error);
bool lm_trainer_restore(lm_trainer *trainer, const char *path, lab_error *error);

#endif
