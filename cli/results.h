/*
 * Results that a command keeps beside what it prints, as JSON or as a table for
 * machines. The path "-" is standard output: then it gets nothing else.
 */
#ifndef WHET_CLI_RESULTS_H
#define WHET_CLI_RESULTS_H

#include "options.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* For the help of such options. */
#define JSON_SUMMARY "JSON instead of tables, or in FILE beside them"
#define CSV_SUMMARY "file for all results as CSV"

static inline option_spec csv_option(const char **path, const char *summary) {
    return (option_spec){"csv", OPTION_TEXT, path, "FILE", summary, .values = VALUE_FILE};
}

/* Before anything is printed: where one of the paths (NULL: not given) is "-", standard output is
 * kept for it, and what is printed for people is left out. Refuses two of them, two that are one
 * file, and those that could not be written once the work is done. A status. */
int reserve_output(const char *const *paths, size_t count);

/* Refuses paths that lead to a file which is read. A status. */
int refuse_to_overwrite(const char *input, const char *const *paths, size_t count);

/* Writes to a path; a status, after a message if that failed. Drops the reference to `json`; NULL
 * means that memory ran out while it was made. */
int keep_json(const char *path, json_t *json);
int keep_table(const char *path, void (*write)(FILE *file, const void *context),
               const void *context);

#endif
