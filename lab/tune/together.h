/*
 * A run that several processes share (base/ranks.h). Most of the time they work together: all do
 * the same in the same order, and the sequences of every judgement are dealt to them. What is
 * learned by gradients, a chain of steps for each seed, they do apart, and tell each other
 * afterwards.
 *
 * Whatever all ranks do together begins with an agreement. So a rank that has failed alone, at any
 * other place, makes one agreement more in the end: it meets the next one of the others.
 */
#ifndef WHET_LAB_TUNE_TOGETHER_H
#define WHET_LAB_TUNE_TOGETHER_H

#include "base/ranks.h"
#include "tune/judge.h"

typedef struct tune_together {
    const lab_ranks *ranks; /* or NULL */
    bool is_apart;
    bool has_failed; /* and all ranks know */
} tune_together;

/* Whether all ranks are successful. If not, each has an error: its own, or that of another. */
bool tune_agree(tune_together *together, bool is_good, lab_error *error);

/* A judge whose sequences are dealt to the ranks while they work together; each has the losses of
 * all. */
typedef struct tune_dealt_judge {
    tune_judge own;
    tune_together *together;
} tune_dealt_judge;

tune_judge tune_deal_judge(tune_dealt_judge *dealt);

#endif
