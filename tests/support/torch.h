/* Finds a python3 with torch; tries the system's own first, since only that one finds packages of
 * the system. */
#ifndef WHET_TESTS_SUPPORT_TORCH_H
#define WHET_TESTS_SUPPORT_TORCH_H

#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

/* Skips the test if there is none. */
static inline const char *python_with_torch(void) {
    static const char *const candidates[] = {"/usr/bin/python3", "python3"};
    for (size_t i = 0; i < 2; i++) {
        char command[128];
        snprintf(command, sizeof command, "%s -c 'import torch' 2>/dev/null", candidates[i]);
        if (system(command) == 0) /* NOLINT(cert-env33-c): a fixed text */
            return candidates[i];
    }
    SKIP("needs python3 with torch (make setup-all)");
}

/* Runs a script of bench/ that reads FOLDER/in and writes FOLDER/out; returns the path of that. */
static inline const char *run_peer(const char *python, const char *script, const char *folder) {
    static char path[128];
    char command[512];
    snprintf(command, sizeof command, "%s %s/bench/%s %s/in %s/out", python,
             getenv("WHET_SOURCE_DIR"), script, folder, folder);
    REQUIRE(system(command) == 0); /* NOLINT(cert-env33-c): paths of the test's own */
    snprintf(path, sizeof path, "%s/out", folder);
    return path;
}

#endif
