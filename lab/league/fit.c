/*
 * Every sample is examined under a list of betas, the same in all heads. Its point is the entropy
 * of softmax, a mean over heads and the answer's tokens, and the smallest beta that is nearly the
 * best.
 */
#include "league/fit.h"

#include "retrieval/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double betas[] = {1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 6};
static const uint64_t multiples[] = {1, 2, 4};
enum { BETAS = sizeof betas / sizeof *betas, MULTIPLES = sizeof multiples / sizeof *multiples };

#define NEARLY 1e-3 /* nats */

typedef struct fitting {
    const league_fit_request *request;
    lm_sequences sequences;
    double *losses;     /* [betas][samples] */
    double *entropies;  /* [samples] */
    retrieval_fit made; /* points of all sizes */
} fitting;

static bool examine_all(fitting *own, lab_error *error) {
    const league_fit_request *r = own->request;
    for (size_t i = 0; i < BETAS; i++) {
        whet_policy policy = whet_policy_fixed(betas[i]);
        const league_exam exam = {.engine = r->engine,
                                  .executor = r->executor,
                                  .model = r->model,
                                  .policy = &policy,
                                  .sequences = &own->sequences,
                                  .losses = own->losses + i * r->samples,
                                  .entropies = i == 0 ? own->entropies : NULL};
        league_score score;
        if (!league_examine(&exam, &score, error))
            return false;
        free(score.heads);
    }
    return true;
}

static double best_beta(const fitting *own, size_t sample) {
    const double *losses = own->losses + sample;
    double least = INFINITY;
    for (size_t i = 0; i < BETAS; i++)
        least = fmin(least, losses[i * own->request->samples]);
    for (size_t i = 0; i < BETAS; i++)
        if (losses[i * own->request->samples] <= least + NEARLY)
            return betas[i];
    return 1;
}

static bool add_points(fitting *own, uint64_t multiple, lab_error *error) {
    const league_fit_request *r = own->request;
    lab_error reason = {.kind = LAB_NO_ERROR};
    uint64_t size = multiple * r->task->train_max;
    if (!league_task_draw(r->task, TASK_VALIDATION, size, r->samples, r->tokens_max,
                          &own->sequences, &reason))
        return reason.kind == LAB_INPUT || lab_fail(error, reason.kind, "%s", reason.text);
    if (!examine_all(own, error))
        return false;
    for (size_t i = 0; i < r->samples; i++)
        own->made.points[own->made.count++] = (retrieval_fit_point){.n = (size_t)size,
                                                                    .entropy = own->entropies[i],
                                                                    .beta = best_beta(own, i),
                                                                    .is_used = true};
    return true;
}

static bool fit_points(fitting *own, char policy[LM_POLICY_SIZE]) {
    enum { DEGREE = 4 };
    bool helps = false;
    for (size_t i = 0; i < own->made.count; i++)
        helps = helps || own->made.points[i].beta > 1;
    if (!helps || !retrieval_fit_curves(&own->made, DEGREE, NULL))
        return false;
    snprintf(policy, LM_POLICY_SIZE, "%s", own->made.least.name);
    return true;
}

bool league_fit(const league_fit_request *request, char policy[LM_POLICY_SIZE], lab_error *error) {
    fitting own = {.request = request};
    snprintf(policy, LM_POLICY_SIZE, "softmax");
    own.losses = calloc(BETAS * request->samples, sizeof *own.losses);
    own.entropies = calloc(request->samples, sizeof *own.entropies);
    own.made.points = calloc(MULTIPLES * request->samples, sizeof *own.made.points);
    bool is_good = (own.losses && own.entropies && own.made.points) || lab_fail_memory(error);
    for (size_t i = 0; is_good && i < MULTIPLES; i++)
        is_good = add_points(&own, multiples[i], error);
    if (is_good)
        fit_points(&own, policy);
    lm_sequences_free(&own.sequences);
    free(own.losses);
    free(own.entropies);
    free(own.made.points);
    return is_good;
}
