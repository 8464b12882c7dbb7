/*
 * Beyond the paper: heads that stay sharp. Each recipe changes one thing in the
 * recipe before it on its path, so that the effect of each change shows.
 */
#ifndef WHET_LAB_RETRIEVAL_BEYOND_H
#define WHET_LAB_RETRIEVAL_BEYOND_H

#include "retrieval/evaluate.h"

typedef struct retrieval_recipe {
    const char *name;   /* a word, also the folder of its checkpoints */
    const char *path;   /* "a": the key sees the class and no hard policy is used; "b": anything */
    const char *change; /* what is new, in short */
    retrieval_config config;
    const char *policies[8]; /* to evaluate, the decisive one first; ends with NULL */
} retrieval_recipe;

/* Recipes were chosen on other seeds and sets than these: these results played no part in the
 * choice. */
enum { RETRIEVAL_FRESH_HEADS = 100, RETRIEVAL_FRESH_SETS = 4711 };

size_t retrieval_recipes(void);
retrieval_recipe retrieval_recipe_at(size_t index);

typedef struct retrieval_recipe_request {
    const uint64_t *seeds;
    size_t seed_count;
    uint64_t steps;      /* 0: the recipe's own number */
    const size_t *sizes; /* ascending; the last is the decisive one: 16,384 */
    size_t size_count;
    size_t sets;
    uint64_t set_seed;
    const char *folder; /* checkpoints go to FOLDER/NAME and are resumed from there; NULL: none */
    bool quiet;
    const whet_executor *executor;
    const lab_ranks *ranks; /* or NULL: processes that share the work */
} retrieval_recipe_request;

/* Trains and evaluates. The caller frees the evaluation. */
bool retrieval_recipe_run(const nn_engine *engine, const retrieval_recipe *recipe,
                          const retrieval_recipe_request *request, retrieval_evaluation *result,
                          lab_error *error);

#endif
