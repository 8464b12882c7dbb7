/* A part of the section of skip that times nothing: see skip_rules.c. */
#ifndef WHET_BENCH_SKIP_H
#define WHET_BENCH_SKIP_H

#include "suite.h"

/* Adds a case for each kind of rows; false if it cannot continue. A visitor gets none. */
bool bench_skip_rules(suite *with, report_section *section);

#endif
