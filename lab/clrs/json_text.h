/* Texts as JSON strings in pure ASCII, as Python writes them. */
#ifndef WHET_LAB_CLRS_JSON_TEXT_H
#define WHET_LAB_CLRS_JSON_TEXT_H

#include "clrs/clrs.h"

#include <stdio.h>

/* With its quotes. The text is ASCII; failures show in ferror(). */
void clrs_write_json_text(FILE *file, const char *text, size_t length);

#endif
