/*
 * The benchmark as a whole: what to measure, and the parts that do it. Each fills
 * the report with cases; how it is printed is not their concern.
 */
#ifndef WHET_BENCH_SUITE_H
#define WHET_BENCH_SUITE_H

#include "blas.h"
#include "budget.h"
#include "report.h"
#include "whet.h"

typedef struct suite suite;

/* Part of the benchmark that can be asked for by name. */
typedef struct suite_part {
    const char *name;
    bool (*run)(suite *with); /* false and an error in the report where it cannot go on */
    double quick_seconds;     /* of a quick run, inputs and all */
    bool in_quick;            /* part of a quick run where none is named */
    bool in_full;             /* part of a full run where none is named */
    bool needs_blas;
} suite_part;

enum { SUITE_PARTS = 7 };
extern const suite_part bench_parts[SUITE_PARTS];

/* What a quick run of all that belongs to it takes at most, but for the first round of a case,
 * which is not cut short. */
#define QUICK_SECONDS_MAX 25

typedef struct suite_options {
    bool wanted[SUITE_PARTS]; /* of bench_parts */
    bool quick;               /* rounds within a budget, and of sizes those with a bar */
    size_t threads;           /* to compare with one */
} suite_options;

struct suite {
    suite_options options;
    budget budget; /* of the part under way, in a quick run */
    effort until;  /* for a case */
    blas blas;
    whet_pool *pool;
    whet_executor executor; /* of the pool */
    report *report;
    measurement measured; /* of the case under way */
};

/* Measures everything asked for. False where it had to stop: report->error says why. The report
 * is to be freed in either case. */
bool bench_run(const suite_options *options, report *result);

/* Begins a case, before its inputs are made: sets with->until. Of its part's seconds in a quick run
 * it declares so many for itself. */
void bench_begin_case(suite *with, double quick_seconds);

bool bench_rows(suite *with);
bool bench_prefill(suite *with);
bool bench_decode(suite *with);
bool bench_backward(suite *with);
bool bench_retrieval(suite *with);
bool bench_lm(suite *with);
bool bench_long(suite *with);

#endif
