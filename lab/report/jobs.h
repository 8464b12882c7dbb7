/*
 * The work behind a report as a list of jobs, so that a run can say beforehand
 * how long it will take and, while it works, how far it is in all.
 */
#ifndef WHET_LAB_REPORT_JOBS_H
#define WHET_LAB_REPORT_JOBS_H

#include "base/progress.h"

#include <stddef.h>

typedef struct experiment experiment;

typedef enum report_job {
    JOB_FRESH,     /* one head trained to show how */
    JOB_HEADS,     /* heads of the paper's reading, where they are trained here */
    JOB_HEADS_F32, /* the same in f32 */
    JOB_TABLE,
    JOB_PANELS,
    JOB_POLICIES,
    JOB_POLICIES_F32,
    JOB_SHARPNESS,
    JOB_FIT,
    JOB_BEYOND,
    JOB_CLRS,
    JOB_PICTURES,
    REPORT_JOBS
} report_job;

/* Sets of jobs are bits. */
#define JOB(name) (1u << (JOB_##name))

typedef struct report_jobs {
    double seconds[REPORT_JOBS]; /* expected; 0: nothing to do */
    unsigned begun;              /* set of jobs */
    double began, expected; /* since the first began: time, and what was expected of those done */
    report_job current;
} report_jobs;

/*
 * What is left to do for a set of jobs: those whose results are kept already are
 * left out. Seconds come from the costs of each job on a known machine and from
 * a short trial here, a few dozen training steps.
 */
report_jobs jobs_plan(experiment *experiment, unsigned wanted);

double jobs_seconds(const report_jobs *jobs);

/* What the job is, in a few words: "training language models". */
const char *job_title(report_job job);

/* From here on progress belongs to this job. Jobs that were not planned are fine; so is NULL. */
void jobs_begin(report_jobs *jobs, report_job job);
void jobs_end(void);

#endif
