/*
 * Pictures through gnuplot: a figure is a function that writes gnuplot's
 * commands and its data; size, colours, fonts and the file are set here.
 */
#ifndef WHET_LAB_REPORT_PLOT_H
#define WHET_LAB_REPORT_PLOT_H

#include "base/error.h"

#include <stdio.h>

/* Writes commands from `set title` to `plot`; data goes into blocks, "$name << END". */
typedef void (*plot_commands)(FILE *script, const void *context);

/* Writes a text as a string of gnuplot's. A script can run programs: text that comes from a file or
 * a user goes through this. */
void plot_text(FILE *script, const char *text);

typedef struct plot_request {
    const char *path;  /* .svg or .png */
    const char *title; /* of the file, where its kind has one */
    int width, height; /* pixels */
} plot_request;

/* Draws a picture; the file is replaced as a whole or left alone. What gnuplot complains about is
 * in the error. */
bool plot_draw(const plot_request *request, plot_commands commands, const void *context,
               lab_error *error);

/* Whether a name ends in .svg or .png. */
bool plot_knows(const char *path, lab_error *error);

/* Whether gnuplot is there, for those who would have to work long before they find out. */
bool plot_has_program(lab_error *error);

/* Line style i of the palette (from 1 on): eight colours that people with any kind of colour vision
 * can tell apart, with full lines and dots; then the same, dashed and with rings. */
enum { PLOT_STYLES = 16 };

#endif
