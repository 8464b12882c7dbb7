/* Files that are written whole or not at all. */
#ifndef WHET_LAB_ATOMIC_FILE_H
#define WHET_LAB_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Writes a file by way of a temporary one in the same folder that takes its
 * place once it is complete. What `write` fails to write is noticed by itself.
 * On failure the old file, if there was one, is untouched, and errno says why.
 */
bool replace_file(const char *path, void (*write)(FILE *file, const void *context),
                  const void *context);

/* The same for a writer that may give up: it returns false, with errno set. */
bool replace_file_unless(const char *path, bool (*write)(FILE *file, void *context), void *context);

#endif
