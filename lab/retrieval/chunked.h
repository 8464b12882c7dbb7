/*
 * One set at a time through a trained head, however large: its logits, then the
 * answers that several rows of coefficients give. Evaluation, fits and figures
 * are drivers of this.
 */
#ifndef WHET_LAB_RETRIEVAL_CHUNKED_H
#define WHET_LAB_RETRIEVAL_CHUNKED_H

#include "retrieval/cells.h"
#include "retrieval/head.h"
#include "retrieval/task.h"

typedef struct retrieval_chunked retrieval_chunked;

/* Memory for sets of up to n items and up to `rows` rows of coefficients. The model's cells make it
 * faster, and may be NULL. */
retrieval_chunked *retrieval_chunked_create(const retrieval_model *model,
                                            const retrieval_cells *cells, size_t n, size_t rows,
                                            lab_error *error);
void retrieval_chunked_destroy(retrieval_chunked *chunked);

typedef struct retrieval_set {
    size_t n;
    const float *priority; /* [n], as the model sees them */
    const uint16_t *class_of;
    float query;         /* as the model sees it */
    const float *logits; /* [n] */
    size_t top;          /* the item to be found */
    uint16_t label;      /* its class */
} retrieval_set;

/* Draws set `index` of those with n items that a seed has, and computes its logits. A set may take
 * seconds: where a signal comes in meanwhile (lab_interrupted), this and what follows leave off in
 * the middle, and their results mean nothing. */
void retrieval_chunked_open(retrieval_chunked *chunked, uint64_t seed, size_t n, uint64_t index,
                            retrieval_set *set);

/* Room for coefficients, [rows][n] of the set at hand. */
float *retrieval_chunked_weights(retrieval_chunked *chunked);

/* What the head answers with the coefficients in the first `rows` rows: class logits
 * [rows][classes]. */
void retrieval_chunked_answer(retrieval_chunked *chunked, size_t rows, float *logits);

#endif
