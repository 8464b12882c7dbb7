/*
 * A training run: several seeds side by side, with progress, a log and
 * checkpoints in a folder, ready to be stopped at any time and taken up again.
 *
 *     FOLDER/seed-3.ckpt    everything needed to go on, replaced as a whole
 *     FOLDER/seed-3.jsonl   a line every so many steps
 *     FOLDER/manifest.json  what made them
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
} retrieval_run;

/*
 * Trains all seeds. On success heads (if not NULL) has seed_count heads, to be
 * freed. Stopped by a signal (lab_catch_interrupts), it saves checkpoints and
 * fails with LAB_STOPPED. Call lab_catch_interrupts before, if that is wanted.
 */
bool retrieval_train(const nn_engine *engine, const retrieval_run *run, retrieval_heads *heads,
                     lab_error *error);

/* The choices of the run that is in run->folder.path, from a checkpoint and from its manifest;
 * where they differ the checkpoint is right, unless the manifest has more steps. Where
 * run->seed_count is 0, its seeds too, into `seeds` with room for so many. What neither tells stays
 * as it was. */
bool retrieval_run_recall(retrieval_run *run, uint64_t *seeds, size_t room, lab_error *error);

#endif
