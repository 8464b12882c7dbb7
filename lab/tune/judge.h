/*
 * What computes the losses of a model's tokens under given temperatures: the model in lab/lm
 * (network_judge.h) or in llama.cpp with the plug-in (llama_judge.h).
 */
#ifndef WHET_LAB_TUNE_JUDGE_H
#define WHET_LAB_TUNE_JUDGE_H

#include "base/error.h"
#include "lm/tokens.h"
#include "tune/setting.h"

/* A way to run the model. */
typedef struct tune_arm {
    const tune_setting *setting;
    size_t window; /* tokens that every head sees, or 0: all of them */
    size_t first;  /* tokens at the beginning that it sees besides */
} tune_arm;

/* Tokens, of which those from index `from` (at least 1) on are judged. */
typedef struct tune_sequence {
    const lm_token *tokens;
    size_t length, from;
} tune_sequence;

/* Of the judged tokens of all sequences, one after the other. */
typedef struct tune_losses {
    float *loss;          /* -ln of the token's probability */
    unsigned char *right; /* whether it was the likeliest */
} tune_losses;

static inline size_t tune_judged_count(const tune_sequence *sequences, size_t count) {
    size_t judged = 0;
    for (size_t i = 0; i < count; i++)
        judged += sequences[i].length - sequences[i].from;
    return judged;
}

/* Called now and then with the number of sequences that are done; false stops the work. */
typedef bool (*tune_heard)(void *listener, size_t done);

typedef struct tune_judge {
    void *context;
    bool has_windows; /* whether arms with a window can be run */
    /* Fills `losses`, which has space for all judged tokens. The same bits for any number of
     * threads. False and an error (LAB_STOPPED after a signal or where `heard` returned false). */
    bool (*run)(void *context, const tune_arm *arm, const tune_sequence *sequences, size_t count,
                tune_losses *losses, tune_heard heard, void *listener, lab_error *error);
} tune_judge;

#endif
