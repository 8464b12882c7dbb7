/* A small model and a piece of made-up tokens, for tests of gradients. */
#ifndef WHET_TESTS_LM_PROBLEM_H
#define WHET_TESTS_LM_PROBLEM_H

#include "lm/network.h"

enum { PROBLEM_ROWS = 3, PROBLEM_LENGTH = 19, PROBLEM_TOKENS = PROBLEM_ROWS * PROBLEM_LENGTH };

typedef struct problem {
    lm_network network;
    float *weights, *gradient;
    lm_workspace *workspace;
    lm_token tokens[PROBLEM_TOKENS], labels[PROBLEM_TOKENS];
    uint32_t at[PROBLEM_TOKENS];
    float target_weights[PROBLEM_TOKENS];
    unsigned char is_answer[PROBLEM_TOKENS];
    lm_piece piece;
} problem;

/* Two layers, nothing a multiple of anything. */
lm_config small_config(void);

/* What other families than llama's add to a model, in the order qwen2, qwen3, gemma2, gemma3; two
 * layers, of which the first has a window. */
enum { VARIANTS = 4 };
void set_variant(lm_config *config, int variant);

/* With weights away from where they begin, so that nothing is zero or one by accident; targets are
 * every position (`all`) or two in three. */
void problem_set_up(problem *p, const nn_engine *engine, lm_config config, bool all);
void problem_tear_down(problem *p);

#endif
