/* What the terminal can show. */
#ifndef WHET_CLI_TERMINAL_H
#define WHET_CLI_TERMINAL_H

#include <stdbool.h>

typedef struct terminal_style {
    bool color;   /* ANSI colours */
    bool unicode; /* UTF-8 */
} terminal_style;

/*
 * For standard output: colour if it is a terminal that has it, unless the user
 * does not want any (no_color, or NO_COLOR set to something); UTF-8 by the
 * locale, which must have been set.
 */
terminal_style standard_output_style(bool no_color);

/* The columns of the terminal that is standard output; 0 if it is none or does not tell. */
int standard_output_width(void);

#endif
