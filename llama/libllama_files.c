/*
 * Searches for libllama; see libllama_files.h.
 */
#define _GNU_SOURCE
#include "llama/libllama_files.h"
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool libllama_is_file_name(const char *name) {
    return strncmp(name, "libllama.", 9) == 0 && strstr(name, ".so") != NULL;
}

/* Of several, the first by name. */
bool libllama_find_in(const char *folder, char path[LIBLLAMA_PATH_BYTES]) {
    char best[NAME_MAX + 1] = "";
    DIR *directory = opendir(folder);
    if (!directory)
        return false;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (libllama_is_file_name(entry->d_name) && (!best[0] || strcmp(entry->d_name, best) < 0))
            snprintf(best, sizeof best, "%s", entry->d_name);
    closedir(directory);
    int length = snprintf(path, LIBLLAMA_PATH_BYTES, "%s/%s", folder, best);
    return best[0] && length < LIBLLAMA_PATH_BYTES;
}

bool libllama_find_below(const char *folder, char path[LIBLLAMA_PATH_BYTES]) {
    static const char *const below[] = {"",
                                        "lib",
                                        "bin",
                                        "build/bin",
                                        "bins/linux-x64",
                                        "package/bins/linux-x64",
                                        "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"};
    char place[LIBLLAMA_PATH_BYTES];
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        snprintf(place, sizeof place, "%.3000s/%s", folder, below[i]);
        if (libllama_find_in(place, path))
            return true;
    }
    return false;
}

bool libllama_find_beside_program(char path[LIBLLAMA_PATH_BYTES]) {
    const char *rest = getenv("PATH");
    char place[LIBLLAMA_PATH_BYTES];
    while (rest && *rest) {
        int length = (int)strcspn(rest, ":");
        snprintf(place, sizeof place, "%.*s/llama-cli", length > 3000 ? 3000 : length, rest);
        char *program = access(place, X_OK) == 0 ? realpath(place, NULL) : NULL;
        if (program) {
            *strrchr(program, '/') = '\0';
            snprintf(place, sizeof place, "%.3000s/../lib", program);
            bool is_found = libllama_find_in(program, path) || libllama_find_in(place, path);
            free(program);
            if (is_found)
                return true;
        }
        rest += length + (rest[length] == ':');
    }
    return false;
}

/* Only development packages have the name without a number. */
bool libllama_find_in_system(char path[LIBLLAMA_PATH_BYTES]) {
    static const char *const names[] = {"libllama.so", "libllama.so.0"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            continue;
        snprintf(path, LIBLLAMA_PATH_BYTES, "%s", names[i]);
        dlclose(library);
        return true;
    }
    return false;
}
