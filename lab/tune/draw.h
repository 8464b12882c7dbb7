/*
 * Inline SVG for the page of `whet tune`: frames with axes, the looks of arms, and labels. Colours
 * are CSS variables, so that figures follow the window into the dark. Numbers that are not finite
 * are never drawn.
 */
#ifndef WHET_LAB_TUNE_DRAW_H
#define WHET_LAB_TUNE_DRAW_H

#include "tune/arms.h"

#include <stdio.h>

enum { DRAW_WIDTH = 820, DRAW_LINE = 16 }; /* of a figure and of a line of text, pixels */

extern const char draw_css[];

/* The numbers of an axis. */
typedef struct draw_range {
    double low, high;
    bool is_log;
    bool is_change; /* in per cent, with a sign */
} draw_range;

draw_range draw_range_empty(void);
void draw_range_include(draw_range *range, double value); /* unless it is not finite */
void draw_range_pad(draw_range *range, double share, double at_least);

/* Where a figure's data is drawn, in pixels. */
typedef struct draw_frame {
    double left, top, right, bottom;
    draw_range x, y;
} draw_frame;

double draw_x(const draw_frame *frame, double value);
double draw_y(const draw_frame *frame, double value);

/* A figure around its parts; the label is for those who cannot see it. */
void draw_begin(FILE *file, double height, const char *label);
void draw_end(FILE *file);

/* Grid, numbers and names of the axes. */
void draw_axes(FILE *file, const draw_frame *frame, const char *x_name, const char *y_name);

/* A line across the frame with a word beside it. */
void draw_mark(FILE *file, const draw_frame *frame, double x, const char *word);

/* How an arm looks. */
typedef struct draw_look {
    size_t colour;
    bool is_dashed, is_strong;
} draw_look;

enum { DRAW_COLOURS = 8 };

draw_look draw_look_of(const tune_result *result, const char *name);

/* "c3 dashed strong", for a class. */
enum { DRAW_CLASS_SIZE = 32 };
const char *draw_class(draw_look look, char text[DRAW_CLASS_SIZE]);

/* Escaped text; `anchor` is start, middle or end. */
void draw_text(FILE *file, double x, double y, const char *anchor, const char *class_name,
               const char *text);

/* The width of a text, roughly. */
double draw_text_width(const char *text);

/* Moves heights apart until they differ by DRAW_LINE, within limits if they fit. [count] */
void draw_spread(double *heights, size_t count, double top, double bottom);

#endif
