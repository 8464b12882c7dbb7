/*
 * Evaluates heads on more items than they were trained on: every policy on the
 * same sets. Sets are streamed, so that memory grows with the size of one set
 * and not with their number; each has a seed of its own, so that results do not
 * depend on threads.
 */
#ifndef WHET_LAB_RETRIEVAL_EVALUATE_H
#define WHET_LAB_RETRIEVAL_EVALUATE_H

#include "base/ranks.h"
#include "base/statistics.h"
#include "retrieval/head.h"

enum { RETRIEVAL_EVAL_SIZE_MAX = 1048576, RETRIEVAL_POLICIES_MAX = 32 };

typedef struct retrieval_eval_request {
    const retrieval_heads *heads;
    const size_t *sizes; /* items in a set */
    size_t size_count;
    size_t sets; /* of each size; 4096 */
    uint64_t seed;
    const whet_policy *policies;
    const char *const *names; /* of the policies */
    size_t policy_count;
    const char *title;             /* for the progress line, or NULL */
    const whet_executor *executor; /* or NULL */
    const lab_ranks *ranks;        /* or NULL: processes that have the same heads, to which the
                                    * sets of each size are dealt; all get the results */
    bool quiet;
} retrieval_eval_request;

enum {
    RETRIEVAL_ACCURACY,
    RETRIEVAL_LOSS,    /* cross-entropy of the answer */
    RETRIEVAL_ENTROPY, /* of the coefficients after the policy; NaN where they need not sum to 1 */
    RETRIEVAL_PLAIN,   /* share of rows with beta = 1 exactly */
    RETRIEVAL_TOP_WEIGHT, /* coefficient of the item to retrieve, as a share of all */
    RETRIEVAL_BETA,       /* NaN for maps without one */
    RETRIEVAL_MEASURES
};

/* One size and policy: intervals over sets for one head, over sets and heads for all of them. */
typedef struct retrieval_cell {
    lab_interval measure[RETRIEVAL_MEASURES];
} retrieval_cell;

/* Adaptive against softmax on the same sets: the numbers of sets that only one of them got right,
 * and the two-sided probability of that if they were equally good (McNemar's exact test). */
typedef struct retrieval_paired {
    uint64_t only_adaptive, only_softmax;
    double p;
} retrieval_paired;

typedef struct retrieval_evaluation {
    size_t heads, sizes, policies, sets;
    size_t *size;             /* [sizes] */
    char **name;              /* [policies] */
    uint64_t *seed;           /* [heads] */
    retrieval_cell *cells;    /* [heads][sizes][policies] */
    retrieval_cell *summary;  /* [sizes][policies]: all heads */
    retrieval_paired *paired; /* [sizes]: all heads' sets together */
    lab_interval *gain;       /* [sizes]: accuracy of adaptive minus softmax, all heads */
    bool has_pair;            /* both policies were requested */
} retrieval_evaluation;

bool retrieval_evaluate(const nn_engine *engine, const retrieval_eval_request *request,
                        retrieval_evaluation *result, lab_error *error);
void retrieval_evaluation_free(retrieval_evaluation *evaluation);

/* The same as JSON (a new reference), and as CSV: a line a head, size and
 * policy, the context being an evaluation, for replace_file. */
json_t *retrieval_evaluation_json(const retrieval_evaluation *from);
void retrieval_evaluation_csv(FILE *file, const void *context);

/* Powers of two from `first` to `last`; returns their number, at most 32. */
size_t retrieval_sizes(size_t first, size_t last, size_t sizes[32]);

#endif
