/* The figures of trained heads, from the results that an experiment left. */
#ifndef WHET_LAB_REPORT_HEAD_FIGURES_H
#define WHET_LAB_REPORT_HEAD_FIGURES_H

#include "base/error.h"

#include <jansson.h>

/* Figures 2 and 7: coefficients of 32 sets by the 16 items of largest priority, a panel for each
 * size. `panels` is an array as retrieval_panel_json makes its members. */
bool figure_heads(const char *path, const json_t *panels, const char *title, lab_error *error);

/* Figure 6: the best beta of every set against the entropy, with curves; see retrieval_fit_json. */
bool figure_fit(const char *path, const json_t *fit, lab_error *error);

/* Of an evaluation: accuracy against n for every policy; entropy against n; accuracy of softmax and
 * adaptive beside the published rows and the ceiling that ties set. */
bool figure_accuracy(const char *path, const json_t *evaluation, const char *title,
                     lab_error *error);
bool figure_entropy(const char *path, const json_t *evaluation, lab_error *error);
bool figure_ties(const char *path, const json_t *evaluation, lab_error *error);

/* Loss and accuracy of a head against the steps of its training; see experiment_fresh. */
bool figure_training(const char *path, const json_t *fresh, lab_error *error);

/* Cross-entropy against a fixed beta, a curve for each size: an evaluation of fixed:... policies.
 */
bool figure_sharpness(const char *path, const json_t *evaluation, lab_error *error);

#endif
