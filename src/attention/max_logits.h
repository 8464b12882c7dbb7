/*
 * The largest logit of each head (whet_attention.max_logits). Every row notes its own in
 * the workspace; a last phase finds the largest of a head's rows, one task per head. If
 * not requested, it takes neither workspace nor a phase.
 */
#ifndef WHET_MAX_LOGITS_H
#define WHET_MAX_LOGITS_H

#include "attention/geometry.h"

/* The larger of two; NaN if either is. */
static inline float larger_or_nan(float a, float b) { return isnan(a) || a > b ? a : b; }

/* Adds workspace and phase to a plan whose path has divided its work; false on overflow. */
bool whet_plan_max_logits(whet_plan *plan, plan_shape *shape);

/* Notes a row's largest logit without the sink: -inf for none, NaN if there is a NaN. */
void whet_note_max_logit(const kv_slice *slice, const query_row *row, float max);

/* Whether a phase is the one that whet_plan_max_logits has added, and a task of it. */
bool whet_is_max_logits_phase(const whet_plan *plan, const plan_shape *shape, unsigned phase);
void whet_run_max_logits_task(const whet_plan *plan, const plan_shape *shape, size_t head);

#endif
