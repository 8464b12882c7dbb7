/*
 * Scores of predictions. Three measures, independent of tokens: exact, the
 * whole answer; final, what follows its last " | "; and steps, the share of the
 * trace's states that are right before the first wrong one.
 */
#ifndef WHET_LAB_CLRS_SCORE_H
#define WHET_LAB_CLRS_SCORE_H

#include "clrs/clrs.h"

/* A text without a terminating zero. */
typedef struct clrs_span {
    const char *start;
    size_t length;
} clrs_span;

typedef struct clrs_score {
    bool exact, final;
    uint64_t steps, steps_right; /* of the reference's trace; 0 steps where it has none */
} clrs_score;

/* White space around either text does not count. */
clrs_score clrs_score_answer(const clrs_algorithm *algorithm, clrs_span prediction,
                             clrs_span reference);

/* Sums over the predictions for one algorithm and length. */
typedef struct clrs_score_sum {
    const clrs_algorithm *algorithm; /* NULL: of several */
    int64_t length;                  /* or 0 */
    uint64_t samples, exact, final;
    uint64_t traced;    /* number of answers with a trace */
    double steps_share; /* sum of their shares */
} clrs_score_sum;

/* Zero it first. Not thread-safe. */
typedef struct clrs_scores {
    clrs_score_sum *sums; /* sorted by algorithm and length */
    size_t count, capacity;
    struct clrs_source *sources; /* open samplers, for regenerated references */
    size_t source_count;
} clrs_scores;

/* False when memory runs out. */
bool clrs_scores_add(clrs_scores *scores, const clrs_algorithm *algorithm, int64_t length,
                     clrs_span prediction, clrs_span reference);

/* The answer of a sample, valid until the next call. Calls in the order of the samples are cheap.
 */
clrs_status clrs_scores_reference(clrs_scores *scores, const clrs_request *request, uint64_t index,
                                  clrs_span *reference);

/* The total. */
clrs_score_sum clrs_scores_total(const clrs_scores *scores);

void clrs_scores_free(clrs_scores *scores);

#endif
