/* A contender for the benchmark's own tests: takes a number of seconds at least and counts its
 * runs. */
#ifndef WHET_TESTS_BENCH_WAITING_H
#define WHET_TESTS_BENCH_WAITING_H

#include "base/clock.h"
#include "measure.h"

typedef struct waiting {
    double seconds;
    size_t runs;
} waiting;

static inline void wait_and_count(void *argument) {
    waiting *work = argument;
    work->runs++;
    double end = lab_now() + work->seconds;
    while (lab_now() < end)
        continue;
}

static inline contender waiter(const char *name, const char *variant, waiting *work,
                               double amount) {
    return (contender){
        .name = name, .variant = variant, .run = wait_and_count, .argument = work, .work = amount};
}

#endif
