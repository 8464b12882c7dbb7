/*
 * Figure 6: for many sets the beta at which a trained head's answer has the
 * lowest cross-entropy, against the entropy H of its softmax; and curves
 * through these points that can be used as policies.
 */
#ifndef WHET_LAB_RETRIEVAL_FIT_H
#define WHET_LAB_RETRIEVAL_FIT_H

#include "retrieval/head.h"

typedef struct retrieval_fit_request {
    const retrieval_heads *heads;
    const size_t *sizes;
    size_t size_count;
    size_t sets; /* of each head and size */
    uint64_t seed;
    unsigned degree; /* of the polynomials, 1 to 8 */
    double cap;      /* betas are searched from 1 / cap to cap */
    const whet_executor *executor;
    bool quiet;
} retrieval_fit_request;

typedef struct retrieval_fit_point {
    size_t n;
    double entropy; /* H of softmax */
    double beta;    /* the smallest that is within 0.001 nats of the best cross-entropy */
    bool is_used;   /* false where no beta in range helps: the best is at the lower end */
} retrieval_fit_point;

typedef struct retrieval_curve {
    whet_policy policy;
    char name[RETRIEVAL_POLICY_SIZE]; /* as every command accepts it */
    double error;                     /* root of the mean square over the points used */
} retrieval_curve;

typedef struct retrieval_fit {
    retrieval_fit_point *points; /* [heads][sizes][sets] */
    size_t count, used;
    double entropy_max;       /* both curves are constant beyond it */
    retrieval_curve least;    /* least squares */
    retrieval_curve monotone; /* least squares among curves that never fall */
} retrieval_fit;

bool retrieval_fit_make(const nn_engine *engine, const retrieval_fit_request *request,
                        retrieval_fit *fit, lab_error *error);
void retrieval_fit_free(retrieval_fit *fit);

json_t *retrieval_fit_json(const retrieval_fit *fit);

/* Curves through given points: sets least, monotone, entropy_max and used. */
bool retrieval_fit_curves(retrieval_fit *fit, unsigned degree, lab_error *error);

#endif
