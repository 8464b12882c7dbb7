/* Folders and whole files; for writing see atomic_file.h. */
#ifndef WHET_LAB_FILES_H
#define WHET_LAB_FILES_H

#include "base/error.h"

#include <stddef.h>
#include <stdio.h>

/* Creates a folder and its parents; it may exist already. */
bool lab_make_folder(const char *path, lab_error *error);

/* "folder/name", to be freed; NULL when memory runs out. */
char *lab_path(const char *folder, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool lab_file_exists(const char *path);

/* Whether two names refer to one file, also where there is none yet: the same name in one folder.
 */
bool lab_is_same_file(const char *one, const char *other);

/* Opens a file for reading and gets its size in bytes (0 for pipes and devices); NULL and an error
 * if it cannot be opened or is longer than `limit`. */
FILE *lab_open_file(const char *path, size_t limit, size_t *size, lab_error *error);

/* All of a file, with a zero byte after it, to be freed; NULL and an error if it cannot be read or
 * is longer than `limit`. */
char *lab_read_file(const char *path, size_t limit, size_t *size, lab_error *error);

/* The same for text: a NUL byte is refused as soon as it is read. */
char *lab_read_text(const char *path, size_t limit, size_t *size, lab_error *error);

#endif
