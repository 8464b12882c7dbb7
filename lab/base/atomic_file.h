/* Files that are written whole or not at all. */
#ifndef WHET_LAB_ATOMIC_FILE_H
#define WHET_LAB_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Writes a file by way of a temporary one in the same folder that takes its
 * place once it is complete. What `write` fails to write is noticed by itself.
 * On failure the old file, if there was one, is untouched, and errno says why.
 *
 * The path "-" is standard output, which is no file to be replaced: it gets what
 * is written as it comes.
 */
bool replace_file(const char *path, void (*write)(FILE *file, const void *context),
                  const void *context);

/* The same for bytes that are there already. */
bool replace_file_bytes(const char *path, const void *bytes, size_t size);

/* The same for a writer that may give up: it returns false, with errno set. */
bool replace_file_unless(const char *path, bool (*write)(FILE *file, void *context), void *context);

/* Whether a file could be written so, as far as can be told without writing; false with errno set.
 * For those who would have to work long before they find out. */
bool can_replace_file(const char *path);

/* Whether a path means standard output. */
bool is_standard_output(const char *path);

/* Keeps standard output for what is written to "-": whatever else is printed from here on goes
 * nowhere, so that a reader at the other end finds nothing mixed in. False with errno set. */
bool reserve_standard_output(void);

#endif
