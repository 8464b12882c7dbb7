/*
 * One attention problem made ready to be run again and again: planned, with
 * the memory it needs, so that a run allocates nothing.
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

/* Plans and allocates. On failure nothing need be closed. */
whet_status bench_job_open(job *opened, const whet_attention *attention,
                           const whet_executor *executor);
whet_status bench_job_open_backward(job *opened, const whet_gradients *gradients,
                                    const whet_executor *executor);
void bench_job_close(job *opened);

/* One run; the argument is a job. For contenders. */
void bench_job_run(void *argument);

/* A contender that does `work` a run. */
contender bench_job_contender(const char *name, job *running, double work);

/* The same attention plain and adaptive, whatever policy its description names. Must stay where it
 * is while open. */
typedef struct job_pair {
    whet_policy plain_policy, adaptive_policy;
    job plain;
    job adaptive;
} job_pair;

whet_status bench_pair_open(job_pair *opened, const whet_attention *attention,
                            const whet_executor *executor);
void bench_pair_close(job_pair *opened);

/* Two contenders that do so much work a run. */
void bench_pair_contenders(job_pair *pair, contender list[2], double work);

/* Of the last runs: WHET_OK, or what went wrong first. */
whet_status bench_pair_status(const job_pair *pair);

/* Adds how much of the time the processor was ours: where it is less than all, neighbours disturb
 * the figures. */
void bench_add_presence(report_case *to, const measurement *from);

/* Adds to a case what the statistics of its rows come to: mean entropy, mean beta and how many
 * rows are sharpened at all. */
void bench_add_beta(report_case *to, const whet_stats *stats, size_t rows);

/* The same for attention, which is run once, adaptive, to have its statistics. */
whet_status bench_job_add_beta(report_case *to, const whet_attention *attention,
                               const whet_executor *executor);

#endif
