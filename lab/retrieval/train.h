/*
 * A training run: several seeds in parallel, with progress, a log and
 * checkpoints in a folder. It can be stopped at any time and resumed.
 *
 *     FOLDER/seed-3.ckpt    everything needed to continue, replaced atomically
 *     FOLDER/seed-3.jsonl   a line every log_interval steps
 *     FOLDER/manifest.json  the command, options and machine
 */
#ifndef WHET_LAB_RETRIEVAL_TRAIN_H
#define WHET_LAB_RETRIEVAL_TRAIN_H

#include "nn/run_folder.h"
#include "retrieval/trainer.h"

typedef struct retrieval_run {
    retrieval_config config;
    const uint64_t *seeds;
    size_t seed_count;
    nn_run_folder folder;
    bool quiet;
    const char *title;             /* for the progress line, or NULL */
    const whet_executor *executor; /* or NULL */
    const lab_ranks *ranks;        /* or NULL: processes that train together */
} retrieval_run;

/*
 * Trains all seeds. On success heads (if not NULL) has seed_count heads, to be
 * freed. Stopped by a signal (lab_catch_interrupts), it saves checkpoints and
 * fails with LAB_STOPPED. Call lab_catch_interrupts first if that is wanted.
 * Ranks train one seed together, its tiles dealt to them and its files written
 * by the first; of several seeds each trains some alone, and writes their files
 * to the same folder. `heads` is for a process alone.
 */
bool retrieval_train(const nn_engine *engine, const retrieval_run *run, retrieval_heads *heads,
                     lab_error *error);

/* Seconds that the rest of a run is likely to take, from a trial of a few steps; 0 for a run that
 * has few steps left or will not start. */
double retrieval_train_seconds(const nn_engine *engine, const retrieval_run *run);

/* Seconds of one step with all threads, from the same trial; 0 if it fails. */
double retrieval_step_seconds(const nn_engine *engine, const retrieval_config *config,
                              const whet_executor *executor);

/* The options of the run in run->folder.path, from a checkpoint and its manifest; where they differ
 * the checkpoint counts, unless the manifest has more steps. If run->seed_count is 0, also its
 * seeds, into `seeds`, which has the given capacity. What neither contains is unchanged. */
bool retrieval_run_recall(retrieval_run *run, uint64_t *seeds, size_t capacity, lab_error *error);

#endif
