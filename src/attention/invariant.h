/*
 * WHET_INVARIANT: a row's bits do not depend on what it is computed with. All rows take the loops
 * of decode, whose logits do not depend on each other. Statistics, weights and what a map makes of
 * them are computed over whole chunks of INVARIANT_CHUNK keys, counted from key 0 and completed
 * with -inf, so that it does not matter where the keys of a call, or those that the rows of a task
 * see, begin and end. Values are added in units of INVARIANT_UNIT keys, in a fixed order and with
 * zeros behind the last key. Quantised keys are multiplied by their scales before they are summed.
 *
 * Few rows are decode as usual, with these divisions. Of many, a task takes INVARIANT_ROWS through
 * all phases, in memory of its own.
 */
#ifndef WHET_INVARIANT_H
#define WHET_INVARIANT_H

#include "attention/decode.h"

#define INVARIANT_CHUNK 1024
#define INVARIANT_UNIT 512
#define INVARIANT_GROUP 8 /* keys of each of four cursors that are added at a time */
#define INVARIANT_ROWS 32

bool whet_plan_invariant(whet_plan *plan, plan_shape *shape);

whet_status whet_run_invariant_task(const whet_plan *plan, size_t task, void *scratch,
                                    uint64_t *first_bad_row);

/* What a chunk's weights, which begin with those of its first key, select of values [low, high);
 * all others are zero. */
void whet_invariant_values(decode_work *w, size_t low, size_t high);

#endif
