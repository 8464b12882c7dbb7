/*
 * How functions of the laboratory fail: they return false (or NULL) and store
 * one sentence and the kind of failure in a lab_error.
 */
#ifndef WHET_LAB_ERROR_H
#define WHET_LAB_ERROR_H

#include <stdbool.h>

typedef enum lab_error_kind {
    LAB_NO_ERROR = 0,
    LAB_SYSTEM, /* memory, threads, the disk: exit status 1 */
    LAB_INPUT,  /* an invalid option or file: exit status 2 */
    LAB_STOPPED /* by the user; finished work is kept */
} lab_error_kind;

typedef struct lab_error {
    lab_error_kind kind;
    char text[512];
} lab_error;

/* Records a failure and returns false. Only the first is kept: later ones are its consequences.
 * `error` may be NULL. */
__attribute__((format(printf, 3, 4))) bool lab_fail(lab_error *error, lab_error_kind kind,
                                                    const char *format, ...);

/* Replaces control characters by "?": names and texts may come from hostile files, and messages go
 * to terminals. */
void lab_hide_controls(char *text);

void lab_note_memory(lab_error *error);
static inline bool lab_fail_memory(lab_error *error) { /* here, so that analysers see the result */
    lab_note_memory(error);
    return false;
}

/* What it means that a file cannot be read, by errno: a path that leads to no file was named
 * wrongly, all else is the system's failure. */
lab_error_kind lab_unreadable(int reason);

/* "PATH: no such file" or "PATH: cannot read: reason", of the kind above. */
bool lab_fail_read(lab_error *error, const char *path, int reason);

/* A reason without the "PATH: " that it may begin with, as those of dlerror do. */
const char *lab_without_path(const char *reason, const char *path);

/* "PATH: cannot WHAT: reason", the reason being errno's. The path "-" is standard output. */
bool lab_fail_file(lab_error *error, const char *what, const char *path);

#endif
