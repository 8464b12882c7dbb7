/*
 * What a picture's numbers mean, for readers that show them: the axes of every panel, and the
 * values of cells that are drawn as colours. A script's text is followed for labels and scales;
 * gnuplot itself prints the rest after each plot.
 */
#ifndef WHET_LAB_REPORT_PLOT_PANELS_H
#define WHET_LAB_REPORT_PLOT_PANELS_H

#include "base/json.h"

#define PLOT_PANEL_LINE "#panel " /* what gnuplot prints of a panel begins so */

/* Writes a script's text, with a request for the axes after every plot, and returns what its text
 * says of its panels. NULL when memory runs out. */
json_t *plot_panels_ask(FILE *script, const char *text);

/* Adds what gnuplot answered, from its log. */
void plot_panels_answer(json_t *panels, const char *log_path);

/* The panels as an element within an SVG picture. */
void plot_panels_write(FILE *file, const json_t *panels);

#endif
