/* Modules of cases.h, loaded side by side, and the problems that they have. */
#ifndef WHET_BENCH_COMPARE_LOADED_H
#define WHET_BENCH_COMPARE_LOADED_H

#include "cases.h"

enum { PROBLEMS_MAX = 128, PROBLEM_TEXT = 64 };

typedef struct problem {
    char section[PROBLEM_TEXT], label[PROBLEM_TEXT];
    double seconds; /* that a quick run of the benchmark gives it */
} problem;

typedef struct loaded {
    const char *path;
    const cases_module *module;
    problem problems[PROBLEMS_MAX];
    size_t count;
} loaded;

/* Loads two modules, which may be one and the same file. Each stays loaded until the process ends.
 * False after a message on standard error. */
bool loaded_open(loaded *old_build, loaded *new_build, const char *old_path, const char *new_path);

/* The problem of that section and label; NULL if there is none. */
const problem *loaded_find(const loaded *in, const problem *like);

#endif
