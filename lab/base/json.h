/*
 * JSON files, through jansson. What jansson lacks is here: numbers that may not
 * be finite (null then), files replaced as a whole, and logs of one object a
 * line.
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

/* A text. What is not UTF-8 (a path may be anything, a model may stop within a character) has "?"
 * for each byte beyond ASCII. A new reference; NULL when memory runs out. */
json_t *lab_json_text(const char *text);

/* A member that is a whole number and not negative; what is missing or another leaves the value. */
void lab_json_take_count(const json_t *object, const char *key, uint64_t *value);

/* Reads a file that must hold one JSON value; NULL and an error with the line otherwise. */
json_t *lab_json_read(const char *path, lab_error *error);

/*
 * Memory that runs out within jansson. Of what it then does, some says so, some
 * leaves a member out, and some calls a text wrong that is right; so its
 * allocations are watched. Take a mark, build without looking at each result, and
 * let the whole be checked: NULL, and the reference dropped, if anything is missing.
 */
unsigned lab_json_mark(void);
json_t *lab_json_whole(json_t *json, unsigned mark);

/* json_loadb, with LAB_JSON_MEMORY for the line of the reason where memory ran out. */
enum { LAB_JSON_MEMORY = -2 };
json_t *lab_json_parse(const char *text, size_t size, size_t flags, json_error_t *reason);

/* Replaces a file, indented for people. Leaves the reference to the caller. NULL for json means
 * that memory ran out while it was made. */
bool lab_json_write(const char *path, const json_t *json, lab_error *error);

/* Adds one line to an open log and sees to it that it has left the program. Steals the reference.
 */
bool lab_json_log(FILE *log, json_t *line);

/*
 * Keeps the lines of a log up to the last one whose member `key` is at most
 * `last`, and drops the rest, an incomplete line included: what a run that was
 * killed wrote after its last checkpoint. Fine if there is no file. *last_kept is
 * the last line that is left, a new reference, or NULL.
 */
bool lab_json_log_cut(const char *path, const char *key, uint64_t last, json_t **last_kept,
                      lab_error *error);

#endif
