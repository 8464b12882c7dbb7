/*
 * The model in lab/lm: losses under any arm, and gradients of the temperatures with frozen weights.
 * Sequences are independent tasks of an executor, so results do not depend on its threads.
 */
#ifndef WHET_LAB_TUNE_NETWORK_JUDGE_H
#define WHET_LAB_TUNE_NETWORK_JUDGE_H

#include "lm/network.h"
#include "tune/judge.h"

typedef struct tune_network tune_network;

/* All must outlive it. Activations for sequences of up to `length` tokens are allocated when they
 * are needed. */
tune_network *tune_network_open(const lm_network *network, const whet_executor *executor,
                                size_t length, lab_error *error);
void tune_network_close(tune_network *network); /* may be NULL */

/* Frees activations and masks, until they are needed again. */
void tune_network_rest(tune_network *network);

tune_judge tune_network_judge(tune_network *network);

/* A sequence with the weight of each judged token in the loss. */
typedef struct tune_weighted {
    tune_sequence sequence;
    double weight;
} tune_weighted;

/* The weighted sum of losses, and its gradient by a and h of every head, [layers][heads] each,
 * which are set. */
bool tune_network_gradient(tune_network *network, const tune_setting *setting,
                           const tune_weighted *sequences, size_t count, double *loss,
                           double *grad_a, double *grad_h, lab_error *error);

/* Bytes of weights and activations, at most so far. */
size_t tune_network_bytes(const tune_network *network);

#endif
