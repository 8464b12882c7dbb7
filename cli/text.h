/* Text for people: numbers in groups of three digits, lines broken to fit. */
#ifndef WHET_CLI_TEXT_H
#define WHET_CLI_TEXT_H

#include "base/grouped.h"

#include <stdio.h>

enum { LINE_WIDTH = 79 }; /* what fits a terminal of 80 columns without touching its edge */
/*
 * Prints the words of a text, blanks and newlines between them being the same,
 * on lines no longer than LINE_WIDTH where words allow. The first line has
 * `indent` columns filled already; the others are indented by as much.
 */
void print_wrapped(FILE *file, const char *text, int indent);

/* A paragraph on standard output, in the manner of printf. */
__attribute__((format(printf, 1, 2))) void tell(const char *format, ...);

#endif
