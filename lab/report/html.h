/* Text and data within HTML. */
#ifndef WHET_LAB_REPORT_HTML_H
#define WHET_LAB_REPORT_HTML_H

#include <stddef.h>
#include <stdio.h>

/* Text, good between tags and within quotes. */
void html_text(FILE *file, const char *text);

/* Data for an address that begins with "data:". */
void html_base64(FILE *file, const char *data, size_t size);

/* A page up to its first heading, in the look of whet's reports, and its end. `style` is CSS of its
 * own, or NULL. What is written is also well-formed XML if everything between is. */
void html_page_begin(FILE *file, const char *title, const char *style);
void html_page_end(FILE *file);

/* A line of a <dl>; the text is escaped, the name is not. */
void html_fact(FILE *file, const char *name, const char *text);

/* Such lines about the processor and this version of whet. */
void html_machine(FILE *file);

/* Around a table that may be wider than the window: it scrolls, with a hint in narrow windows. */
void html_table_begin(FILE *file);
void html_table_end(FILE *file);

#endif
