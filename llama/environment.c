/* See environment.h. */
#define _GNU_SOURCE /* for environ */
#include "llama/environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void environment_clear(void) {
    char name[256];
    if (!environ)
        return;
    for (char **entry = environ; *entry;) {
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "WHET_", 5) != 0 || strncmp(*entry, "WHET_ISA=", 9) == 0 ||
            length >= sizeof name) {
            entry++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        unsetenv(name); /* later entries move up */
    }
}
