/*
 * Shared by the files of a probe: one in progress. probe.c drives it,
 * probe_process.c has the process that runs the model, probe_record.c reads
 * what the plug-in wrote there.
 */
#ifndef WHET_LAB_MODEL_PROBE_PARTS_H
#define WHET_LAB_MODEL_PROBE_PARTS_H

#include "model/probe.h"
#include "model/runner.h"

#include "base/progress.h"
#include "base/temporary_folder.h"
#include "model/needles.h"

/* Where a prompt's rows are in the plug-in's record. */
typedef struct prompt_place {
    uint64_t first, count; /* evaluations */
    uint64_t tokens;
} prompt_place;

/* A probe in progress. */
typedef struct probe {
    const probe_request *request;
    probe_result *result;
    prompt_list prompts;
    char library[RUNNER_PATH_SIZE], plugin[RUNNER_PATH_SIZE];
    lab_temporary_folder folder;
    char *rows_path, *log_path;
    prompt_place *places; /* [prompts.count], of the current policy */
    uint64_t evaluations;
    needles needles;                /* of the current policy */
    struct stretch_sums *stretches; /* likewise, [layer][head][PROBE_STRETCHES] */
    size_t policy;
    uint64_t tokens_done, tokens_total;
    lab_progress progress;
    lab_error *error;
} probe;

/* Runs the model under the current policy, and collects what the process reports. */
bool probe_run_process(probe *p);

/* Adds the plug-in's record of that run to the results. */
bool probe_gather(probe *p);

/* probe_details.c: of one policy's run, once the heads are known: memory; then every row that
 * belongs to a prompt; then means. */
bool probe_details_begin(probe *p);
void probe_details_add(probe *p, size_t index, const record_row *row, const record_detail *detail);
void probe_details_end(probe *p);

/* probe_gaps.c: the values that are kept of a histogram. */
void probe_gap_values(const gap_histogram *gaps, float values[PROBE_GAP_VALUES]);

/* The measures of a head on one prompt. */
float *probe_values(const probe_result *r, size_t policy, size_t size, size_t sequence,
                    size_t layer, size_t head);

#endif
