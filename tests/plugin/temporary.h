/* Temporary files of tests. */
#ifndef WHET_TESTS_PLUGIN_TEMPORARY_H
#define WHET_TESTS_PLUGIN_TEMPORARY_H

#include "support/check.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Creates a file with this text; `path` ends in XXXXXX and becomes its name. */
static inline void temporary_file(char *path, const char *text) {
    int file = mkstemp(path);
    REQUIRE(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

#endif
