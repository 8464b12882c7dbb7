/* A run in progress; shared by its phases: prepare.c, candidates.c and check.c, driven by tune.c.
 */
#ifndef WHET_LAB_TUNE_RUN_H
#define WHET_LAB_TUNE_RUN_H

#include "base/progress.h"
#include "tune/llama_judge.h"
#include "tune/task.h"
#include "tune/together.h"
#include "tune/tune.h"

enum { TUNE_ROPES_MAX = 8, TUNE_ROPE_SIZE = 32 };

/* The model with one scaling of its positions. */
typedef struct tune_model {
    char rope[TUNE_ROPE_SIZE];
    lm_network lm;
    tune_network *network; /* in lab/lm, or NULL */
    tune_llama *llama;     /* in llama.cpp, or NULL */
    tune_judge judge;
    tune_dealt_judge dealt; /* what the judge is in a run of several ranks */
} tune_model;

typedef struct tune_run_state {
    const tune_request *request;
    tune_result *result;
    lab_error *error;
    tune_together together;
    lm_opened opened;
    tune_words words;
    lm_token_list prefix;              /* of every sequence */
    tune_model models[TUNE_ROPES_MAX]; /* the first is the one that is tuned */
    size_t model_count;
    lm_network learner_lm; /* of `learner`, where llama.cpp judges and lab/lm learns */
    tune_network *learner;
    unsigned char *is_tuned; /* [layers][heads] */
    tune_set calibration;
    tune_set *validation; /* [result->validate.count] */
    tune_set *check;      /* [result->check.count] */
    tune_task task;
    char task_hash[LAB_SHA256_SIZE]; /* of a file of examples, or "" */
    tune_examples examples[3];       /* for calibration, validation and check */
    tune_sequence *tasks[3];
    tune_ledger ledger;
    tune_setting neutral;
    tune_candidate *candidates; /* the result's, once all is done */
    size_t candidate_count;
    tune_measure *validation_base; /* softmax on the validation texts */
    tune_measure task_base;
    lab_progress progress;
    char doing[128];   /* what is being learned or searched */
    char showing[160]; /* what the progress line says */
} tune_run_state;

enum { TUNE_CALIBRATION, TUNE_VALIDATION, TUNE_CHECK };

/* prepare.c: model, texts, sets, tasks, ledger. */
bool tune_prepare(tune_run_state *run);
void tune_clean_up(tune_run_state *run);

/* Frees the model to learn by, in f32, once everything is learned. */
void tune_close_learner(tune_run_state *run);

/* The model with another scaling; NULL after an error. */
tune_model *tune_model_with(tune_run_state *run, const char *rope);

/* forward.c: candidates by forward passes alone. */
bool tune_search_candidates(tune_run_state *run, size_t seed);

/* candidates.c: trains or searches, measures on the validation texts, and chooses. */
bool tune_find_candidates(tune_run_state *run);
bool tune_choose(tune_run_state *run);
bool tune_consider(tune_run_state *run, const tune_setting *setting, tune_by by, size_t seed,
                   size_t step, double share);
/* The mean change of perplexity over the validation domains and their parts; *worst, unless NULL,
 * is the largest of them. */
double tune_cost_of(const tune_run_state *run, const tune_measure *domains, double *worst);
bool tune_measure_validation(tune_run_state *run, const tune_setting *setting, const char *key,
                             tune_measure *domains, tune_measure *task);

/* The best candidate of one way of sharing and one seed by the validation texts; NULL if there is
 * none. */
const tune_candidate *tune_best_of(const tune_run_state *run, tune_by by, size_t seed);

/* check.c: the chosen setting and all controls on the check texts. */
bool tune_check_all(tune_run_state *run);

/* Progress from here on: `total` sequences, and what they are for. */
void tune_announce(tune_run_state *run, size_t total, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool tune_progress(void *run, size_t done);

#endif
