/* The two things of JSON that need care: numbers and texts. */
#ifndef WHET_CLI_JSON_H
#define WHET_CLI_JSON_H

#include <stdio.h>

/* Few digits, but enough to read the same number back; null for NaN and infinities. */
void json_number(FILE *file, double value);

void json_text(FILE *file, const char *text);

#endif
