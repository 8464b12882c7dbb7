/* What `whet reproduce` and `whet figure` share: the options of the experiments behind them. */
#ifndef WHET_CLI_REPRODUCE_H
#define WHET_CLI_REPRODUCE_H

#include "confirm.h"
#include "retrieval.h"

#include "report/reproduction.h"

typedef struct reproduce_arguments {
    reproduction run;
    option_range seeds, steps, fresh_steps, sets; /* 0: not given */
    option_range lm_steps, lm_samples, lm_seeds;
    uint64_t threads;
    bool is_confirmed; /* --yes */
    laboratory lab;
    experiment experiment;
} reproduce_arguments;

/* With the limits of its numbers, and none of them given. */
reproduce_arguments usual_reproduction(void);

/* Numbers that were given become the scale of the run. */
void take_scale(reproduce_arguments *given);

/* Loads what the experiments compute with, unless the BLAS and threads are not needed. An exit
 * status, after a message unless STATUS_OK; close it either way. */
int open_reproduction(reproduce_arguments *given, bool needs_blas);
void close_reproduction(reproduce_arguments *given);

static inline option_spec fresh_steps_option(option_range *steps) {
    return (option_spec){"fresh-steps", OPTION_RANGE, steps, "N",
                         "training steps of the head trained during the run (default 20000)"};
}

/* confirm_seconds for all jobs; the question lists the longest. */
int confirm_work(const report_jobs *jobs, bool is_confirmed);

#endif
