/*
 * Keys and values of every item there can be. Where priorities are bfloat16 there
 * are about three thousand of them, and where products are rounded keys and
 * values are bfloat16 too: all of a head fit into a few megabytes, and evaluation
 * looks them up instead of computing each of millions of items.
 */
#ifndef WHET_LAB_RETRIEVAL_CELLS_H
#define WHET_LAB_RETRIEVAL_CELLS_H

#include "retrieval/model.h"

typedef struct retrieval_cells retrieval_cells;

/* Whether they are of any use: the model rounds products, and they are not too many. */
bool retrieval_cells_pay(const retrieval_config *config);

/* NULL where there is no memory. */
retrieval_cells *retrieval_cells_create(const retrieval_model *model);
void retrieval_cells_destroy(retrieval_cells *cells);

/* The keys or values of items, [items][width]. */
void retrieval_cells_look_up(const retrieval_cells *cells, retrieval_projection of,
                             const float *priority, const uint16_t *class_of, size_t items,
                             float *rows);

#endif
