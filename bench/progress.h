/*
 * One line on standard error that tells what is being done, where that is a
 * terminal; nothing otherwise.
 */
#ifndef WHET_BENCH_PROGRESS_H
#define WHET_BENCH_PROGRESS_H

/* Shows a text in place of the last one. */
__attribute__((format(printf, 1, 2))) void bench_progress_show(const char *format, ...);

/* Takes the line away, so that other output can follow. */
void bench_progress_clear(void);

#endif
