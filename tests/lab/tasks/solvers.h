/* Naive solvers: each reads a question as a person would and writes its answer. */
#ifndef WHET_TESTS_TASKS_SOLVERS_H
#define WHET_TESTS_TASKS_SOLVERS_H

#include "tasks/tasks.h"

/* Writes the answer's tokens and returns how many, at most `question` + 16. The tokens of the
 * question are all that a solver sees. */
size_t solve_task(const char *name, const uint32_t *question, size_t count, uint32_t *answer);

#endif
