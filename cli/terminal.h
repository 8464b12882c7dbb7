/* What the terminal can show. */
#ifndef WHET_CLI_TERMINAL_H
#define WHET_CLI_TERMINAL_H

#include <stdbool.h>

typedef struct terminal_style {
    bool color;   /* ANSI colours */
    bool unicode; /* UTF-8 */
} terminal_style;

/*
 * For standard output: colour as --color says, by default on a terminal that has
 * it unless NO_COLOR is set to something; UTF-8 by the locale, which must have
 * been set.
 */
terminal_style standard_output_style(void);

/* The columns of the terminal that is standard output; 0 if it is none or does not tell. */
int standard_output_width(void);

#endif
