/* Failures as sentences. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void lab_hide_controls(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        bool is_wide = c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0; /* U+0080 to U+009F */
        if (*c < ' ' || *c == 0x7F || is_wide)
            *c = '?';
        if (is_wide)
            *++c = '?';
    }
}

bool lab_fail(lab_error *error, lab_error_kind kind, const char *format, ...) {
    if (!error || error->kind != LAB_NO_ERROR)
        return false;
    error->kind = kind;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    lab_hide_controls(error->text);
    return false;
}

void lab_note_memory(lab_error *error) { lab_fail(error, LAB_SYSTEM, "out of memory"); }

lab_error_kind lab_unreadable(int reason) {
    return reason == ENOENT || reason == ENOTDIR || reason == EISDIR || reason == EINVAL
               ? LAB_INPUT
               : LAB_SYSTEM;
}

bool lab_fail_read(lab_error *error, const char *path, int reason) {
    if (reason == ENOENT)
        return lab_fail(error, LAB_INPUT, "%s: no such file", path);
    return lab_fail(error, lab_unreadable(reason), "%s: cannot read: %s", path, strerror(reason));
}

const char *lab_without_path(const char *reason, const char *path) {
    size_t length = strlen(path);
    bool is_named = strncmp(reason, path, length) == 0 && strncmp(reason + length, ": ", 2) == 0;
    return is_named ? reason + length + 2 : reason;
}

bool lab_fail_file(lab_error *error, const char *what, const char *path) {
    const char *name = strcmp(path, "-") == 0 ? "standard output" : path; /* see atomic_file.h */
    return lab_fail(error, LAB_SYSTEM, "%s: cannot %s: %s", name, what, strerror(errno));
}
