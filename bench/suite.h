/*
 * The benchmark as a whole: what to measure, and the parts that measure it.
 * Each part fills the report with cases; printing is not their concern.
 */
#ifndef WHET_BENCH_SUITE_H
#define WHET_BENCH_SUITE_H

#include "blas.h"
#include "budget.h"
#include "report.h"
#include "whet.h"

typedef struct suite suite;

/* A part of the benchmark, which can be selected by name. */
typedef struct suite_part {
    const char *name;
    bool (*run)(suite *with); /* false, with an error in the report, if it cannot continue */
    double quick_seconds;     /* in a quick run, including inputs */
    bool in_quick;            /* part of a quick run if none is named */
    bool in_full;             /* part of a full run if none is named */
    bool needs_blas;
} suite_part;

enum { SUITE_PARTS = 10 };
extern const suite_part bench_parts[SUITE_PARTS];

/* Receives the cases of a run as they are prepared, instead of having them measured. */
typedef struct suite_visitor {
    /* Whether to prepare a case; `seconds` is what it declares in a quick run. */
    bool (*wants)(void *context, const char *section, const char *label, double seconds);
    /* The contenders of such a case that run libwhet, valid until this returns. */
    void (*visit)(void *context, const contender *list, size_t count);
    void *context;
} suite_visitor;

typedef struct suite_options {
    bool wanted[SUITE_PARTS];    /* of bench_parts */
    bool quick;                  /* rounds within a budget, and only sizes with a bar */
    size_t threads;              /* number to compare with one */
    const char *const *policies; /* whose training lm compares with softmax's, instead of torch's */
    size_t policy_count;
    const char *mpi;              /* whose ranks mpi measures; NULL: that of the launcher */
    const suite_visitor *visitor; /* NULL: measure */
} suite_options;

struct suite {
    suite_options options;
    budget budget; /* of the current part, in a quick run */
    effort until;  /* for a case */
    blas blas;
    whet_pool *pool;
    whet_executor executor; /* of the pool */
    report *report;
    measurement measured; /* of the current case */
};

/* Measures everything asked for. False if it had to stop: report->error says why. The report must
 * be freed in either case. */
bool bench_run(const suite_options *options, report *result);

/* Begins a case of a section, before its inputs are created: sets with->until. In a quick run the
 * case declares this many of its part's seconds. False if a visitor does not want the case, which
 * must then be skipped. */
bool bench_begin_case(suite *with, const char *section, const char *label, double quick_seconds);

/* Measures a case's contenders in with->measured; the probe may be NULL. A visitor gets them
 * instead, and with->measured is then empty. */
void bench_measure_case(suite *with, const contender *list, size_t count, const contender *probe,
                        const char *label);

/* Adds the mean beta and the other facts of bench_job_add_beta, unless there is a visitor, which
 * does not need them. */
whet_status bench_describe_case(const suite *with, report_case *to,
                                const whet_attention *attention);

bool bench_rows(suite *with);
bool bench_prefill(suite *with);
bool bench_decode(suite *with);
bool bench_backward(suite *with);
bool bench_retrieval(suite *with);
bool bench_lm(suite *with);
bool bench_skip(suite *with);
bool bench_tune(suite *with);
bool bench_long(suite *with);
bool bench_mpi(suite *with);

#endif
