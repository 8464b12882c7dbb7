/*
 * Each round makes the same samples again, starting from the first, so that
 * rounds differ only by the machine's noise and the best of them is
 * meaningful.
 */
#define _POSIX_C_SOURCE 200809L

#include "clrs_rates.h"

#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15, ROUNDS_QUICK = 3, SAMPLES = 400 };

const double clrs_reference_rate[2] = {699, 510};
const double clrs_rate_bar[2] = {100000, 50000};

static double processor_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static clrs_status run_round(clrs_sampler *sampler, double *rate) {
    clrs_status status = clrs_sampler_seek(sampler, 0);
    double began = processor_seconds();
    for (int i = 0; status == CLRS_OK && i < SAMPLES; i++) {
        clrs_sample sample;
        status = clrs_sampler_next(sampler, &sample);
    }
    *rate = SAMPLES / (processor_seconds() - began);
    return status;
}

static clrs_status measure(const char *name, bool hints, int rounds, clrs_rate *rate) {
    clrs_request request = clrs_request_default(name, CLRS_RATES_LENGTH);
    request.hints = hints;
    clrs_sampler *sampler;
    clrs_status status = clrs_sampler_create(&request, &sampler);
    double rates[ROUNDS] = {0};
    if (status == CLRS_OK)
        status = run_round(sampler, &rates[0]); /* texts grow, caches fill */
    for (int i = 0; status == CLRS_OK && i < rounds; i++)
        status = run_round(sampler, &rates[i]);
    clrs_sampler_destroy(sampler);
    qsort(rates, (size_t)rounds, sizeof rates[0], compare_doubles);
    *rate = (clrs_rate){.best = rates[rounds - 1], .median = rates[rounds / 2]};
    return status;
}

clrs_status bench_clrs_rates(bool quick, void (*title)(const char *name), clrs_rates *rates) {
    for (int hints = 0; hints < 2; hints++) {
        double best = 0, median = 0; /* seconds for one sample of each */
        for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
            const char *name = clrs_algorithm_at(i)->name;
            clrs_rate *rate = &rates->each[hints][i];
            if (title)
                title(name);
            clrs_status status = measure(name, hints != 0, quick ? ROUNDS_QUICK : ROUNDS, rate);
            if (status != CLRS_OK)
                return status;
            best += 1 / rate->best;
            median += 1 / rate->median;
        }
        rates->mean[hints] =
            (clrs_rate){CLRS_ALGORITHM_COUNT / best, CLRS_ALGORITHM_COUNT / median};
    }
    return CLRS_OK;
}
