/*
 * One attention problem, ready to be run repeatedly: planned, and with the
 * memory it needs, so that a run allocates nothing.
 */
#ifndef WHET_BENCH_JOB_H
#define WHET_BENCH_JOB_H

#include "report.h"
#include "whet.h"

typedef struct job {
    whet_plan plan;
    const whet_executor *executor; /* NULL: the calling thread */
    void *memory;
    whet_status status; /* of the last run */
} job;

/* Plans and allocates. After a failure nothing needs to be closed. */
whet_status bench_job_open(job *opened, const whet_attention *attention,
                           const whet_executor *executor);
whet_status bench_job_open_backward(job *opened, const whet_gradients *gradients,
                                    const whet_executor *executor);
void bench_job_close(job *opened);

/* One run; the argument is a job. For contenders. */
void bench_job_run(void *argument);

/* A contender that does `work` per run. */
contender bench_job_contender(const char *name, job *running, double work);

/* The same attention plain and adaptive, whatever policy its description names. Must not move while
 * open. */
typedef struct job_pair {
    whet_policy plain_policy, adaptive_policy;
    job plain;
    job adaptive;
} job_pair;

whet_status bench_pair_open(job_pair *opened, const whet_attention *attention,
                            const whet_executor *executor);
void bench_pair_close(job_pair *opened);

/* Two contenders that do this much work per run. */
void bench_pair_contenders(job_pair *pair, contender list[2], double work);

/* Status of the last runs: WHET_OK, or the first error. */
whet_status bench_pair_status(const job_pair *pair);

/* Adds the share of the time for which the process had a processor: where it is not all, other
 * programs disturb the figures. */
void bench_add_presence(report_case *to, const measurement *from);

/* Adds statistics of a case's rows: mean entropy, mean beta and the share of rows that are
 * sharpened. */
void bench_add_beta(report_case *to, const whet_stats *stats, size_t rows);

/* The same for attention, which is run once, adaptive, to get its statistics. */
whet_status bench_job_add_beta(report_case *to, const whet_attention *attention,
                               const whet_executor *executor);

#endif
