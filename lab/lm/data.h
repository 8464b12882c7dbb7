/*
 * Sequences to train on, drawn step by step: the next algorithm and length
 * depend on the run's seed and the step alone, and the sample is the next one
 * of the sampler for them. So a resumed run continues with the samples it would
 * have had.
 */
#ifndef WHET_LAB_LM_DATA_H
#define WHET_LAB_LM_DATA_H

#include "lm/tokens.h"
#include "lm/training.h"

/* BEGIN question answer END; positions before `answer` are the question's. */
typedef struct lm_sequence {
    size_t offset; /* of its first token among all tokens */
    uint32_t count, answer;
    uint32_t task; /* among the run's */
} lm_sequence;

/* Zero it first; grown as needed and kept. */
typedef struct lm_sequences {
    lm_token *tokens;
    size_t token_count, token_capacity;
    lm_sequence *list;
    size_t count, capacity;
    uint64_t left_out; /* samples longer than the context, since the start of the run */
} lm_sequences;
void lm_sequences_free(lm_sequences *sequences);

/* Appends one sequence, from tokens or from a text. False when memory runs out. */
bool lm_sequences_add(lm_sequences *sequences, const task_sample *sample);
bool lm_sequences_add_text(lm_sequences *sequences, const clrs_sample *sample, uint32_t task);

typedef struct lm_source lm_source;

/* For a checked configuration. NULL and an error on failure. */
lm_source *lm_source_create(const lm_training *training, size_t context, lab_error *error);
void lm_source_destroy(lm_source *source);

/* The sequences of the next step, batch * accumulate of them. */
bool lm_source_draw(lm_source *source, lm_sequences *sequences, lab_error *error);

/* To any later step; skipped samples are counted in `sequences`. Fails with LAB_STOPPED after a
 * signal (lab_catch_interrupts). */
bool lm_source_skip_to(lm_source *source, uint64_t step, lm_sequences *sequences, lab_error *error);

/* Approximately the longest sequence to come, in tokens: the longest of one sample of each task at
 * the longest length, at most `context`. Fails where a task has none of that length that fits. */
bool lm_training_longest(const lm_training *training, size_t context, size_t *tokens,
                         lab_error *error);

#endif
