/* Text and data within HTML. */
#ifndef WHET_LAB_REPORT_HTML_H
#define WHET_LAB_REPORT_HTML_H

#include <stddef.h>
#include <stdio.h>

/* Text, good between tags and within quotes. */
void html_text(FILE *file, const char *text);

/* Data for an address that begins with "data:". */
void html_base64(FILE *file, const char *data, size_t size);

/* Around a table that may be wider than the window: it scrolls, with a hint in narrow windows. */
void html_table_begin(FILE *file);
void html_table_end(FILE *file);

#endif
