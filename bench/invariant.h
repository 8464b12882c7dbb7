/* WHET_INVARIANT against the same without it. */
#ifndef WHET_BENCH_INVARIANT_H
#define WHET_BENCH_INVARIANT_H

#include "suite.h"

bool bench_invariant_decode(suite *with);
bool bench_invariant_prefill(suite *with);

#endif
