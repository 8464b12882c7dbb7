/*
 * The progress line: overwritten with a carriage return and the terminal's
 * "erase to end of line".
 */
#define _POSIX_C_SOURCE 200809L

#include "base/progress.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

static const double terminal_interval = 0.1, pipe_interval = 5;

static bool is_terminal(void) { return isatty(STDERR_FILENO); }

lab_progress lab_progress_begin(const char *title, uint64_t start, uint64_t total, bool quiet) {
    double now = lab_now();
    return (lab_progress){.title = title,
                          .total = total,
                          .start = start,
                          .began = now,
                          .shown = is_terminal() ? 0 : now,
                          .quiet = quiet};
}

bool lab_progress_is_due(const lab_progress *progress) {
    double interval = is_terminal() ? terminal_interval : pipe_interval;
    return !progress->quiet && lab_now() - progress->shown >= interval;
}

static void print_bar(double share) {
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = (double)i < share * BAR_WIDTH ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, " [%s]", bar);
}

/* The parts of which the work shown is one. */
static struct {
    unsigned part, parts;
    double after;
} overall;

void lab_progress_overall(unsigned part, unsigned parts, double after) {
    overall.part = part;
    overall.parts = parts;
    overall.after = after;
}

static void print_left(double seconds) {
    char left[LAB_TIME_SIZE];
    if (overall.parts > 0)
        fprintf(stderr, ", part %u of %u, %s left in all", overall.part, overall.parts,
                lab_duration(seconds + overall.after, left));
    else
        fprintf(stderr, ", %s left", lab_duration(seconds, left));
}

void lab_progress_show(lab_progress *progress, uint64_t done, const char *format, ...) {
    if (!lab_progress_is_due(progress))
        return;
    progress->shown = lab_now();
    double share = progress->total ? (double)done / (double)progress->total : 1;
    bool terminal = is_terminal();
    fprintf(stderr, "%s%s", terminal ? "\r\033[K" : "", progress->title);
    if (terminal)
        print_bar(share);
    fprintf(stderr, " %3.0f %%", 100 * share);
    if (*format)
        fputs(", ", stderr);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (done > progress->start) {
        double each = (progress->shown - progress->began) / (double)(done - progress->start);
        print_left(each * (double)(progress->total - done));
    }
    if (!terminal)
        fputc('\n', stderr);
    fflush(stderr);
}

void lab_progress_end(lab_progress *progress) {
    if (!progress->quiet)
        lab_remark_clear();
}

void lab_remark(const char *format, ...) {
    if (!is_terminal())
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

void lab_remark_clear(void) {
    if (!is_terminal())
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
