/*
 * Timing. Contenders take turns: each round runs every one of them once, in a
 * new order each time, so that changes of the clock rate and noise from other
 * programs affect all of them alike. The time of every run is kept; from these
 * come the best, the median, and ratios taken round by round.
 *
 * Several contenders with one name are variants of one thing (ways to copy
 * memory); together they give one series, the fastest of each round. A probe
 * is a short contender that is run before and after every other one: a limit
 * that changes with the processor's clock, measured as close as possible to
 * what is compared with it.
 */
#ifndef WHET_BENCH_MEASURE_H
#define WHET_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

enum { ROUNDS_MAX = 200, SERIES_MAX = 12 };

typedef struct contender {
    const char *name;
    const char *variant; /* or NULL */
    void (*run)(void *argument);
    void *argument;
    double work;     /* of one run, in the section's unit: values, FLOPs or bytes */
    size_t threads;  /* number of threads it keeps busy; 0 also means the calling one */
    bool is_library; /* runs libwhet itself, not a limit or a peer */
} contender;

/* How long to measure: for this many seconds and at least this many rounds, as long as the next
 * round would be over by the end. The first round is always run. */
typedef struct effort {
    size_t rounds;
    double seconds;
    double end; /* by the clock of lab_now(); 0 for none */
} effort;

typedef struct series {
    const char *name;
    const char *variant; /* the fastest one's, or NULL */
    double work;
    size_t rounds;
    double best;   /* seconds a run */
    double median; /* seconds a run */
    double seconds[ROUNDS_MAX];
    double probe[ROUNDS_MAX]; /* the faster of the probes just before and after this run */
} series;

typedef struct measurement {
    series list[SERIES_MAX]; /* in the order in which the names appear, the probe last */
    size_t count;
    const series *probe; /* or NULL */
    double presence;     /* share of the time for which a thread had a processor: of the runs on one
                            thread or of those on several, whichever is less */
} measurement;

/* A ratio of times for the same work: of the best runs, the median over the rounds, and the
 * interval that contains the true median with 95 % (0 to infinity where there are fewer than six
 * rounds). */
typedef struct ratio {
    double best;
    double median;
    double low, high;
} ratio;

/* Runs the contenders, at most SERIES_MAX different names with the probe's; probe may be NULL.
 * The label is for the progress line. */
void bench_measure(const contender *contenders, size_t count, const contender *probe, effort until,
                   const char *label, measurement *result);

/* The series of a name; NULL if there is none. */
const series *bench_find(const measurement *from, const char *name);

/* Time of `a` divided by that of `b`, each for the same work. */
ratio bench_ratio(const measurement *from, const series *a, const series *b);

#endif
