/*
 * How often a model is right. A sample counts if every token of its answer, its end included, is
 * the most likely one after those before it: then greedy decoding writes that answer. So one
 * forward pass decides, without decoding.
 */
#ifndef WHET_LAB_LEAGUE_EVALUATE_H
#define WHET_LAB_LEAGUE_EVALUATE_H

#include "league/task.h"
#include "lm/model.h"
#include "nn/layers.h"

/* Means over the answers' tokens of one head; NaN where a map has no entropy. */
typedef struct league_head {
    double entropy, entropy_after, beta;
} league_head;

typedef struct league_score {
    uint64_t samples, exact;
    double loss;        /* mean over the answers' tokens */
    league_head *heads; /* [layers][heads], to be freed */
} league_score;

typedef struct league_exam {
    const nn_engine *engine;
    const whet_executor *executor; /* or NULL */
    const lm_model *model;
    const whet_policy *policy; /* instead of the model's own, or NULL */
    const lm_sequences *sequences;
    double *losses;    /* [sequences], or NULL: receives each answer's, a mean over its tokens */
    double *entropies; /* likewise: of softmax, a mean over heads and the answer's tokens */
} league_exam;

/* LAB_STOPPED after a signal. The result does not depend on the number of threads. */
bool league_examine(const league_exam *exam, league_score *score, lab_error *error);

#endif
