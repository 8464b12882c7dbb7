/*
 * llama.cpp in a process of its own: it ends the program when it fails, and the plug-in reads its
 * settings from the environment once, when it is loaded. The process prints into a log, and reports
 * one JSON object a line through a pipe. However it ends, the reason is reported. It ends with its
 * parent, also when that is killed.
 *
 * The process reports a failure as {"error": ..., "kind": n}; all other lines are its owner's.
 */
#ifndef WHET_LAB_MODEL_LLAMA_PROCESS_H
#define WHET_LAB_MODEL_LLAMA_PROCESS_H

#include "base/error.h"
#include "base/json.h"
#include "base/temporary_folder.h"

#include <stdio.h>

typedef struct llama_process {
    void *owner;
    const char *log_path;
    const lab_temporary_folder *folder; /* of the log; the process does not keep it locked */

    /* In the process: adds the plug-in's settings to an environment that has none. */
    bool (*set_environment)(void *owner);
    /* In the process: runs to its end and returns the exit status. */
    int (*work)(void *owner, FILE *out);

    /* Takes a line; sets has_ended at the one after which nothing can fail any more. */
    bool (*take)(struct llama_process *process, const json_t *line, lab_error *error);
    /* Called several times a second; shows progress. False and an error stop the process. */
    bool (*look)(void *owner, lab_error *error);

    bool has_ended;
    lab_error complaint; /* as the process reported it */
} llama_process;

/* Starts it, reads what it reports, and waits for its end. */
bool llama_process_run(llama_process *process, lab_error *error);

enum { LLAMA_WORDS_SIZE = 256 };

/* The last line that a process printed, which says more than its exit status; or the first from
 * the plug-in, if there is one. */
void llama_process_last_words(const char *log_path, char text[LLAMA_WORDS_SIZE]);

/* ---- in the process ---- */

/* Reports an object; steals the reference. */
bool llama_process_send(FILE *out, json_t *line, lab_error *error);

/* Reports a failure. */
void llama_process_complain(FILE *out, const lab_error *error);

#endif
