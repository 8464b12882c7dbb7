/*
 * The paper's second experiment at a size that a laptop can train: a decoder
 * learns textbook algorithms on short inputs and is asked about longer ones. The
 * same data and seeds for every arm, which is a policy in training and one at
 * inference. What is made is kept piece by piece, so that a run that was stopped
 * continues:
 *
 *     FOLDER/runs/clrs-quick-adaptive-1/          a model in training and after (lm/train.h)
 *     FOLDER/results/clrs-quick-adaptive-1-bfs.json   its answers, by length and policy
 *     FOLDER/results/clrs-quick.json                  everything together
 *
 * The result:
 *
 *     {"scale", "shape", "parameters", "training", "seeds", "samples",
 *      "arms": [{"name", "trained", "policy", "is_main",
 *                "rows": [{"algorithm", "hints", "length", "inside", "samples",
 *                          "exact": {"mean", "low", "high"}, "final", "entropy",
 * "entropy_after"}]}]}
 *
 * With several seeds, means and intervals are over seeds; with one, over samples.
 */
#ifndef WHET_LAB_REPORT_CLRS_H
#define WHET_LAB_REPORT_CLRS_H

#include "report/experiment.h"

/* What there is or is made now; NULL and an error otherwise. The reference is the experiment's. */
const json_t *experiment_clrs(experiment *experiment, lab_error *error);

/* Fills in what is kept, if anything is. */
void experiment_clrs_recall(experiment *experiment);

/* What is left to do: training steps of all models, and answers. */
typedef struct clrs_work {
    double steps, answers;
} clrs_work;
clrs_work experiment_clrs_left(experiment *experiment);

/* The row of an arm, or NULL. */
const json_t *clrs_row(const json_t *arm, const char *algorithm, json_int_t length);

/* The algorithms in the order of their rows; returns how many. */
enum { CLRS_NAMES_MAX = 32 };
size_t clrs_algorithms_of(const json_t *result, const char *names[CLRS_NAMES_MAX]);

/* A measure of the same row of several seeds: its mean and interval, all null where a seed was not
 * asked. A new reference, NULL when memory runs out. */
json_t *clrs_combine(const json_t *const *rows, uint64_t seeds, const char *measure);

/* For terminals and for the page; both say what was not asked. */
bool clrs_print(FILE *file, const json_t *result);
void clrs_html(FILE *file, const json_t *result);

/* Figures 8 and 9: the main arms, half of the algorithms each (`half` 0 or 1); the further policies
 * on the model that was trained with softmax; and each head's entropy against the length. */
bool figure_clrs(const char *path, const json_t *result, int half, lab_error *error);
bool figure_clrs_policies(const char *path, const json_t *result, lab_error *error);
bool figure_clrs_entropy(const char *path, const json_t *result, lab_error *error);

#endif
