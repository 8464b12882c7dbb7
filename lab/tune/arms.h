/* Arms of a result by name: rows of one name are repetitions of an arm, with other seeds. */
#ifndef WHET_LAB_TUNE_ARMS_H
#define WHET_LAB_TUNE_ARMS_H

#include "tune/tune.h"

enum { TUNE_ARMS_MAX = 32 };

/* Names in the order in which they were measured; returns how many there are. */
size_t tune_arms(const tune_result *result, const char *names[TUNE_ARMS_MAX]);

size_t tune_repetitions(const tune_result *result, const char *name);

/* The mean loss by position, over repetitions, on one check domain or (SIZE_MAX) all of them. */
void tune_arm_bins(const tune_result *result, const char *name, size_t domain,
                   double bins[TUNE_BINS]);

/* What a task is scored by: 1 for exact answers, the share of right tokens, the loss of a token. */
double *tune_exact(const tune_measure *measure);
double *tune_right(const tune_measure *measure);
double *tune_answer_loss(const tune_measure *measure);

/* The mean of such a quantity over examples and repetitions. */
double tune_task_mean(const tune_result *result, const char *name,
                      double *(*quantity)(const tune_measure *));

/* How the chosen setting differs from another arm on the check texts: the loss of a token of the
 * task's answers, or else perplexity where the gain is. Below 0 the chosen one is better. */
lab_interval tune_chosen_against(const tune_result *result, const char *name);

/* A control with one number that is certainly better than the chosen setting; NULL if there is
 * none. */
const char *tune_better_control(const tune_result *result);

/* Whether an arm has other positions or masks than the model that was tuned. */
bool tune_arm_is_other(const char *name);

/* Such an arm with lower perplexity beyond the trained context than what was found; NULL if there
 * is none. */
const char *tune_better_arm(const tune_result *result);

#endif
