/* See loaded.h. */
#include "loaded.h"
#include "llama/environment.h"
#include <stdio.h>
#include <stdlib.h>

static char libraries[4096], plugin[4096];

static void keep(char text[4096], const char *name) {
    const char *value = getenv(name);
    snprintf(text, 4096, "%s", value ? value : "");
}

__attribute__((constructor)) static void take(void) {
    keep(libraries, "WHET_LLAMA_LIB");
    keep(plugin, "WHET_PLUGIN");
    environment_clear();
    unsetenv("GGML_BACKEND_PATH");
}

const char *loaded_libraries(void) { return libraries[0] ? libraries : NULL; }
const char *loaded_plugin(void) { return plugin[0] ? plugin : NULL; }
