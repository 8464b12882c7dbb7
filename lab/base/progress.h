/*
 * Progress on standard error. A terminal gets one line that is overwritten: a
 * bar with the time left. Anything else gets a line every few seconds for work
 * of known size, and no remarks.
 */
#ifndef WHET_LAB_PROGRESS_H
#define WHET_LAB_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lab_progress {
    const char *title;
    uint64_t total;
    uint64_t start; /* done before, by an earlier run */
    double began;   /* seconds on lab_now */
    double shown;
    bool quiet;
} lab_progress;

/* Work of `total` steps of which `start` are done already. A quiet one shows nothing. */
lab_progress lab_progress_begin(const char *title, uint64_t start, uint64_t total, bool quiet);

/* Whether an update is due: ten times a second on a terminal, every five seconds elsewhere. For
 * callers whose details are costly to compute. */
bool lab_progress_is_due(const lab_progress *progress);

/* Shows the state if an update is due, with details, formatted as by printf, after the bar. */
__attribute__((format(printf, 3, 4))) void lab_progress_show(lab_progress *progress, uint64_t done,
                                                             const char *format, ...);

/* For work of several parts: from now on progress is that of part `part` of `parts`, and what is
 * left is that of all of them, `after` being the seconds that the parts after this one will take.
 * No parts: as before. Not while progress is shown. */
void lab_progress_overall(unsigned part, unsigned parts, double after);

/* Removes the bar, so that other output can follow. */
void lab_progress_end(lab_progress *progress);

/* A remark on a terminal, which replaces the last one; nothing elsewhere. */
__attribute__((format(printf, 1, 2))) void lab_remark(const char *format, ...);
void lab_remark_clear(void);

#endif
