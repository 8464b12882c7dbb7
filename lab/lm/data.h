/*
 * Sequences to train on, drawn step by step: which algorithm and length comes
 * next follows from the run's seed and the step alone, and the sample is the
 * next one of that algorithm's and length's sampler. So a run that is taken up
 * again at some step goes on with the samples it would have had.
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

/* Zero it to begin with; grown as needed and kept. */
typedef struct lm_sequences {
    lm_token *tokens;
    size_t token_count, token_room;
    lm_sequence *list;
    size_t count, room;
    uint64_t left_out; /* samples that were longer than the context, since the run's start */
} lm_sequences;
void lm_sequences_free(lm_sequences *sequences);

typedef struct lm_source lm_source;

/* For a training that was checked. NULL and an error otherwise. */
lm_source *lm_source_create(const lm_training *training, size_t context, lab_error *error);
void lm_source_destroy(lm_source *source);

/* The sequences of the next step, batch * accumulate of them. */
bool lm_source_draw(lm_source *source, lm_sequences *sequences, lab_error *error);

/* To any step, forwards only; samples left out on the way are counted in `sequences`. Fails with
 * LAB_STOPPED when a signal comes in (lab_catch_interrupts). */
bool lm_source_skip_to(lm_source *source, uint64_t step, lm_sequences *sequences, lab_error *error);

/* About the longest sequence that is to come, in tokens: the longest of one sample of each task at
 * the longest length, at most `context`. Fails where a task has none of that length that fits. */
bool lm_training_longest(const lm_training *training, size_t context, size_t *tokens,
                         lab_error *error);

#endif
