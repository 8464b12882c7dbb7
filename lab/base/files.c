/* Folders and whole files. */
#define _POSIX_C_SOURCE 200809L

#include "base/files.h"

#include "base/grow.h"

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
        lab_fail_file(error, "create folder", path);
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

static bool is_same_place(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

static const char *name_in_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Looks at the folder of a path. */
static bool find_folder(const char *path, struct stat *status) {
    size_t length = (size_t)(name_in_folder(path) - path);
    char *folder = length > 0 ? strndup(path, length) : strdup(".");
    bool is_found = folder && stat(folder, status) == 0;
    free(folder);
    return is_found;
}

bool lab_is_same_file(const char *one, const char *other) {
    struct stat first, second;
    bool is_first = stat(one, &first) == 0, is_second = stat(other, &second) == 0;
    if (is_first || is_second)
        return is_first && is_second && is_same_place(&first, &second);
    return strcmp(name_in_folder(one), name_in_folder(other)) == 0 && find_folder(one, &first) &&
           find_folder(other, &second) && is_same_place(&first, &second);
}

/* Whether an open file can be read as a whole, and its size. */
static bool measure(FILE *file, const char *path, size_t limit, size_t *size, lab_error *error) {
    struct stat status;
    if (fstat(fileno(file), &status) != 0 || S_ISDIR(status.st_mode)) {
        return lab_fail_read(error, path, S_ISDIR(status.st_mode) ? EISDIR : errno);
    }
    if (status.st_size < 0 || (unsigned long long)status.st_size > limit)
        return lab_fail(error, LAB_INPUT, "%s: too large (%lld bytes)", path,
                        (long long)status.st_size);
    *size = (size_t)status.st_size;
    return true;
}

FILE *lab_open_file(const char *path, size_t limit, size_t *size, lab_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        lab_fail_read(error, path, errno);
        return NULL;
    }
    if (measure(file, path, limit, size, error))
        return file;
    fclose(file);
    return NULL;
}

/* A file that is read into memory. */
typedef struct whole_file {
    const char *path;
    bool is_text;    /* refused where it has a NUL byte */
    size_t expected; /* bytes that it seems to have */
    char *bytes;
    size_t size, capacity;
} whole_file;

/* One block more, of at most `limit` bytes in all; false at the end of the file or after a failure.
 */
static bool read_block(whole_file *read, FILE *file, size_t limit, lab_error *error) {
    enum { BLOCK = 1 << 16 };
    size_t wanted = read->expected > read->size ? read->expected - read->size : BLOCK;
    wanted = wanted < limit - read->size + 1 ? wanted : limit - read->size + 1;
    char *bytes = lab_grow(read->bytes, 1, read->size + wanted + 1, &read->capacity);
    if (!bytes)
        return lab_fail_memory(error);
    read->bytes = bytes;
    size_t got = fread(bytes + read->size, 1, wanted, file);
    const char *nul = read->is_text && got ? memchr(bytes + read->size, '\0', got) : NULL;
    if (nul)
        return lab_fail(error, LAB_INPUT, "%s: not a text file (NUL byte at offset %zu)",
                        read->path, (size_t)(nul - bytes));
    read->size += got;
    if (read->size > limit)
        return lab_fail(error, LAB_INPUT, "%s: too large (more than %zu bytes)", read->path, limit);
    if (ferror(file))
        return lab_fail_file(error, "read", read->path);
    return got > 0;
}

/* To its end, wherever that is: a pipe has no size, and a device may have no end. */
static char *read_whole(const char *path, bool is_text, size_t limit, size_t *size,
                        lab_error *error) {
    whole_file read = {.path = path, .is_text = is_text};
    lab_error reason = {.kind = LAB_NO_ERROR};
    FILE *file = lab_open_file(path, limit, &read.expected, error);
    if (!file)
        return NULL;
    while (read_block(&read, file, limit, &reason))
        continue;
    fclose(file);
    if (reason.kind != LAB_NO_ERROR) {
        lab_fail(error, reason.kind, "%s", reason.text);
        free(read.bytes);
        return NULL;
    }
    read.bytes[read.size] = '\0';
    *size = read.size;
    return read.bytes;
}

char *lab_read_file(const char *path, size_t limit, size_t *size, lab_error *error) {
    return read_whole(path, false, limit, size, error);
}

char *lab_read_text(const char *path, size_t limit, size_t *size, lab_error *error) {
    return read_whole(path, true, limit, size, error);
}
