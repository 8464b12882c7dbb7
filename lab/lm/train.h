/*
 * A training run in a folder, ready to be stopped at any time and taken up
 * again:
 *
 *     FOLDER/model.ckpt     everything needed to go on, replaced as a whole; also the result
 *     FOLDER/log.jsonl      a line every so many steps
 *     FOLDER/manifest.json  what made them
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
} lm_run;

/* What a run came to, over its last lines of the log. */
typedef struct lm_summary {
    size_t parameters;
    uint64_t steps, tokens; /* tokens: of this session */
    double seconds;         /* likewise */
    double loss;
    lm_tally all, tasks[CLRS_ALGORITHM_COUNT];
} lm_summary;

/*
 * Trains to the end. Stopped by a signal (lab_catch_interrupts), it saves a
 * checkpoint and fails with LAB_STOPPED. Before the first step it says on
 * standard error how much memory it takes, unless quiet.
 */
bool lm_train(const nn_engine *engine, const lm_run *run, lm_summary *summary, lab_error *error);

/* The choices of the run that is in run->folder.path, from its checkpoint and from its manifest;
 * where they differ the checkpoint is right. What neither tells stays as it was. */
bool lm_run_recall(lm_run *run, lab_error *error);

#endif
