/* Choosing the next token from logits. */
#ifndef WHET_LAB_LM_SAMPLE_H
#define WHET_LAB_LM_SAMPLE_H

#include "base/random.h"
#include "lm/tokens.h"

#include <stddef.h>

/* The token of the largest logit, the first of several. */
lm_token lm_greedy(const float *logits, size_t count);

/* A token drawn with probabilities softmax(logits / temperature); greedy where the temperature is
 * not positive. */
lm_token lm_sample(const float *logits, size_t count, double temperature, lab_random *random);

#endif
