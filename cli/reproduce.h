/* What `whet reproduce` and `whet figure` share: the options of the experiments behind them. */
#ifndef WHET_CLI_REPRODUCE_H
#define WHET_CLI_REPRODUCE_H

#include "retrieval.h"

#include "report/experiment.h"

#include <stdbool.h>

/* 0 in numbers means what the chosen scale has: quick, or full. */
typedef struct reproduction {
    const char *folder;
    option_range seeds, steps, sets;
    option_range lm_steps, lm_samples, lm_seeds;
    uint64_t threads;
    bool is_full, quiet;
    laboratory lab;
    experiment experiment;
} reproduction;

enum { REPRODUCE_QUICK_STEPS = 20000, REPRODUCE_FULL_STEPS = 100000, REPRODUCE_FULL_SEEDS = 10 };

/* With the limits of its numbers, and none of them given. */
reproduction reproduction_start(void);

/* Numbers that were not given become those with which `whet reproduce` worked in the folder last,
 * if it did. An exit status, after a message unless STATUS_OK. */
int recall_options(reproduction *reproduction, const char *command);

/* Loads what the experiments compute with. An exit status, after a message unless STATUS_OK; close
 * it either way. */
int open_reproduction(reproduction *reproduction, const char *command);
void close_reproduction(reproduction *reproduction);

/* Like report_lab_error; a run that was interrupted is told how to go on. */
int report_failure(const char *command, const lab_error *error);

#endif
