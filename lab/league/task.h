/* Tasks of the league, synthetic or algorithms of CLRS-Text, and their samples for evaluation. */
#ifndef WHET_LAB_LEAGUE_TASK_H
#define WHET_LAB_LEAGUE_TASK_H

#include "lm/data.h"

typedef struct league_task {
    const char *name;
    const task_kind *synthetic;      /* one of the two */
    const clrs_algorithm *algorithm; /* by its name after "clrs-" */
    uint32_t train_min, train_max;
} league_task;

enum { LEAGUE_TASKS_MAX = 32 };

/* False from the last on, and for unknown names. */
bool league_task_at(size_t index, league_task *task);
bool league_task_find(const char *name, league_task *task);

/* What is asked of a model in training; the rest of the options stays. */
bool league_task_train(const league_task *task, lm_training *training, lab_error *error);

/* Samples of one size. Validation and test never share one, nor with training. Fails with LAB_INPUT
 * where a sample is longer than `tokens_max`. */
bool league_task_draw(const league_task *task, task_split split, uint64_t size, size_t count,
                      size_t tokens_max, lm_sequences *sequences, lab_error *error);

#endif
