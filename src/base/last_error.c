/*
 * One buffer for each thread, of a fixed size: nothing is allocated, nothing has
 * to be freed, and fork() copies it with the thread that called it.
 */
#include "base/last_error.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 512 };

static _Thread_local char last_error[TEXT_SIZE];

const char *whet_last_error(void) { return last_error; }

/* Through a second buffer: an argument may be the current text. */
void whet_refuse_list(const char *format, va_list arguments) {
    char text[TEXT_SIZE];
    int length = vsnprintf(text, sizeof text, format, arguments);
    memcpy(last_error, length < 0 ? "" : text, length < 0 ? 1 : strlen(text) + 1);
}

whet_status whet_refuse(whet_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    whet_refuse_list(format, arguments);
    va_end(arguments);
    return status;
}
