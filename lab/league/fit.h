/*
 * The paper's rule fitted to a model: a polynomial in the entropy through the betas that suit the
 * samples of a task best, as `whet retrieval fit` finds it for max-retrieval heads.
 */
#ifndef WHET_LAB_LEAGUE_FIT_H
#define WHET_LAB_LEAGUE_FIT_H

#include "league/evaluate.h"

typedef struct league_fit_request {
    const nn_engine *engine;
    const whet_executor *executor; /* or NULL */
    const lm_model *model;
    const league_task *task;
    size_t samples;    /* of validation, at once, twice and four times the training size */
    size_t tokens_max; /* sizes with longer samples are left out */
} league_fit_request;

/* Writes the name of the policy; softmax where no beta but 1 helps. */
bool league_fit(const league_fit_request *request, char policy[LM_POLICY_SIZE], lab_error *error);

#endif
