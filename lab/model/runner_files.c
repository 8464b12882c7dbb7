/* Finding libllama and the plug-in; see runner.h. */
#define _GNU_SOURCE

#include "model/runner.h"

#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char how_to_get_one[] =
    "no libllama found beside llama-cli, below this folder (also in node_modules) or among the "
    "system's libraries. Get one with 'npm install @node-llama-cpp/linux-x64' (no compiler "
    "needed), or build llama.cpp with shared libraries, and name its folder with --llama or "
    "WHET_LLAMA";

/* The folder of this program, empty if unknown. */
static void own_folder(char *folder, size_t size) {
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

/* What was fetched for the tests of this build. */
static bool find_in_build(char path[RUNNER_PATH_SIZE]) {
    char program[2048], place[RUNNER_PATH_SIZE];
    own_folder(program, sizeof program);
    snprintf(place, sizeof place, "%s/../llama.cpp/lib", program);
    return program[0] && libllama_find_in(place, path);
}

bool runner_find_library(const char *where, char path[RUNNER_PATH_SIZE], lab_error *error) {
    where = where ? where : getenv("WHET_LLAMA");
    if (where && *where) {
        if (libllama_find_below(where, path))
            return true;
        snprintf(path, RUNNER_PATH_SIZE, "%s", where);
        const char *slash = strrchr(where, '/');
        return (libllama_is_file_name(slash ? slash + 1 : where) && access(where, R_OK) == 0) ||
               lab_fail(error, LAB_INPUT, "%s: no libllama in this folder", where);
    }
    if (libllama_find_beside_program(path) || libllama_find_below(".", path) ||
        libllama_find_in_system(path))
        return true;
    return find_in_build(path) || lab_fail(error, LAB_INPUT, "%s", how_to_get_one);
}

bool runner_find_plugin(const char *where, char path[RUNNER_PATH_SIZE], lab_error *error) {
    static const char *const places[] = {"",
                                         "plugin/ggml/",
                                         "../lib/whet/",
                                         "../lib64/whet/",
                                         "../lib/x86_64-linux-gnu/whet/",
                                         "../lib/aarch64-linux-gnu/whet/"};
    char program[2048];
    where = where ? where : getenv("WHET_PLUGIN");
    if (where && *where) {
        snprintf(path, RUNNER_PATH_SIZE, "%s", where);
        return access(path, R_OK) == 0 || lab_fail_file(error, "read", where);
    }
    own_folder(program, sizeof program);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, RUNNER_PATH_SIZE, "%s/%slibggml-whet.so", program, places[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return lab_fail(error, LAB_INPUT,
                    "plug-in libggml-whet.so not found beside the program or among the installed "
                    "libraries; name it with --plugin or WHET_PLUGIN");
}
