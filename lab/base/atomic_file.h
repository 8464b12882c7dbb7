/* Files that are written whole or not at all. */
#ifndef WHET_LAB_ATOMIC_FILE_H
#define WHET_LAB_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Writes a temporary file in the same folder, which replaces the target once it
 * is complete. Failed writes are detected without help from `write`. On failure
 * the old file, if there was one, is untouched, and errno says why.
 *
 * The path "-" is standard output: it is written to directly.
 */
bool replace_file(const char *path, void (*write)(FILE *file, const void *context),
                  const void *context);

/* The same for bytes in memory. */
bool replace_file_bytes(const char *path, const void *bytes, size_t size);

/* The same for a writer that may give up: it returns false, with errno set. */
bool replace_file_unless(const char *path, bool (*write)(FILE *file, void *context), void *context);

/* Whether a file could be written, as far as that can be checked without writing; false with errno
 * set. For callers that would otherwise find out only after long work. Removes what killed
 * processes left of their temporary files for it. */
bool can_replace_file(const char *path);

/* Whether a name ends like those of temporary files, ".123-0.tmp": the number of the process, or 0
 * if it does not. */
long temporary_file_process(const char *name);

/* Whether a path means standard output. */
bool is_standard_output(const char *path);

/* Reserves standard output for what is written to "-": anything else printed from here on is
 * discarded, so that a reader of the pipe gets nothing else. False with errno set. */
bool reserve_standard_output(void);

#endif
