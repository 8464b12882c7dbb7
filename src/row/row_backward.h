/* The backward pass of one row. */
#ifndef WHET_ROW_BACKWARD_H
#define WHET_ROW_BACKWARD_H

#include "row/map_row.h"

/*
 * row->out receives the gradient with respect to the logits; gradients->out holds the one with
 * respect to the result (no mask; n and kernels as the row's). False if the row, or what arrives
 * at its unmasked entries, is not finite: the gradient is then NaN, and nothing was added.
 * gradients->weights (for n > 0, not set for an empty row) may be the logits.
 */
bool whet_row_backward(const row_view *row, const row_job *job, row_gradients *gradients);

#endif
