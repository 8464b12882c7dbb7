/* Several sequences in one cache against the same sequences in caches of their own. */
#ifndef WHET_BENCH_SEQUENCES_H
#define WHET_BENCH_SEQUENCES_H

#include "suite.h"

/* A token of each of them, or a prompt of one. */
bool bench_sequences(suite *with, bool is_prompt);

#endif
