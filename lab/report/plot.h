/*
 * Pictures through gnuplot: a figure is a function that writes gnuplot's
 * commands and its data; size, colours, fonts and the file are seen to here.
 */
#ifndef WHET_LAB_REPORT_PLOT_H
#define WHET_LAB_REPORT_PLOT_H

#include "base/error.h"

#include <stdio.h>

/* Writes commands from `set title` to `plot`; data goes into blocks, "$name << END". */
typedef void (*plot_commands)(FILE *script, const void *context);

/*
 * Draws a picture of so many pixels, .svg or .png by the name of the file,
 * which is replaced as a whole or left alone. What gnuplot complains about is in
 * the error.
 */
bool plot_draw(const char *path, int width, int height, plot_commands commands, const void *context,
               lab_error *error);

/* Whether a name ends in .svg or .png. */
bool plot_knows(const char *path, lab_error *error);

/* Line style i of the palette (from 1 on): eight colours that people with any kind of colour vision
 * can tell apart, then the same dashed. */
enum { PLOT_STYLES = 16 };

#endif
