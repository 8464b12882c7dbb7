/* What `whet reproduce` and `whet figure` share: the options of the experiments behind them. */
#ifndef WHET_CLI_REPRODUCE_H
#define WHET_CLI_REPRODUCE_H

#include "retrieval.h"

#include "report/reproduction.h"

typedef struct reproduce_arguments {
    reproduction run;
    option_range seeds, steps, sets; /* 0: not given */
    option_range lm_steps, lm_samples, lm_seeds;
    uint64_t threads;
    laboratory lab;
    experiment experiment;
} reproduce_arguments;

/* With the limits of its numbers, and none of them given. */
reproduce_arguments usual_reproduction(void);

/* Numbers that were given become the scale of the run. */
void take_scale(reproduce_arguments *given);

/* Loads what the experiments compute with, unless the BLAS and threads are not needed. An exit
 * status, after a message unless STATUS_OK; close it either way. */
int open_reproduction(reproduce_arguments *given, const char *command, bool needs_blas);
void close_reproduction(reproduce_arguments *given);

/* Like report_lab_error; a run that was interrupted is told how to go on. */
int report_failure(const char *command, const lab_error *error);

#endif
