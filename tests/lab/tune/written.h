// Texts that a model writes itself, for which beta = 1 is the best there is; and a model whose
// heads are no longer what they were.
#ifndef WHET_TESTS_LAB_TUNE_WRITTEN_H
#define WHET_TESTS_LAB_TUNE_WRITTEN_H

#include "lm/open.h"
#include "nn/layers.h"

enum { WRITTEN_LANES = 64 };

// count sequences of `length` tokens, each after the begin token, drawn at temperature 1; count is
// a multiple of WRITTEN_LANES. To be freed.
lm_token *write_sequences(const nn_engine *engine, const lm_opened *opened, size_t count,
                          size_t length, uint64_t seed);

// Multiplies the queries of a head, by its number over all layers.
void multiply_queries(lm_model *model, size_t head, double factor);

#endif
