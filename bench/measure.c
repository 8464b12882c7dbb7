/*
 * The rounds of measure.h. Times of all runs are kept in fixed arrays, so that
 * nothing is allocated while the clock runs; medians are taken over a sorted
 * copy at the end.
 *
 * The share of the processor is measured separately for runs on the calling
 * thread and for runs on several threads. The processor time of the latter is
 * the remainder of the whole process's: that clock may lag by a system tick
 * for threads that still run, which is too much for a single run.
 */
#define _POSIX_C_SOURCE 200809L

#include "measure.h"
#include "paired.h"

#include "base/clock.h"
#include "base/progress.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTENDERS_MAX = 32 };

/* Seconds, for all runs so far. */
typedef struct usage {
    double alone_had, alone_wanted; /* processor time on the calling thread */
    double parallel_wanted;         /* the same, summed over several threads */
} usage;

/* Processor time in seconds of the calling thread, or of all threads of the process. */
static double processor_time(clockid_t whose) {
    struct timespec used;
    clock_gettime(whose, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static double time_run(const contender *who, usage *used) {
    double before = processor_time(CLOCK_THREAD_CPUTIME_ID);
    double start = lab_now();
    who->run(who->argument);
    double seconds = lab_now() - start;
    if (who->threads > 1) {
        used->parallel_wanted += (double)who->threads * seconds;
    } else {
        used->alone_had += processor_time(CLOCK_THREAD_CPUTIME_ID) - before;
        used->alone_wanted += seconds;
    }
    return seconds;
}

static double share_had(double had, double wanted) { return wanted > had ? had / wanted : 1; }

/* `had` is the processor time of the whole process in the meantime. */
static double presence_of(const usage *used, double had) {
    return fmin(share_had(used->alone_had, used->alone_wanted),
                share_had(had - used->alone_had, used->parallel_wanted));
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *values, size_t count) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    return count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

static series *series_named(measurement *result, const contender *who) {
    for (size_t i = 0; i < result->count; i++)
        if (strcmp(result->list[i].name, who->name) == 0)
            return &result->list[i];
    if (result->count == SERIES_MAX)
        abort(); /* a mistake in a section's list */
    series *added = &result->list[result->count++];
    *added = (series){.name = who->name, .work = who->work, .best = INFINITY};
    for (size_t round = 0; round < ROUNDS_MAX; round++)
        added->seconds[round] = INFINITY;
    return added;
}

static void record(series *of, size_t round, double seconds, double probe, const char *variant) {
    if (seconds < of->seconds[round]) {
        of->seconds[round] = seconds;
        of->probe[round] = probe;
    }
    if (seconds < of->best) {
        of->best = seconds;
        of->variant = variant;
    }
    of->rounds = round + 1;
}

/* A new random order; the order matters, since the caches hold what the previous contender left. */
static void shuffle(size_t *order, size_t count, uint64_t *state) {
    for (size_t i = count; i > 1; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        size_t other = (size_t)(*state >> 33) % i;
        size_t moved = order[i - 1];
        order[i - 1] = order[other];
        order[other] = moved;
    }
}

/* One round: the probe runs between all contenders, so that each has one on either side. */
static void run_round(const contender *contenders, const size_t *order, size_t count,
                      const contender *probe, size_t round, series **of, series *probe_series,
                      usage *used) {
    double before = probe ? time_run(probe, used) : 0;
    if (probe)
        record(probe_series, round, before, before, probe->variant);
    for (size_t i = 0; i < count; i++) {
        const contender *who = &contenders[order[i]];
        double seconds = time_run(who, used);
        double after = probe ? time_run(probe, used) : 0;
        if (probe)
            record(probe_series, round, after, after, probe->variant);
        record(of[order[i]], round, seconds, fmin(before, after), who->variant);
        before = after;
    }
}

/* Whether another round fits after this many rounds, the last of which began at `last`. */
static bool is_enough(effort until, size_t rounds, double start, double last) {
    double now = lab_now();
    if (rounds >= until.rounds && now - start >= until.seconds)
        return true;
    return rounds > 0 && until.end > 0 && now + (now - last) > until.end;
}

void bench_measure(const contender *contenders, size_t count, const contender *probe, effort until,
                   const char *label, measurement *result) {
    size_t order[CONTENDERS_MAX];
    series *of[CONTENDERS_MAX];
    if (count > CONTENDERS_MAX)
        abort(); /* a mistake in a section's list */
    memset(result, 0, sizeof *result);
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        of[i] = series_named(result, &contenders[i]);
    }
    series *probe_series = probe ? series_named(result, probe) : NULL;
    result->probe = probe_series;

    uint64_t state = 1;
    double start = lab_now();
    double had = processor_time(CLOCK_PROCESS_CPUTIME_ID);
    usage used = {0};
    double last = start;
    for (size_t round = 0; round < ROUNDS_MAX && !is_enough(until, round, start, last); round++) {
        last = lab_now();
        lab_remark("%s: round %zu", label, round + 1);
        shuffle(order, count, &state);
        run_round(contenders, order, count, probe, round, of, probe_series, &used);
    }
    result->presence = presence_of(&used, processor_time(CLOCK_PROCESS_CPUTIME_ID) - had);
    lab_remark_clear();
    for (size_t i = 0; i < result->count; i++)
        result->list[i].median = median_of(result->list[i].seconds, result->list[i].rounds);
}

const series *bench_find(const measurement *from, const char *name) {
    for (size_t i = 0; i < from->count; i++)
        if (strcmp(from->list[i].name, name) == 0)
            return &from->list[i];
    return NULL;
}

ratio bench_ratio(const measurement *from, const series *a, const series *b) {
    const double *others = b == from->probe ? a->probe : b->seconds;
    double scale = b->work / a->work;
    double each[ROUNDS_MAX] = {0}, logarithms[ROUNDS_MAX];
    for (size_t round = 0; round < a->rounds; round++) {
        each[round] = scale * a->seconds[round] / others[round];
        logarithms[round] = log(each[round]);
    }
    paired_ratio paired = bench_paired_ratio(logarithms, a->rounds);
    return (ratio){.best = scale * a->best / b->best,
                   .median = median_of(each, a->rounds),
                   .low = paired.low,
                   .high = paired.high};
}
