/*
 * psi_x of every possible item. Where priorities are bfloat16 there are about
 * three thousand of them, and where products are rounded psi_x is bfloat16 too:
 * a head's table takes a few megabytes, and evaluation looks items up instead
 * of computing millions of them.
 */
#ifndef WHET_LAB_RETRIEVAL_CELLS_H
#define WHET_LAB_RETRIEVAL_CELLS_H

#include "retrieval/model.h"

typedef struct retrieval_cells retrieval_cells;

/* Whether a table pays for `heads` heads with `items` items each: the model rounds products, and
 * the table is smaller than the items and not too large. */
bool retrieval_cells_pay(const retrieval_config *config, size_t heads, double items);

/* NULL when memory runs out. After a signal (lab_interrupted) the table is incomplete, and lookups
 * are meaningless. */
retrieval_cells *retrieval_cells_create(const retrieval_model *model);
void retrieval_cells_destroy(retrieval_cells *cells);

/* h of items, [items][width], for priorities as drawn, 0 to 1; as keys where `as_key`, see
 * retrieval_item_features. */
void retrieval_cells_look_up(const retrieval_cells *cells, bool as_key, const float *priority,
                             const uint16_t *class_of, size_t items, float *h);

#endif
