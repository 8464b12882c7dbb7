/*
 * One head in training, step by step. A step draws a batch from the seed and
 * its own number alone, so a resumed run continues as if it had never stopped.
 */
#ifndef WHET_LAB_RETRIEVAL_TRAINER_H
#define WHET_LAB_RETRIEVAL_TRAINER_H

#include "nn/training_state.h"
#include "retrieval/head.h"

typedef struct retrieval_trainer retrieval_trainer;

/* At step 0, with initial weights. The executor (or NULL) must outlive the trainer. */
retrieval_trainer *retrieval_trainer_create(const nn_engine *engine, const retrieval_config *config,
                                            uint64_t seed, const whet_executor *executor,
                                            lab_error *error);
void retrieval_trainer_destroy(retrieval_trainer *trainer);

/* Makes it one of several that train the same head, each on some of a step's tiles, with the same
 * result as one alone; all start from what the first has. The ranks must outlive the trainer. */
void retrieval_trainer_join(retrieval_trainer *trainer, const lab_ranks *ranks);

typedef struct retrieval_step {
    double loss;     /* mean over the batch */
    double accuracy; /* share of its sets */
} retrieval_step;

/* One step. False if the loss is no longer finite. */
bool retrieval_trainer_step(retrieval_trainer *trainer, retrieval_step *result, lab_error *error);

uint64_t retrieval_trainer_done(const retrieval_trainer *trainer);

/* Pending sums of the log, saved to and restored from checkpoints. */
nn_log_sums *retrieval_trainer_log_sums(retrieval_trainer *trainer);

/* Weights, moments and step, to a file and back; a checkpoint of other options is refused. */
bool retrieval_trainer_save(const retrieval_trainer *trainer, const char *path, lab_error *error);
bool retrieval_trainer_restore(retrieval_trainer *trainer, const char *path, lab_error *error);

/* A copy of the learned parameters. */
bool retrieval_trainer_head(const retrieval_trainer *trainer, retrieval_head *head,
                            lab_error *error);

#endif
