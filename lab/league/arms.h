/*
 * What the league compares: ways to train and run a model's heads. An arm is a policy, which of its
 * parameters are learned, and perhaps another policy at inference. Those with a name are listed in
 * arms.c; every other policy of the registry is an arm with its example's parameters, so that a new
 * policy takes part without a change here.
 */
#ifndef WHET_LAB_LEAGUE_ARMS_H
#define WHET_LAB_LEAGUE_ARMS_H

#include "base/error.h"
#include "lm/config.h"

enum { LEAGUE_ARMS_MAX = 96, LEAGUE_ARM_NAME_SIZE = 64 };

typedef struct league_arm {
    char name[LEAGUE_ARM_NAME_SIZE];
    char policy[LM_POLICY_SIZE]; /* {n} stands for the longest question and answer in training,
                                    {a} and {h} for numbers drawn for each seed */
    const char *learned;         /* parameters learned for each head, or NULL */
    const char *trained_as;      /* the name of another arm whose models it runs, or NULL */
    const char *summary;
    bool has_sinks, has_query_betas;
    bool is_chosen; /* at inference by validation at twice the training size */
    bool is_fitted; /* at inference, by league_fit */
} league_arm;

typedef struct league_arms {
    league_arm list[LEAGUE_ARMS_MAX];
    size_t count;
} league_arms;

/* The arm at an index among all that there are; false from the last on. */
bool league_arm_at(size_t index, league_arm *arm);

/* Adds an arm by its name, or any policy by its own; and those that it runs the models of. */
bool league_arms_add(league_arms *arms, const char *name, lab_error *error);

const league_arm *league_arms_find(const league_arms *arms, const char *name);

/* The policy for models whose training sequences have up to `longest` tokens. */
void league_arm_policy(const league_arm *arm, size_t longest, uint64_t seed,
                       char policy[LM_POLICY_SIZE]);

/* The candidates among which an arm is chosen by validation, in the same form; NULL at the end. */
extern const char *const league_candidates[];

/* Sets what an arm says of a model. */
void league_arm_configure(const league_arm *arm, size_t longest, uint64_t seed, lm_config *config);

#endif
