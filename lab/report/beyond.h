/* Heads that stay sharp, recipe by recipe: accuracy among the most items under each policy. */
#ifndef WHET_LAB_REPORT_BEYOND_H
#define WHET_LAB_REPORT_BEYOND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* `beyond` is as experiment_beyond makes it. False when memory runs out. */
bool beyond_print(FILE *file, const json_t *beyond);
void beyond_html(FILE *file, const json_t *beyond);

#endif
