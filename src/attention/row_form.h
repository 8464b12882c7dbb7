/*
 * What attention asks a row's policy: how a panel computes its weights, a beta that is
 * known before any logit, and the row in the form that src/row takes.
 */
#ifndef WHET_ROW_FORM_H
#define WHET_ROW_FORM_H

#include "attention/geometry.h"

/* Whether beta is known before the row's logits. */
bool whet_beta_is_known(const whet_attention *a, const whet_policy *policy);

/* That beta: given by the caller, or by the policy; NaN where the caller's is not a number. */
double whet_known_beta(const kv_slice *slice, const query_row *row);

/* How a panel makes the weights of a row with this policy. */
panel_form whet_panel_form(const whet_policy *policy);

/* Forms whose weights are exponentials of beta e. */
static inline bool form_is_exponential(panel_form form) {
    return form == PANEL_EXP || form == PANEL_EXP_KTH || form == PANEL_EXP_LARGEST;
}

/* Entropy and largest coefficient of a row whose weights are exponentials: z and s are its sums,
 * relative to `max` (which the zero of softmax1 may be). */
void whet_report_exponentials(const map_descriptor *map, double max, double z, double s,
                              whet_stats *stats);

/* The row's logits, contiguous from its first key on, with everything else that belongs to the
 * row; results overwrite them. */
row_view whet_row_form(const kv_slice *slice, const query_row *row, float *logits);

#endif
