/*
 * A run of `whet reproduce`: which parts of the report it makes, at which scale
 * and in which order, and what an earlier run in the folder left to go on from.
 */
#ifndef WHET_LAB_REPORT_REPRODUCTION_H
#define WHET_LAB_REPORT_REPRODUCTION_H

#include "report/parts.h"

/* How much is trained and evaluated; 0: the default of a quick or a full run. With neither seeds
 * nor steps a quick run evaluates the heads that are part of the program. */
typedef struct reproduction_scale {
    uint64_t seeds, steps, sets;
    uint64_t fresh_steps;                    /* of the head that a quick run trains to show how */
    uint64_t lm_steps, lm_samples, lm_seeds; /* of the language models */
} reproduction_scale;

/* The most that each may be; the least is 1. */
extern const reproduction_scale reproduction_scale_most;

enum { REPRODUCTION_QUICK_STEPS = 20000, REPRODUCTION_FULL_STEPS = 100000 };
enum { REPRODUCTION_FULL_SEEDS = 10 };

typedef struct reproduction {
    const char *folder;
    const char *only; /* names of parts and of groups, between commas; NULL: what is_full decides */
    bool is_full, quiet;
    reproduction_scale scale;
    const nn_engine *engine;
    const whet_executor *executor;
    const lab_ranks *ranks; /* or NULL: processes that make it together (experiment_options) */
} reproduction;

/* Every name of a list must be that of a part. False where one is not, or where the list is empty:
 * *wrong is that name then, cut to its size, or "". */
enum { REPRODUCTION_NAME_SIZE = 32 };
bool reproduction_check_list(const char *only, char wrong[REPRODUCTION_NAME_SIZE]);

/* Whether the run makes a part: named, or one of those that it makes by itself. */
bool reproduction_wants(const reproduction *run, const report_part *part);

/* Whether a part is one that the run did not make by itself, nor any before it, and that can be
 * asked for by its name. */
bool reproduction_leaves_out(const reproduction *run, const experiment *experiment,
                             const report_part *part);

/* Numbers of the scale that were not given become those of the last run in the folder, if there was
 * one. False and an error where its manifest cannot be used. */
bool reproduction_recall_scale(reproduction *run, lab_error *error);

/* What an earlier run in the folder made and this one does not keeps its scale, so that the page
 * and the manifest still tell of it. */
void reproduction_keep_scale(reproduction *run);

/* The experiments behind the run, at its scale. */
experiment reproduction_start(const reproduction *run);

/* What the run has to do, and how long that will take. */
report_jobs reproduction_plan(const reproduction *run, experiment *experiment);

/* Makes the parts, the page and the manifest in the folder. With ranks, all call it: heads are
 * dealt to them by seed, evaluations by sets, language models by policy and seed; the first one
 * draws and writes. */
bool reproduction_make(const reproduction *run, experiment *experiment, lab_error *error);

#endif
