/*
 * The progress line: written over with a carriage return and the terminal's
 * "erase to the end of the line".
 */
#define _POSIX_C_SOURCE 200809L

#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void bench_progress_show(const char *format, ...) {
    if (!isatty(STDERR_FILENO))
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

void bench_progress_clear(void) {
    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
