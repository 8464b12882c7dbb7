/*
 * The task: sets of items, each a priority in [0, 1) and a class; the answer is
 * the class of the item with the highest priority. Every set has a query, one
 * number in [0, 1), which carries no information.
 */
#ifndef WHET_LAB_RETRIEVAL_TASK_H
#define WHET_LAB_RETRIEVAL_TASK_H

#include "base/random.h"
#include "retrieval/config.h"

/* Items as the model sees them, in order. */
typedef struct retrieval_items {
    float *priority; /* rounded where the precision asks for it */
    uint16_t *class_of;
} retrieval_items;

/* The item that the answer is about: the first with the highest unrounded priority. */
typedef struct retrieval_top {
    float priority; /* unrounded */
    size_t index;
} retrieval_top;

/* Draws the next `count` items of a set whose earlier ones gave *top (index counted from the
 * set's start, `drawn` so far); start with priority -1. Priorities are 1 - spread u. */
void retrieval_draw_items(lab_random *random, const retrieval_config *config, float priority_range,
                          size_t drawn, size_t count, retrieval_items into, retrieval_top *top);

/* A query as the model sees it. */
float retrieval_draw_query(lab_random *random, const retrieval_config *config);

/* The spread of a set's priorities below 1: 1 unless the config asks for a smaller one. */
float retrieval_draw_priority_range(lab_random *random, const retrieval_config *config);

#endif
