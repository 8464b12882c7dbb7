/*
 * One model in training, step by step. A step's pieces are dealt to a fixed
 * number of lanes, each of which adds up the gradients of its own in order;
 * lanes are added in order, too. Which thread works on which lane changes
 * nothing, so a seed gives one result whatever the number of threads.
 */
#ifndef WHET_LAB_LM_TRAINER_H
#define WHET_LAB_LM_TRAINER_H

#include "lm/model.h"
#include "lm/network.h"
#include "lm/pack.h"
#include "nn/training_state.h"

enum { LM_LANES = 8 };

typedef struct lm_trainer lm_trainer;

/* What a training takes: parameters; tokens of a piece at first, more where a longer sequence
 * comes; and memory, about: weights, gradients, moments, activations, and a checkpoint as it is
 * written. */
typedef struct lm_needs {
    size_t parameters, piece_tokens, bytes;
} lm_needs;

/* Without allocating any of it; fails where no memory could hold it. */
bool lm_trainer_needs(const lm_config *config, const lm_training *training,
                      const whet_executor *executor, lm_needs *needs, lab_error *error);

/* At step 0, with initial weights. The executor (or NULL) must outlive the trainer. */
lm_trainer *lm_trainer_create(const nn_engine *engine, const lm_config *config,
                              const lm_training *training, const whet_executor *executor,
                              lab_error *error);
void lm_trainer_destroy(lm_trainer *trainer);

/* How one task fared. */
typedef struct lm_tally {
    uint64_t sequences, exact; /* whose answers were the likeliest, token by token */
} lm_tally;

typedef struct lm_step {
    double loss;        /* as trained on: weighted mean over targets */
    double answer_loss; /* mean over the tokens of answers */
    double norm;        /* of the gradient, before clipping */
    double rate;
    uint64_t tokens;               /* in all sequences, without filling */
    uint64_t answer_tokens, right; /* and those that were the likeliest */
    lm_tally all, tasks[CLRS_ALGORITHM_COUNT];
    uint64_t left_out; /* samples longer than the context, since the start */
} lm_step;

/* One step. False where the loss is not finite any more. */
bool lm_trainer_step(lm_trainer *trainer, lm_step *result, lab_error *error);

/* The same on given sequences, for tests and benchmarks. */
bool lm_trainer_step_on(lm_trainer *trainer, const lm_sequences *sequences, lm_step *result,
                        lab_error *error);

uint64_t lm_trainer_done(const lm_trainer *trainer);

/* Sums for the log, which go into checkpoints and come back from them. */
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
