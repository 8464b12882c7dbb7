/* The figures of the page of `whet tune`. */
#ifndef WHET_LAB_TUNE_FIGURES_H
#define WHET_LAB_TUNE_FIGURES_H

#include "tune/tune.h"

#include <stdio.h>

/* figure_position.c: perplexity of every arm by position, on one check domain or (SIZE_MAX) all of
 * them; and how arms with the tuned positions differ from softmax. */
void tune_figure_position(FILE *file, const tune_result *result, size_t domain);
void tune_figure_position_change(FILE *file, const tune_result *result, size_t domain);

/* figure_map.c: beta by layer and head at n0 and, where the context is longer, at its end. */
void tune_figure_map(FILE *file, const tune_result *result, const tune_setting *setting);

/* figure_frontier.c: what arms gain on the task against what they cost, and the same for the
 * candidates on the validation texts. The first returns how many arms are too far away to be
 * drawn, with their names. */
size_t tune_figure_frontier(FILE *file, const tune_result *result, const char **left_out);
void tune_figure_candidates(FILE *file, const tune_request *request, const tune_result *result);

#endif
