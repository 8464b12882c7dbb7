/* The paper's Figure 3: entropies of a language model's heads against the length of its input. */
#ifndef WHET_LAB_REPORT_PROBE_FIGURE_H
#define WHET_LAB_REPORT_PROBE_FIGURE_H

#include "model/probe.h"

typedef struct probe_figure {
    const probe_request *request;
    const probe_result *result;
    const char *title; /* the model */
    uint64_t layer;    /* UINT64_MAX: a panel for each */
    bool is_share;     /* of ln n, where there is a panel for each layer; one layer has both */
} probe_figure;

/* Draws it: thin curves for heads, their mean with its standard deviation shaded, and the means of
 * further policies, after they have acted. */
bool figure_probe(const char *path, const probe_figure *figure, lab_error *error);

/* Draws, in a panel for each layer, the beta that the length calls for: a curve for each head. */
bool figure_gaps(const char *path, const probe_figure *figure, lab_error *error);

#endif
