/*
 * Data for Figures 2 and 7: the coefficients that a head gives to the items
 * with the largest priorities, set by set.
 */
#ifndef WHET_LAB_RETRIEVAL_FIGURE_DATA_H
#define WHET_LAB_RETRIEVAL_FIGURE_DATA_H

#include "retrieval/head.h"

typedef struct retrieval_panel {
    size_t n;
    size_t sets, items;   /* 32 x 16; fewer items where n is smaller */
    double *coefficients; /* [sets][items], the largest priority at the right */
    double *entropy;      /* [sets], after the policy */
} retrieval_panel;

/* One panel: `sets` random sets of n items, the `items` largest of each. The caller frees it. */
bool retrieval_panel_make(const nn_engine *engine, const retrieval_head *head,
                          const whet_policy *policy, size_t n, size_t sets, size_t items,
                          uint64_t seed, retrieval_panel *panel, lab_error *error);
void retrieval_panel_free(retrieval_panel *panel);

json_t *retrieval_panel_json(const retrieval_panel *panel);

#endif
