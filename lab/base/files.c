/* Folders and whole files. */
#define _POSIX_C_SOURCE 200809L

#include "base/files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool make_one(const char *path) {
    struct stat status;
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno != EEXIST)
        return false;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return true;
    errno = ENOTDIR;
    return false;
}

bool lab_make_folder(const char *path, lab_error *error) {
    char *part = strdup(path);
    if (!part)
        return lab_fail_memory(error);
    bool is_made = *path != '\0';
    if (!is_made)
        errno = ENOENT;
    for (char *slash = part; is_made && (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        is_made = make_one(part);
        *slash = '/';
    }
    is_made = is_made && make_one(part);
    if (!is_made)
        lab_fail_file(error, "make the folder", path);
    free(part);
    return is_made;
}

char *lab_path(const char *folder, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int name_length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    size_t folder_length = strlen(folder);
    size_t size = folder_length + (size_t)name_length + 2;
    char *path = malloc(size);
    if (!path)
        return NULL;
    snprintf(path, size, "%s/", folder);
    va_start(arguments, format);
    vsnprintf(path + folder_length + 1, size - folder_length - 1, format, arguments);
    va_end(arguments);
    return path;
}

bool lab_file_exists(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

bool lab_is_same_file(const char *one, const char *other) {
    struct stat first, second;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* Whether an open file is one that can be read as a whole, and its size. */
static bool measure(FILE *file, const char *path, size_t limit, size_t *size, lab_error *error) {
    struct stat status;
    if (fstat(fileno(file), &status) != 0 || S_ISDIR(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : errno;
        return lab_fail_file(error, "read", path);
    }
    if (status.st_size < 0 || (unsigned long long)status.st_size > limit)
        return lab_fail(error, LAB_INPUT, "%s is too large: %lld bytes", path,
                        (long long)status.st_size);
    *size = (size_t)status.st_size;
    return true;
}

FILE *lab_open_file(const char *path, size_t limit, size_t *size, lab_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        /* A file that is not there was named wrongly; others are the system's matter. */
        lab_fail(error, errno == ENOENT ? LAB_INPUT : LAB_SYSTEM, "cannot read %s: %s", path,
                 strerror(errno));
        return NULL;
    }
    if (measure(file, path, limit, size, error))
        return file;
    fclose(file);
    return NULL;
}

static char *read_open(FILE *file, const char *path, size_t expected, lab_error *error) {
    char *bytes = malloc(expected + 1);
    if (!bytes) {
        lab_fail_memory(error);
        return NULL;
    }
    errno = 0;
    if (fread(bytes, 1, expected, file) != expected) {
        errno = errno ? errno : EIO;
        lab_fail_file(error, "read", path);
        free(bytes);
        return NULL;
    }
    bytes[expected] = '\0';
    return bytes;
}

char *lab_read_file(const char *path, size_t limit, size_t *size, lab_error *error) {
    FILE *file = lab_open_file(path, limit, size, error);
    if (!file)
        return NULL;
    char *bytes = read_open(file, path, *size, error);
    fclose(file);
    return bytes;
}
