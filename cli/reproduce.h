/* What `whet reproduce` and `whet figure` share: the options of the experiments behind them. */
#ifndef WHET_CLI_REPRODUCE_H
#define WHET_CLI_REPRODUCE_H

#include "retrieval.h"

#include "report/experiment.h"

#include <stdbool.h>

/* 0 in numbers means what the chosen scale has: quick, or full. */
typedef struct reproduction {
    const char *folder;
    uint64_t seeds, steps, sets, threads;
    bool is_full, quiet;
    laboratory lab;
    experiment experiment;
} reproduction;

enum { REPRODUCE_QUICK_STEPS = 20000, REPRODUCE_FULL_STEPS = 100000, REPRODUCE_FULL_SEEDS = 10 };

/* Loads what the experiments compute with. False after a message; close it either way. */
bool open_reproduction(reproduction *reproduction, const char *command);
void close_reproduction(reproduction *reproduction);

#endif
