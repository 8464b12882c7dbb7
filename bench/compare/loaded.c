/*
 * Loads the modules. A file that is loaded twice would be one module with one
 * state; of two paths to one file the second is therefore loaded from a copy.
 */
#define _POSIX_C_SOURCE 200809L

#include "loaded.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool complain_of(const char *path, const char *why) {
    fprintf(stderr, "compare-builds: %s: %s\n", path, why);
    return false;
}

static bool copy_bytes(const char *path, int to) {
    FILE *from = fopen(path, "rb");
    if (!from)
        return false;
    char bytes[1 << 14];
    size_t size;
    bool is_good = true;
    while (is_good && (size = fread(bytes, 1, sizeof bytes, from)) > 0)
        is_good = write(to, bytes, size) == (ssize_t)size;
    is_good = is_good && !ferror(from);
    fclose(from);
    return is_good;
}

static void *load_copy(const char *path) {
    const char *folder = getenv("TMPDIR");
    char copy[4096];
    snprintf(copy, sizeof copy, "%s/whet-cases-XXXXXX", folder && *folder ? folder : "/tmp");
    int file = mkstemp(copy);
    if (file < 0) {
        complain_of(copy, strerror(errno));
        return NULL;
    }
    bool is_whole = copy_bytes(path, file);
    int reason = errno;
    is_whole = close(file) == 0 && is_whole;
    void *handle = is_whole ? dlopen(copy, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle)
        complain_of(copy, is_whole ? dlerror() : strerror(reason));
    unlink(copy);
    return handle;
}

static void *load(const char *path) {
    /* without a slash it would be looked for among the system's libraries */
    char local[4096];
    snprintf(local, sizeof local, "%s%s", strchr(path, '/') ? "" : "./", path);
    void *handle = dlopen(local, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        complain_of(path, dlerror());
    return handle;
}

static void add_problem(void *context, const char *section, const char *label, double seconds) {
    loaded *to = context;
    if (to->count == PROBLEMS_MAX)
        abort(); /* a mistake in the program */
    problem *added = &to->problems[to->count++];
    snprintf(added->section, sizeof added->section, "%s", section);
    snprintf(added->label, sizeof added->label, "%s", label);
    added->seconds = seconds;
}

static bool open_module(loaded *opened, void *handle, const char *path) {
    *opened = (loaded){.path = path};
    if (!handle)
        return false;
    void *symbol = dlsym(handle, CASES_SYMBOL);
    cases_entry_point *entry_point;
    memcpy(&entry_point, &symbol, sizeof entry_point);
    if (!symbol)
        return complain_of(path, "not a module of benchmark cases");
    opened->module = entry_point();
    if (opened->module->version != CASES_VERSION)
        return complain_of(path, "made for another version of compare-builds");
    char error[CASES_ERROR_SIZE] = "";
    return opened->module->list(add_problem, opened, error) || complain_of(path, error);
}

bool loaded_open(loaded *old_build, loaded *new_build, const char *old_path, const char *new_path) {
    struct stat old_file, new_file;
    if (stat(old_path, &old_file) != 0)
        return complain_of(old_path, strerror(errno));
    if (stat(new_path, &new_file) != 0)
        return complain_of(new_path, strerror(errno));
    bool is_same = old_file.st_dev == new_file.st_dev && old_file.st_ino == new_file.st_ino;
    return open_module(old_build, load(old_path), old_path) &&
           open_module(new_build, is_same ? load_copy(new_path) : load(new_path), new_path);
}

const problem *loaded_find(const loaded *in, const problem *like) {
    for (size_t i = 0; i < in->count; i++)
        if (strcmp(in->problems[i].section, like->section) == 0 &&
            strcmp(in->problems[i].label, like->label) == 0)
            return &in->problems[i];
    return NULL;
}
