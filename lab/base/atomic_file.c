/*
 * Atomic replacement of files: write beside the target, force it to the disk,
 * rename. Renaming needs care in two cases: a symbolic link is followed first,
 * so that the link stays and what it points to changes; and anything that is
 * not a plain file (a device, a folder) is refused, since renaming would
 * replace the device itself.
 */
#define _XOPEN_SOURCE 700

#include "atomic_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100 };

/* A temporary file under construction. */
typedef struct replacement {
    char *target;
    char *temporary;
    int descriptor;
} replacement;

/* Where a symbolic link points, from where the link's path is relative to; NULL if it is none. */
static char *linked(const char *path) {
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target);
    if (length < 0 || (size_t)length >= sizeof target)
        return NULL;
    const char *slash = target[0] == '/' ? NULL : strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    char *whole = malloc(folder + (size_t)length + 1);
    if (whole) {
        memcpy(whole, path, folder);
        memcpy(whole + folder, target, (size_t)length);
        whole[folder + (size_t)length] = '\0';
    }
    return whole;
}

/* A path that leads to nothing, with the links at its end followed. */
static char *resolve_missing(const char *path) {
    enum { LINKS_MAX = 40 };
    char *at = strdup(path), *next;
    for (int i = 0; at && i < LINKS_MAX && (next = linked(at)); i++) {
        free(at);
        at = next;
    }
    return at;
}

/* The file that a path leads to, which need not exist; NULL and errno if it cannot be one. */
static char *resolve(const char *path, mode_t *mode) {
    struct stat status;
    *mode = 0;
    if (stat(path, &status) != 0)
        return errno == ENOENT ? resolve_missing(path) : NULL;
    if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        return NULL;
    }
    *mode = status.st_mode & 0777;
    return realpath(path, NULL);
}

static bool open_temporary(replacement *file, mode_t mode) {
    size_t size = strlen(file->target) + 48;
    file->temporary = malloc(size);
    if (!file->temporary)
        return false;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        snprintf(file->temporary, size, "%s.%ld-%d.tmp", file->target, (long)getpid(), attempt);
        file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (file->descriptor >= 0) {
            (void)flock(file->descriptor, LOCK_EX | LOCK_NB); /* so that no sweep takes it */
            if (mode != 0)
                (void)fchmod(file->descriptor, mode); /* the old one's, if it can be read */
            return true;
        }
        if (errno != EEXIST)
            return false;
    }
    return false;
}

long temporary_file_process(const char *name) {
    size_t length = strlen(name);
    if (length < 4 || strcmp(name + length - 4, ".tmp") != 0)
        return 0;
    size_t at = length - 4, digits = at;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    if (at == digits || at == 0 || name[--at] != '-')
        return 0;
    digits = at;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < digits && at > 1 && name[at - 1] == '.' ? strtol(name + at, NULL, 10) : 0;
}

/* Removes a temporary file whose process is gone. Its lock tells where numbers of processes are not
 * those of this machine. */
static void remove_unused(int folder, const char *name, long process) {
    if (kill((pid_t)process, 0) == 0 || errno != ESRCH)
        return;
    int descriptor = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    close(descriptor);
}

/* Looks beside a file for its temporary ones. */
static void sweep_beside(const char *folder, const char *name) {
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    size_t length = strlen(name);
    while (entries && (entry = readdir(entries)) != NULL) {
        const char *rest = entry->d_name + length + 1;
        long process = temporary_file_process(entry->d_name);
        if (process > 0 && strncmp(entry->d_name, name, length) == 0 && rest[-1] == '.' &&
            strcmp(rest + strcspn(rest, "."), ".tmp") == 0) /* not of NAME.other */
            remove_unused(dirfd(entries), entry->d_name, process);
    }
    if (entries)
        closedir(entries);
}

/* Closes the descriptor in any case. */
static bool write_all(int descriptor, bool (*write)(FILE *file, void *context), void *context) {
    FILE *file = fdopen(descriptor, "w");
    if (!file) {
        int reason = errno;
        close(descriptor);
        errno = reason;
        return false;
    }
    errno = 0;
    bool is_written = write(file, context) && !ferror(file) && fflush(file) == 0 &&
                      (fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP);
    int reason = errno;
    bool is_closed = fclose(file) == 0;
    if (!is_written)
        errno = reason;
    return is_written && is_closed;
}

/* ---- standard output ---- */

static int reserved = -1; /* what was standard output, once it is kept for "-" */

bool is_standard_output(const char *path) { return strcmp(path, "-") == 0; }

bool reserve_standard_output(void) {
    if (reserved >= 0)
        return true;
    if (fflush(stdout) != 0)
        return false;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int kept = nowhere < 0 ? -1 : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    bool is_done = kept >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0;
    int reason = errno;
    if (nowhere >= 0)
        close(nowhere);
    if (kept >= 0 && !is_done)
        close(kept);
    reserved = is_done ? kept : -1;
    errno = reason;
    return is_done;
}

static bool write_to_standard_output(bool (*write)(FILE *file, void *context), void *context) {
    if (reserved < 0 && fflush(stdout) != 0)
        return false;
    int descriptor = fcntl(reserved < 0 ? STDOUT_FILENO : reserved, F_DUPFD_CLOEXEC, 0);
    return descriptor >= 0 && write_all(descriptor, write, context);
}

/* ---- files ---- */

bool replace_file_unless(const char *path, bool (*write)(FILE *file, void *context),
                         void *context) {
    mode_t mode;
    if (is_standard_output(path))
        return write_to_standard_output(write, context);
    replacement file = {.target = resolve(path, &mode)};
    if (!file.target)
        return false;
    bool is_open = open_temporary(&file, mode);
    bool is_done = is_open && write_all(file.descriptor, write, context) &&
                   rename(file.temporary, file.target) == 0;
    int reason = errno;
    if (is_open && !is_done)
        unlink(file.temporary);
    free(file.temporary);
    free(file.target);
    errno = reason;
    return is_done;
}

bool can_replace_file(const char *path) {
    mode_t mode;
    if (is_standard_output(path))
        return true;
    if (!*path) {
        errno = ENOENT;
        return false;
    }
    char *folder = resolve(path, &mode);
    if (!folder)
        return false;
    char *slash = strrchr(folder, '/');
    char *name = strdup(slash ? slash + 1 : folder);
    if (slash)
        slash[slash == folder] = '\0'; /* the root is a slash, others end before theirs */
    bool can = name && access(slash ? folder : ".", W_OK | X_OK) == 0;
    int reason = errno;
    if (can)
        sweep_beside(slash ? folder : ".", name);
    free(name);
    free(folder);
    errno = reason;
    return can;
}

/* A writer that never gives up. */
typedef struct steady_writer {
    void (*write)(FILE *file, const void *context);
    const void *context;
} steady_writer;

static bool write_steadily(FILE *file, void *context) {
    const steady_writer *writer = context;
    writer->write(file, writer->context);
    return true;
}

bool replace_file(const char *path, void (*write)(FILE *file, const void *context),
                  const void *context) {
    steady_writer writer = {write, context};
    return replace_file_unless(path, write_steadily, &writer);
}

typedef struct byte_span {
    const void *bytes;
    size_t size;
} byte_span;

static void write_span(FILE *file, const void *context) {
    const byte_span *span = context;
    fwrite(span->bytes, 1, span->size, file);
}

bool replace_file_bytes(const char *path, const void *bytes, size_t size) {
    const byte_span span = {bytes, size};
    return replace_file(path, write_span, &span);
}
