/* Scores of heads that copy from a text: see needles.c. */
#ifndef WHET_LAB_MODEL_NEEDLES_H
#define WHET_LAB_MODEL_NEEDLES_H

#include "base/json.h"
#include "llama/record.h"

/* A token of an answer. */
typedef struct needle_step {
    uint64_t evaluation; /* whose last row predicts it */
    uint64_t place;      /* of the same token in the needle */
    bool is_copied;      /* whether the model itself would have chosen it */
} needle_step;

/* Those of one policy; zero it first. */
typedef struct needles {
    needle_step *steps;
    size_t count;
    unsigned char *found; /* [count][heads]: whether the largest weight lies there */
    size_t heads;
} needles;

/* What a model did: all answers are written for it, token by token. `share` is over the tokens that
 * it would have chosen by itself, or over all where there is none; NaN without any. */
typedef struct needle_score {
    size_t tokens, copied;
    double share;
} needle_score;

/* Adds what the process reports, [[evaluation, place, copied], ...]. */
bool needles_take(needles *all, const json_t *steps, lab_error *error);

/* Once all are known: memory for `heads` heads; then every row of the record; then scores. */
bool needles_begin(needles *all, size_t heads, lab_error *error);
void needles_add(needles *all, size_t head, const record_row *row);
needle_score needles_score(const needles *all, size_t head);

void needles_forget(needles *all);

#endif
