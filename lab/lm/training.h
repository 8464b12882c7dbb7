/*
 * Every option of a training run: the questions, their number, and the optimiser. Questions are
 * CLRS-Text or one of lab/tasks. Samples of lab/clrs are from seeds of 2^31 and more, so that
 * smaller seeds are free for evaluation; lab/tasks has a stream for each purpose.
 */
#ifndef WHET_LAB_LM_TRAINING_H
#define WHET_LAB_LM_TRAINING_H

#include "base/json.h"
#include "clrs/clrs.h"
#include "tasks/tasks.h"

#define LM_SEED_MAX INT64_MAX /* JSON has no larger integers */

enum {
    LM_BATCH_MAX = 65536,
    LM_ACCUMULATE_MAX = 4096,
    LM_LENGTH_MAX = 4096 /* of samples to train on */
};

/* What counts in the loss. */
typedef enum lm_loss { LM_LOSS_ANSWER, LM_LOSS_ALL } lm_loss;

/* Weights in the loss: every token alike, or every answer alike, however long. */
typedef enum lm_weigh { LM_WEIGH_TOKENS, LM_WEIGH_SEQUENCES } lm_weigh;

typedef struct lm_task {
    const clrs_algorithm *algorithm;
    bool hints;
} lm_task;

typedef struct lm_training {
    uint64_t seed;
    lm_task tasks[CLRS_ALGORITHM_COUNT]; /* equally often each */
    size_t task_count;
    const task_kind *synthetic;      /* instead of them, or NULL; lengths are its sizes then */
    uint32_t length_min, length_max; /* of samples, equally often each; but see shortest lengths */
    double
        curriculum; /* the share of all steps over which the longest length grows to length_max */
    uint32_t batch; /* sequences in a batch */
    uint32_t accumulate; /* batches to a step */
    uint64_t steps;
    uint64_t warm_up; /* steps in which the rate rises to `rate` */
    double rate;
    double rate_end; /* reached at the last step along a half cosine */
    double beta1, beta2;
    double decay; /* of matrices: w -= rate decay w */
    double clip;  /* the gradient's norm is clipped to this; 0: never */
    lm_loss loss;
    lm_weigh weigh;
} lm_training;

lm_training lm_training_default(void);

/* Whether it is valid; the error names the option. */
bool lm_training_check(const lm_training *training, lab_error *error);

/* Adds "minimum", or "bfs:hints", to the tasks. */
bool lm_training_add_task(lm_training *training, const char *text, lab_error *error);

/* Several, separated by commas. */
bool lm_training_add_tasks(lm_training *training, const char *text, lab_error *error);

/* Whether there is something to learn. */
static inline bool lm_training_has_task(const lm_training *training) {
    return training->task_count > 0 || training->synthetic;
}

/* Tokens that a model for it must know. */
uint32_t lm_training_vocabulary(const lm_training *training);

/* As one JSON object, and back. From JSON: false and an error that names `path` where something is
 * missing or invalid. */
json_t *lm_training_to_json(const lm_training *training);
bool lm_training_from_json(json_t *json, const char *path, lm_training *training, lab_error *error);

/* The names, in the order of the values and ended by NULL; and values by name. */
extern const char *const lm_loss_names[], *const lm_weigh_names[];
bool lm_loss_parse(const char *name, lm_loss *loss);
bool lm_weigh_parse(const char *name, lm_weigh *weigh);

/* The learning rate of a step, counted from 0; and the longest length drawn there. */
double lm_rate_at(const lm_training *training, uint64_t step);
uint32_t lm_longest_at(const lm_training *training, uint64_t step);

#endif
