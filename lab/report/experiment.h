/*
 * The experiments behind the report, each run when something first needs it and
 * kept in the report's folder, so that a second run continues where the first one
 * stopped:
 *
 *     FOLDER/runs/f32-20000/      heads trained here, one checkpoint a seed
 *     FOLDER/results/NAME.json    what was measured, and with which options
 *
 * A result that was made with other options is made again. The heads are those of
 * the program (heads/builtin.h) unless the options ask for heads to be trained.
 */
#ifndef WHET_LAB_REPORT_EXPERIMENT_H
#define WHET_LAB_REPORT_EXPERIMENT_H

#include "base/error.h"
#include "base/folder_lock.h"
#include "base/ranks.h"
#include "nn/layers.h"
#include "report/jobs.h"
#include "retrieval/evaluate.h"
#include "retrieval/head.h"

#include <jansson.h>

typedef struct experiment_options {
    const char *folder;
    bool trains_heads;    /* false: the program's own heads */
    uint64_t seeds;       /* heads of each precision, where they are trained here */
    uint64_t steps;       /* of their training */
    uint64_t fresh_steps; /* of the head that is trained to show how */
    uint64_t sets;        /* of each size, in evaluations */
    uint64_t largest;     /* items in the largest sets */
    /* Of the language models: 0 stands for the default of the scale. */
    bool is_full;
    uint64_t lm_steps, lm_samples, lm_seeds;
    bool quiet;
    const nn_engine *engine;
    const whet_executor *executor;
    const lab_ranks *ranks; /* or NULL: processes that run the experiments together; the first one
                             * keeps the results, and all see the same folder */
    bool is_dealt;          /* work of one such process alone: the first has claimed the folder */
} experiment_options;

/* The seed of the fresh head: none of the program's own. */
enum { EXPERIMENT_FRESH_SEED = 10 };

/* The reading of the paper that comes closest to its table; heads of f32 are for comparison. */
static const retrieval_precision experiment_paper = RETRIEVAL_BF16_PRODUCTS; /* the default */

struct experiment {
    experiment_options options;
    lab_folder_lock lock; /* taken when something is first made */
    retrieval_heads heads[RETRIEVAL_PRECISIONS];
    json_t *table;                            /* softmax and adaptive, every head, all sets */
    json_t *evaluation[RETRIEVAL_PRECISIONS]; /* every policy */
    json_t *panels;                           /* {"softmax": [...], "adaptive": [...]} */
    json_t *fit;
    json_t *sharpness;
    json_t *fresh;     /* {"seed", "steps", "curve": [{step, loss, accuracy}], "evaluation"} */
    json_t *clrs;      /* see report/clrs.h */
    json_t *beyond;    /* {"seeds", "steps", "recipes": [{name, path, change, evaluation}]} */
    report_jobs *jobs; /* the plan that progress follows, or NULL */
};

experiment experiment_start(const experiment_options *options);
void experiment_end(experiment *experiment);

/* Makes the folder, and lets no other run work there from now on. */
bool experiment_claim(experiment *experiment, lab_error *error);

/* Each returns what there is or makes it; NULL and an error otherwise. The reference is the
 * experiment's own. */
const json_t *experiment_table(experiment *experiment, lab_error *error);
const json_t *experiment_evaluation(experiment *experiment, retrieval_precision precision,
                                    lab_error *error);
const json_t *experiment_panels(experiment *experiment, const char *policy, lab_error *error);
const json_t *experiment_fit(experiment *experiment, lab_error *error);
const json_t *experiment_sharpness(experiment *experiment, lab_error *error);
const json_t *experiment_fresh(experiment *experiment, lab_error *error);
const json_t *experiment_beyond(experiment *experiment, lab_error *error);

/* Heads of a precision: the program's own, or trained first. The experiment's. */
const retrieval_heads *experiment_heads(experiment *experiment, retrieval_precision precision,
                                        lab_error *error);

/* How many there are, without training any. */
size_t experiment_head_count(const experiment_options *options, retrieval_precision precision);

/* With ranks, all call these functions alike, and all have the result. */

/* The result of a name: kept under FOLDER/results, if it was made with these options (whose
 * reference is taken), or made now and kept; NULL for `make`: kept or nothing. For experiments in
 * files of their own. */
typedef json_t *(*experiment_maker)(experiment *experiment, const void *context, lab_error *error);
json_t *experiment_keep(experiment *experiment, const char *name, json_t *options,
                        experiment_maker make, const void *context, lab_error *error);

/* Runs an evaluation with the experiment's engine, executor and ranks. */
json_t *experiment_evaluate(const experiment *experiment, retrieval_eval_request request,
                            lab_error *error);

/* Fills in every result that is kept, and makes none. */
void experiment_recall(experiment *experiment);
void experiment_fresh_recall(experiment *experiment);

#endif
