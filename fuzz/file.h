/* An input as a file with a path, for what reads nothing else; it lies in memory. */
#ifndef WHET_FUZZ_FILE_H
#define WHET_FUZZ_FILE_H

#include "input.h"

#include <sys/mman.h>
#include <unistd.h>

/* The path of a file with these bytes, which holds until the next call. */
static inline const char *fuzz_file(const void *bytes, size_t size) {
    static int descriptor = -1;
    static char path[64];
    if (descriptor < 0) {
        descriptor = memfd_create("input", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    }
    if (descriptor < 0 || ftruncate(descriptor, 0) != 0 ||
        pwrite(descriptor, bytes, size, 0) != (ssize_t)size)
        exit(0); /* the machine is short of something, which is nobody's fault here */
    return path;
}

/* A refusal has words, of which a terminal understands nothing but the letters. */
static inline void fuzz_check_words(const char *text) {
    FUZZ_CHECK(text[0] != '\0');
    for (const char *c = text; *c; c++)
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7F);
}

#endif
