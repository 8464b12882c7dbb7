/*
 * Runs one set of any size at a time through a trained head: its logits, then
 * the answers for several rows of coefficients. Evaluation, fits and figures
 * are built on it.
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
    size_t top;          /* the item to retrieve */
    uint16_t label;      /* its class */
} retrieval_set;

/* Draws set `index` among the sets of n items of a seed, and computes its logits. A set may take
 * seconds: after a signal (lab_interrupted) this and the following calls return early, and their
 * results are meaningless. */
void retrieval_chunked_open(retrieval_chunked *chunked, uint64_t seed, size_t n, uint64_t index,
                            retrieval_set *set);

/* Memory for coefficients, [rows][n] of the current set. */
float *retrieval_chunked_weights(retrieval_chunked *chunked);

/* The head's answers for the coefficients in the first `rows` rows: class logits
 * [rows][classes]. */
void retrieval_chunked_answer(retrieval_chunked *chunked, size_t rows, float *logits);

#endif
