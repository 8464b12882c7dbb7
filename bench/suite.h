/*
 * The benchmark as a whole: what to measure, and the sections that do it. Each
 * section fills the report with cases; how it is printed is not their concern.
 */
#ifndef WHET_BENCH_SUITE_H
#define WHET_BENCH_SUITE_H

#include "blas.h"
#include "report.h"
#include "whet.h"

typedef struct suite_options {
    bool rows, prefill, decode, backward, retrieval, lm, long_run; /* the sections wanted */
    bool quick;     /* fewer rounds, and of sizes those with a bar */
    size_t threads; /* to compare with one */
} suite_options;

typedef struct suite {
    suite_options options;
    effort until; /* for a case */
    blas blas;
    whet_pool *pool;
    whet_executor executor; /* of the pool */
    report *report;
    measurement measured; /* of the case under way */
} suite;

/* Measures everything asked for. False where it had to stop: report->error says why. The report
 * is to be freed in either case. */
bool bench_run(const suite_options *options, report *result);

/* The sections; false and an error in the report where one cannot go on. */
bool bench_rows(suite *with);
bool bench_prefill(suite *with);
bool bench_decode(suite *with);
bool bench_backward(suite *with);
bool bench_retrieval(suite *with);
bool bench_lm(suite *with);
bool bench_long(suite *with);

#endif
