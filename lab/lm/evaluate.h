/*
 * Accuracy of a model on CLRS-Text: for each algorithm and length the same
 * samples under every policy, answered greedily with a key-value cache, scored
 * as by `whet clrs score`, with the entropy of each head while answering.
 *
 * Samples are answered in groups of lanes; results depend neither on the number
 * of threads nor on which samples share a group.
 */
#ifndef WHET_LAB_LM_EVALUATE_H
#define WHET_LAB_LM_EVALUATE_H

#include "clrs/score.h"
#include "lm/decode.h"
#include "lm/training.h"

enum { LM_EVAL_SAMPLES_MAX = 1000000, LM_EVAL_SEED_LIMIT = 1 << 30, LM_EVAL_POLICIES_MAX = 64 };

/* A policy to answer under. */
typedef struct lm_eval_policy {
    const char *name;
    const whet_policy *policy; /* NULL: the model's own, with its learned parameters */
} lm_eval_policy;

typedef struct lm_eval_request {
    const lm_model *model; /* of CLRS-Text's tokens */
    const nn_engine *engine;
    const whet_executor *executor;
    const lm_task *tasks;
    size_t task_count;
    const uint64_t *lengths;
    size_t length_count;
    uint64_t samples; /* of each algorithm and length */
    uint64_t seed;    /* smaller than those of training */
    const lm_eval_policy *policies;
    size_t policy_count;
    bool quiet;
    const char *title; /* for the progress line, or NULL */
} lm_eval_request;

/* One algorithm, length and policy. */
typedef struct lm_eval_cell {
    clrs_score_sum sum;                      /* no samples: they do not fit the model's context */
    uint64_t question_tokens, answer_tokens; /* of all samples; of the reference answers */
    lm_entropy *entropies;                   /* [layers][heads], summed */
} lm_eval_cell;

typedef struct lm_evaluation {
    const lm_eval_request *request;
    lm_eval_cell *cells;   /* [task][length][policy] */
    lm_entropy *entropies; /* of all cells */
} lm_evaluation;

/* False and an error on failure, LAB_STOPPED after a signal. The request must outlive the
 * result. */
bool lm_evaluate(const lm_eval_request *request, lm_evaluation *result, lab_error *error);
void lm_evaluation_free(lm_evaluation *evaluation); /* a zeroed one is fine */

const lm_eval_cell *lm_eval_cell_at(const lm_evaluation *evaluation, size_t task, size_t length,
                                    size_t policy);

/* Whether a model was trained on samples of this length; false where its checkpoint does not say.
 */
bool lm_model_knows_length(const lm_model *model, uint64_t length);

/* Everything as JSON, a row for each cell; a new reference, NULL when memory runs out. */
json_t *lm_evaluation_json(const lm_evaluation *of);

/* The same as a table with a line for each cell, for replace_file, the context being the
 * evaluation; heads are averaged. */
void lm_evaluation_csv(FILE *file, const void *evaluation);

/* The entropies of each head, likewise: a line for each cell, layer and head. */
void lm_evaluation_heads_csv(FILE *file, const void *evaluation);

#endif
