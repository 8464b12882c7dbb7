/*
 * The experiments behind the report, each run when something first needs it and
 * kept in the report's folder, so that a second run takes up where the first one
 * stopped:
 *
 *     FOLDER/runs/f32-20000/      trained heads, one checkpoint a seed
 *     FOLDER/results/NAME.json    what was measured, and with which options
 *
 * A result that was made with other options is made again.
 */
#ifndef WHET_LAB_REPORT_EXPERIMENT_H
#define WHET_LAB_REPORT_EXPERIMENT_H

#include "base/error.h"
#include "base/folder_lock.h"
#include "nn/layers.h"
#include "retrieval/head.h"

#include <jansson.h>

typedef struct experiment_options {
    const char *folder;
    uint64_t seeds;   /* heads of each precision */
    uint64_t steps;   /* of training */
    uint64_t sets;    /* of each size, in evaluations */
    uint64_t largest; /* items in the largest sets */
    /* Of the language models: 0 means what their scale has. */
    bool is_full;
    uint64_t lm_steps, lm_samples, lm_seeds;
    bool quiet;
    const nn_engine *engine;
    const whet_executor *executor;
} experiment_options;

/* The reading of the paper that comes closest to its table; heads of f32 stand beside it. */
static const retrieval_precision experiment_paper = RETRIEVAL_BF16_PRODUCTS; /* the default */

typedef struct experiment {
    experiment_options options;
    lab_folder_lock lock; /* taken when something is first made */
    retrieval_heads heads[RETRIEVAL_PRECISIONS];
    json_t *evaluation[RETRIEVAL_PRECISIONS];
    json_t *panels; /* {"softmax": [...], "adaptive": [...]} */
    json_t *fit;
    json_t *sharpness;
    json_t *clrs;   /* see report/clrs.h */
    json_t *beyond; /* {"seeds", "steps", "recipes": [{name, path, change, evaluation}]} */
} experiment;

experiment experiment_start(const experiment_options *options);
void experiment_end(experiment *experiment);

/* Makes the folder, and lets no other run work there from now on. */
bool experiment_claim(experiment *experiment, lab_error *error);

/* Each returns what there is or makes it; NULL and an error otherwise. The reference is the
 * experiment's own. */
const json_t *experiment_evaluation(experiment *experiment, retrieval_precision precision,
                                    lab_error *error);
const json_t *experiment_panels(experiment *experiment, const char *policy, lab_error *error);
const json_t *experiment_fit(experiment *experiment, lab_error *error);
const json_t *experiment_sharpness(experiment *experiment, lab_error *error);
const json_t *experiment_beyond(experiment *experiment, lab_error *error);

/* The result of a name: kept under FOLDER/results, if it was made with these options (whose
 * reference is taken), or made now and kept; NULL for `make`: kept or nothing. For experiments in
 * files of their own. */
typedef json_t *(*experiment_maker)(experiment *experiment, const void *context, lab_error *error);
json_t *experiment_keep(experiment *experiment, const char *name, json_t *options,
                        experiment_maker make, const void *context, lab_error *error);

/* Fills in those of the tables' results (evaluations, beyond) that are kept, and makes none. */
void experiment_recall(experiment *experiment);

#endif
