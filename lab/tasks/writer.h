/* What generators write with, and the tasks. */
#ifndef WHET_LAB_TASKS_WRITER_H
#define WHET_LAB_TASKS_WRITER_H

#include "tasks/tasks.h"

/* Appends the token of a symbol; after running out of memory nothing happens. */
void task_write(task_sample *sample, uint32_t symbol);

/* Ends the question. What is written later is the answer. */
void task_begin_answer(task_sample *sample);

/* The symbol at a place of the question or answer. */
static inline uint32_t task_symbol_at(const task_sample *sample, size_t place) {
    return sample->tokens[place] - TASK_SYMBOLS;
}

/* `count` different numbers below `limit`, in random order; count must not exceed limit. False when
 * memory runs out. */
bool task_draw_different(lab_random *random, uint32_t limit, uint32_t *numbers, size_t count);

extern const task_kind task_recall, task_recall_one, task_sort, task_copy, task_reverse,
    task_two_back, task_flip_flop, task_max, task_needle, task_needle_keys, task_variables;

#endif
