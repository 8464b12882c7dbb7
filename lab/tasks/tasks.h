/*
 * Synthetic tasks for small language models: recall, sorting, copying and the like, at any size. A
 * sample is a question and its only right answer, both as tokens, drawn from a seed alone, so that
 * no data set is stored. docs/LEAGUE.md has the formats and where they come from.
 *
 *     task_sample sample = {0};
 *     if (task_draw(task_find("sort"), 64, task_seed(1, TASK_TEST, 0), &sample))
 *         train on sample.tokens, of which sample.question are the question;
 *     task_sample_free(&sample);
 */
#ifndef WHET_LAB_TASKS_TASKS_H
#define WHET_LAB_TASKS_TASKS_H

#include "base/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TASK_ANSWER = 4, /* the token that ends a question; smaller ones are marks of lm/tokens.h */
    TASK_SYMBOLS,    /* the token of symbol 0; a task has `alphabet` symbols */
    TASK_SIZE_MAX = 1 << 20
};

typedef struct task_sample {
    uint32_t *tokens; /* question, then answer */
    size_t count, capacity;
    size_t question; /* tokens of the question */
    bool failed;     /* memory ran out */
} task_sample;

typedef struct task_kind {
    const char *name, *summary;
    uint32_t alphabet;
    uint32_t smallest;             /* valid size */
    uint32_t train_min, train_max; /* sizes to train on */
    bool has_short_answers;        /* as long at any size: large sizes are cheap */
    void (*draw)(size_t size, lab_random *random, task_sample *sample);
} task_kind;

/* NULL from the last on, and for unknown names. */
const task_kind *task_at(size_t index);
const task_kind *task_find(const char *name);

/* Tokens of a task: all are smaller than this. */
static inline uint32_t task_vocabulary(const task_kind *task) {
    return TASK_SYMBOLS + task->alphabet;
}

/* Streams that never share a sample's seed. */
typedef enum task_split { TASK_TRAIN, TASK_VALIDATION, TASK_TEST } task_split;
uint64_t task_seed(uint64_t seed, task_split split, uint64_t index);

/* Replaces the sample. False if the size is out of range or memory runs out. */
bool task_draw(const task_kind *task, size_t size, uint64_t seed, task_sample *sample);
void task_sample_free(task_sample *sample);

/* Exact match. */
bool task_is_right(const task_sample *sample, const uint32_t *answer, size_t count);

#endif
