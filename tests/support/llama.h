// A real llama.cpp for tests: WHET_LLAMA_LIB names its folder.
#ifndef WHET_TESTS_SUPPORT_LLAMA_H
#define WHET_TESTS_SUPPORT_LLAMA_H

#include "support/check.h"

#include "model/runner.h"

#include <stdlib.h>

// The folder; skips the test if there is no libllama in it, or no plug-in.
static inline const char *need_llama(void) {
    lab_error error = {.kind = LAB_NO_ERROR};
    char found[RUNNER_PATH_SIZE];
    const char *folder = getenv("WHET_LLAMA_LIB");
    if (!folder || !*folder || !runner_find_library(folder, found, &error)) {
        SKIP("there is no llama.cpp to run models with");
    }
    if (!runner_find_plugin(NULL, found, &error)) {
        SKIP("the plug-in was not built");
    }
    return folder;
}

#endif
