/*
 * JSON files, through jansson. Adds what jansson lacks: non-finite numbers (as
 * null), atomic replacement of files, and logs with one object a line.
 */
#ifndef WHET_LAB_JSON_H
#define WHET_LAB_JSON_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* A number, or null where it is not finite. A new reference, as with jansson's own. */
json_t *lab_json_number(double value);
json_t *lab_json_numbers(const double *values, size_t count);

/* A string. If it is not valid UTF-8 (a path may be anything, a model may stop within a character),
 * each byte beyond ASCII becomes "?". A new reference; NULL when memory runs out. */
json_t *lab_json_text(const char *text);

/* A member that must be a non-negative integer; if it is missing or something else, *value is
 * unchanged. */
void lab_json_take_count(const json_t *object, const char *key, uint64_t *value);

/* Reads a file that must hold one JSON value; NULL and an error with the line otherwise. */
json_t *lab_json_read(const char *path, lab_error *error);

/*
 * Running out of memory within jansson. Some of its functions report it, some leave a member out,
 * and some call valid text invalid; so its allocations are watched. Take a mark, build without
 * checking each result, and check the whole at the end: NULL, and the reference dropped, if an
 * allocation failed.
 */
unsigned lab_json_mark(void);
json_t *lab_json_whole(json_t *json, unsigned mark);

/* json_loadb, with the line of the reason set to LAB_JSON_MEMORY if memory ran out. */
enum { LAB_JSON_MEMORY = -2 };
json_t *lab_json_parse(const char *text, size_t size, size_t flags, json_error_t *reason);

/* The checksum of a value (checksum.h), which a file keeps beside it. A new reference; NULL when
 * memory runs out. */
json_t *lab_json_checksum(const json_t *value);

/* Replaces a file, indented for people. Leaves the reference to the caller. If json is NULL, memory
 * ran out while it was built. */
bool lab_json_write(const char *path, const json_t *json, lab_error *error);

/* Adds one line to an open log and flushes it. Steals the reference. */
bool lab_json_log(FILE *log, json_t *line);

/*
 * Keeps the lines of a log up to the last one whose member `key` is at most
 * `last`, and drops the rest, an incomplete line included: what a run that was
 * killed wrote after its last checkpoint. The file may be missing. *last_kept
 * is the last line that is left, a new reference, or NULL.
 */
bool lab_json_log_cut(const char *path, const char *key, uint64_t last, json_t **last_kept,
                      lab_error *error);

#endif
