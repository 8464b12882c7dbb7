/*
 * How any training run is kept in a folder: checkpoints and lines of the log at
 * regular intervals, so that it can be stopped at any time and resumed.
 */
#ifndef WHET_LAB_RUN_FOLDER_H
#define WHET_LAB_RUN_FOLDER_H

#include "base/json.h"

#include <stdint.h>
#include <stdio.h>

typedef struct nn_run_folder {
    const char *path;             /* NULL: nothing is written */
    uint64_t checkpoint_interval; /* steps; 0: only at the end */
    uint64_t log_interval;        /* steps; 0: no log */
    bool resume; /* continue from checkpoints in the folder; else it must have none */
} nn_run_folder;

/* Both intervals as members of a manifest's options, and back (NULL: unchanged). */
void nn_run_folder_to_json(const nn_run_folder *folder, json_t *options);
void nn_run_folder_from_json(nn_run_folder *folder, const json_t *options);

/* Refuses an existing checkpoint, unless the run is to be resumed. */
bool nn_run_folder_allows(const nn_run_folder *folder, const char *checkpoint, lab_error *error);

/* How many of a run's steps are left after its checkpoint; 0 if nn_run_folder_allows refuses it. */
uint64_t nn_run_folder_left(const nn_run_folder *folder, const char *checkpoint, uint64_t steps);

/* Seconds of one training step, from a trial of up to 24 steps or two seconds. 0 if a step fails
 * (returns false) or the user interrupts. */
double nn_time_steps(bool (*step)(void *trainer), void *trainer);

/* The error of a run that was stopped by a signal. */
bool nn_fail_stopped(const nn_run_folder *folder, uint64_t done, uint64_t total, lab_error *error);

/* 0 has no multiples. */
static inline bool nn_is_multiple(uint64_t step, uint64_t interval) {
    return interval > 0 && step % interval == 0;
}

/* The files of one model in training; all NULL where nothing is written. */
typedef struct nn_files {
    char *checkpoint, *log_path;
    FILE *log;
    double seconds; /* that the run had taken at the last line of the log when it was opened */
} nn_files;

bool nn_files_name(nn_files *files, const nn_run_folder *folder, const char *checkpoint,
                   const char *log_name, lab_error *error);

/* The log continues after step `done`; later lines, from a run that was killed, are dropped. */
bool nn_files_open_log(nn_files *files, const nn_run_folder *folder, uint64_t done,
                       lab_error *error);

/* `line` is stolen; without a log it is discarded. */
bool nn_files_log(nn_files *files, json_t *line, lab_error *error);

/* Whether a checkpoint is due after this step, before the last. */
bool nn_files_are_due(const nn_files *files, const nn_run_folder *folder, uint64_t step,
                      uint64_t last);

/* False if the log could not be written. */
bool nn_files_close(nn_files *files, lab_error *error);

#endif
