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

/* Takes the cases of a run as they are made ready, instead of having them measured. */
typedef struct suite_visitor {
    /* Whether to make a case ready; `seconds` is what it declares of a quick run. */
    bool (*wants)(void *context, const char *section, const char *label, double seconds);
    /* The contenders of such a case that run libwhet, valid until this returns. */
    void (*visit)(void *context, const contender *list, size_t count);
    void *context;
} suite_visitor;

typedef struct suite_options {
    bool wanted[SUITE_PARTS];     /* of bench_parts */
    bool quick;                   /* rounds within a budget, and of sizes those with a bar */
    size_t threads;               /* to compare with one */
    const suite_visitor *visitor; /* NULL: measure */
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

/* Begins a case of a section, before its inputs are made: sets with->until. Of its part's seconds
 * in a quick run it declares so many for itself. False where a visitor does not want the case,
 * which is then to be left out. */
bool bench_begin_case(suite *with, const char *section, const char *label, double quick_seconds);

/* Measures a case's contenders in with->measured; the probe may be NULL. A visitor gets them
 * instead, and what was measured is then empty. */
void bench_measure_case(suite *with, const contender *list, size_t count, const contender *probe,
                        const char *label);

/* Adds the mean beta and the rest of bench_job_add_beta, unless there is a visitor, who has no use
 * for it. */
whet_status bench_describe_case(const suite *with, report_case *to,
                                const whet_attention *attention);

bool bench_rows(suite *with);
bool bench_prefill(suite *with);
bool bench_decode(suite *with);
bool bench_backward(suite *with);
bool bench_retrieval(suite *with);
bool bench_lm(suite *with);
bool bench_long(suite *with);

#endif
