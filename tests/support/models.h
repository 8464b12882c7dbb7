// Real language models, which are not part of the project: WHET_MODELS names their folder.
#ifndef WHET_TESTS_SUPPORT_MODELS_H
#define WHET_TESTS_SUPPORT_MODELS_H

#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { MODEL_PATH_SIZE = 4096 };

// The path of a model; skips the test if there is no such folder.
static inline const char *model_path(const char *name, char path[MODEL_PATH_SIZE]) {
    const char *folder = getenv("WHET_MODELS");
    if (folder) {
        snprintf(path, MODEL_PATH_SIZE, "%s/%s", folder, name);
    } else {
        SKIP("WHET_MODELS names no folder of models");
    }
    return path;
}

#endif
