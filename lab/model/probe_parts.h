/*
 * What the files of a probe share: one that is under way. probe.c drives it,
 * probe_process.c has the process that runs the model, probe_record.c reads what
 * the plug-in wrote there.
 */
#ifndef WHET_LAB_MODEL_PROBE_PARTS_H
#define WHET_LAB_MODEL_PROBE_PARTS_H

#include "model/probe.h"
#include "model/runner.h"

#include "base/progress.h"

/* Where a prompt's rows are in the plug-in's file. */
typedef struct prompt_place {
    uint64_t first, count; /* evaluations */
    uint64_t tokens;
} prompt_place;

/* A probe under way. */
typedef struct probe {
    const probe_request *request;
    probe_result *result;
    prompt_list prompts;
    char library[RUNNER_PATH_SIZE], plugin[RUNNER_PATH_SIZE];
    char *folder; /* for files that nobody is to see */
    char *rows_path, *log_path;
    prompt_place *places; /* [prompts.count], of the policy under way */
    uint64_t evaluations;
    size_t policy;
    bool has_ended;      /* the process has said that it is done */
    lab_error complaint; /* or why it is not */
    uint64_t tokens_done, tokens_total;
    lab_progress progress;
    lab_error *error;
} probe;

enum { PROBE_WORDS_SIZE = 256 };

/* The last line of what the process said, which tells more than its end; or the first of those that
 * come from the plug-in, where there is one. */
void probe_last_words(const probe *p, char text[PROBE_WORDS_SIZE]);

/* Runs the model under the policy at hand, and notes what the process tells. */
bool probe_run_process(probe *p);

/* Brings what the plug-in recorded of that run into the results. */
bool probe_gather(probe *p);

/* The measures of a head on one prompt. */
float *probe_values(const probe_result *r, size_t policy, size_t size, size_t sequence,
                    size_t layer, size_t head);

#endif
