/*
 * A training run in a folder, which can be stopped at any time and resumed:
 *
 *     FOLDER/model.ckpt     everything needed to continue, replaced atomically; also the result
 *     FOLDER/log.jsonl      a line every log_interval steps
 *     FOLDER/manifest.json  the command, options and machine
 */
#ifndef WHET_LAB_LM_TRAIN_H
#define WHET_LAB_LM_TRAIN_H

#include "lm/trainer.h"
#include "nn/run_folder.h"

typedef struct lm_run {
    lm_config config;
    lm_training training;
    nn_run_folder folder;
    bool quiet;
    const char *title;             /* for the progress line, or NULL */
    const whet_executor *executor; /* or NULL */
    const lab_ranks *ranks;        /* or NULL: processes that train together; the first writes */
} lm_run;

/* The result of a run, from the last line of its log. */
typedef struct lm_summary {
    size_t parameters;
    uint64_t steps, tokens; /* tokens: of this session */
    double seconds;         /* likewise */
    double loss;
    lm_tally all, tasks[CLRS_ALGORITHM_COUNT];
} lm_summary;

/*
 * Trains to the end. Stopped by a signal (lab_catch_interrupts), it saves a
 * checkpoint and fails with LAB_STOPPED. Before the first step it prints its
 * memory use on standard error, unless quiet. Of several ranks, all stop when
 * one is stopped.
 */
bool lm_train(const nn_engine *engine, const lm_run *run, lm_summary *summary, lab_error *error);

/* Seconds that the rest of a run is likely to take, from a trial of a few steps; 0 for a run that
 * has few steps left or will not start. */
double lm_train_seconds(const nn_engine *engine, const lm_run *run);

/* The options of the run in run->folder.path, from its checkpoint and its manifest; where they
 * differ the checkpoint counts. What neither contains is unchanged. */
bool lm_run_recall(lm_run *run, lab_error *error);

#endif
