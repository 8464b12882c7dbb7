/* Text generation, token by token. */
#ifndef WHET_LAB_LM_GENERATE_H
#define WHET_LAB_LM_GENERATE_H

#include "lm/decode.h"
#include "lm/open.h"

typedef struct lm_generate_request {
    const lm_opened *opened;
    const nn_engine *engine;
    const whet_executor *executor;
    const whet_policy *policy;   /* NULL: the model's own */
    const whet_policy *policies; /* [layers][heads] instead, or NULL */
    whet_type cache_type;
    const char *prompt;
    size_t prompt_length;
    size_t steps;       /* tokens at most; the context may end sooner */
    double temperature; /* 0: greedy */
    uint64_t seed;
    bool measures; /* entropies */
    /* Called with the text of each token as soon as it is known; returns false to stop. */
    bool (*take)(void *context, lm_token token, const char *text, size_t length);
    void *context;
} lm_generate_request;

typedef struct lm_generated {
    size_t prompt_tokens, tokens;
    bool has_ended;                     /* by an end token */
    double read_seconds, write_seconds; /* for the prompt, and for generation */
    lm_entropy *entropies;              /* [layers][heads] of single steps, or NULL; to be freed */
} lm_generated;

bool lm_generate(const lm_generate_request *request, lm_generated *generated, lab_error *error);

#endif
