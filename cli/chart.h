/* A line chart with two logarithmic axes, drawn with characters, 79 columns wide. */
#ifndef WHET_CLI_CHART_H
#define WHET_CLI_CHART_H

#include "terminal.h"

#include <stddef.h>
#include <stdio.h>

/* A letter for each series; from the next one on they come round again. */
#define CHART_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

typedef struct chart_series {
    const char *name;
    const double *shares; /* one for each point, 1 is 100 %; what is too small stays at the foot */
} chart_series;

typedef struct line_chart {
    const char *title;
    const char *x_title;
    const char *const *x_labels; /* one for each point */
    size_t points;               /* 2 to CHART_POINTS_MAX */
    const chart_series *series;
    size_t series_count;
    int decades; /* the y axis spans this many powers of ten below 100 %, 1 to 5 */
} line_chart;

enum { CHART_POINTS_MAX = 14, CHART_COLUMNS = 79 };

/* Switches to the colour of a series, and back again; nothing if there are no colours. */
void chart_color(FILE *file, terminal_style style, size_t series);
void chart_plain(FILE *file, terminal_style style);

void draw_chart(FILE *file, const line_chart *chart, terminal_style style);

#endif
