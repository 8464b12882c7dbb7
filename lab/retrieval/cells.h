/*
 * psi_x of every item there can be. Where priorities are bfloat16 there are about
 * three thousand of them, and where products are rounded psi_x is bfloat16 too:
 * all of a head fits into a few megabytes, and evaluation looks it up instead of
 * computing each of millions of items.
 */
#ifndef WHET_LAB_RETRIEVAL_CELLS_H
#define WHET_LAB_RETRIEVAL_CELLS_H

#include "retrieval/model.h"

typedef struct retrieval_cells retrieval_cells;

/* Whether they are of any use to so many heads that meet so many items each: the model rounds
 * products, and they are fewer than the items and not too large. */
bool retrieval_cells_pay(const retrieval_config *config, size_t heads, double items);

/* NULL where there is no memory. Where a signal comes in (lab_interrupted) they are left
 * unfinished, and what is looked up means nothing. */
retrieval_cells *retrieval_cells_create(const retrieval_model *model);
void retrieval_cells_destroy(retrieval_cells *cells);

/* h of items, [items][width], of priorities as they are drawn, 0 to 1; as keys where `as_key`, see
 * retrieval_item_features. */
void retrieval_cells_look_up(const retrieval_cells *cells, bool as_key, const float *priority,
                             const uint16_t *class_of, size_t items, float *h);

#endif
