/* What the parts of the benchmark of language models share. */
#ifndef WHET_BENCH_LM_H
#define WHET_BENCH_LM_H

#include "suite.h"

#include "league/arms.h"
#include "lm/data.h"

/* The batch of every training step: full sequences of random tokens. */
enum { BENCH_LM_ROWS = 32, BENCH_LM_LENGTH = 128 };
bool bench_lm_sequences(lm_sequences *made);

/* Decoding under each arm, the first of which is softmax. */
bool bench_lm_decoding(suite *with, const league_arms *arms);

/* Training steps and decoding under the policies of the options, against softmax. */
bool bench_lm_policies(suite *with);

#endif
