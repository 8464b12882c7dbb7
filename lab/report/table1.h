/* Table 1, ours beside the published one: for terminals, for the page, and as a check. */
#ifndef WHET_LAB_REPORT_TABLE1_H
#define WHET_LAB_REPORT_TABLE1_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* False when memory runs out. */
bool table1_print(FILE *file, const json_t *evaluation);
void table1_html(FILE *file, const json_t *evaluation);

/* How many of our figures there are beside published ones, and how many of those are within two
 * standard errors of the difference; of all sizes, and of those that are certain. */
typedef struct table1_count {
    size_t all, all_within, certain, certain_within;
    double certain_error; /* the largest standard error of a difference, in points */
} table1_count;
table1_count table1_compare(const json_t *evaluation);

/* Says how far ours are from the published figures, and which of them by more than two standard
 * errors of the difference; returns how many of the sizes that are certain are. */
size_t table1_check(FILE *file, const json_t *evaluation);

#endif
