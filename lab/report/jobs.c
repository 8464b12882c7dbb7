/*
 * Costs are in training steps of the paper's head on one thread, which is what is
 * timed here: a machine that trains twice as fast evaluates about twice as fast.
 * They were measured on two virtual cores of an AMD EPYC with AVX2 and AVX-512.
 */
#include "report/jobs.h"

#include "base/clock.h"
#include "nn/checkpoint.h"
#include "base/files.h"
#include "report/clrs.h"
#include "report/experiment.h"
#include "retrieval/evaluate.h"
#include "retrieval/train.h"

#include <math.h>
#include <stdlib.h>

/* Steps that ... cost. */
static const double cost_f32_step = 0.55;     /* a training step in f32 */
static const double cost_item = 2.0e-5;       /* an item of a set, under two policies */
static const double cost_item_all = 1.4e-4;   /* the same under all of them */
static const double cost_item_fixed = 6e-5;   /* the same under fixed temperatures */
static const double cost_item_fit = 1e-3;     /* the search for its best temperature */
static const double cost_beyond = 5.7;        /* a step of each recipe, evaluation included */
static const double cost_lm_step = 43;        /* a step of a small language model */
static const double cost_lm_step_full = 700;  /* of one that learns all algorithms */
static const double cost_lm_answer = 2.2;     /* an answer of the small one */
static const double cost_lm_answer_full = 18; /* of the other */
static const double seconds_of_panels = 1, seconds_of_pictures = 10;

static const char *const titles[REPORT_JOBS] = {
    [JOB_FRESH] = "training a fresh head",
    [JOB_HEADS] = "training heads in bfloat16",
    [JOB_HEADS_F32] = "training heads in f32",
    [JOB_TABLE] = "evaluating heads for Table 1",
    [JOB_PANELS] = "coefficients for Figures 2 and 7",
    [JOB_POLICIES] = "evaluating all policies",
    [JOB_POLICIES_F32] = "evaluating all policies in f32",
    [JOB_SHARPNESS] = "evaluating fixed temperatures",
    [JOB_FIT] = "fitting Figure 6",
    [JOB_BEYOND] = "training heads that stay sharp",
    [JOB_CLRS] = "training language models on CLRS-Text",
    [JOB_PICTURES] = "drawing",
};

const char *job_title(report_job job) { return titles[job]; }

/* ---- what is left to do ---- */

/* Training steps that the checkpoints of a folder lack. */
static double steps_left(const experiment *e, const char *folder, uint64_t first, uint64_t seeds,
                         uint64_t steps) {
    double left = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        nn_checkpoint read = {.step = 0};
        lab_error unimportant = {.kind = LAB_NO_ERROR};
        char *path = lab_path(e->options.folder, "runs/%s-%llu/seed-%llu.ckpt", folder,
                              (unsigned long long)steps, (unsigned long long)seed);
        if (path && lab_file_exists(path))
            nn_checkpoint_read(path, &read, &unimportant);
        left += fmax(0, (double)steps - (double)read.step);
        nn_checkpoint_free(&read);
        free(path);
    }
    return left;
}

static double items_up_to(double largest) { return 2 * largest; } /* 16 + 32 + ... + largest */

/* Steps that training the heads of a precision costs, if anything of `wanted` that is not there
 * yet needs them. */
static double heads_cost(const experiment *e, retrieval_precision precision, unsigned needing) {
    const experiment_options *o = &e->options;
    if (!o->trains_heads || e->heads[precision].count > 0 || !needing)
        return 0;
    return steps_left(e, retrieval_precision_name(precision), 0, o->seeds, o->steps) *
           (precision == RETRIEVAL_F32 ? cost_f32_step : 1);
}

static unsigned kept_jobs(const experiment *e) {
    return (e->fresh ? JOB(FRESH) : 0) | (e->table ? JOB(TABLE) : 0) |
           (e->panels ? JOB(PANELS) : 0) | (e->evaluation[experiment_paper] ? JOB(POLICIES) : 0) |
           (e->evaluation[RETRIEVAL_F32] ? JOB(POLICIES_F32) : 0) |
           (e->sharpness ? JOB(SHARPNESS) : 0) | (e->fit ? JOB(FIT) : 0) |
           (e->beyond ? JOB(BEYOND) : 0) | (e->clrs ? JOB(CLRS) : 0);
}

static void find_costs(experiment *e, unsigned wanted, double cost[REPORT_JOBS]) {
    const experiment_options *o = &e->options;
    double heads = (double)experiment_head_count(o, experiment_paper);
    double heads_f32 = (double)experiment_head_count(o, RETRIEVAL_F32);
    double sets = (double)o->sets, items = items_up_to((double)o->largest);
    double fewer = heads < 8 ? sets : sets / 8, fewer_f32 = heads_f32 < 8 ? sets : sets / 8;
    clrs_work models = wanted & JOB(CLRS) ? experiment_clrs_left(e) : (clrs_work){0};
    cost[JOB_FRESH] = steps_left(e, "fresh", EXPERIMENT_FRESH_SEED, 1, o->fresh_steps) +
                      fmin(sets, 1024) * items * cost_item;
    cost[JOB_HEADS] =
        heads_cost(e, experiment_paper, wanted & (JOB(TABLE) | JOB(PANELS) | JOB(POLICIES)));
    cost[JOB_HEADS_F32] =
        heads_cost(e, RETRIEVAL_F32, wanted & (JOB(POLICIES_F32) | JOB(SHARPNESS) | JOB(FIT)));
    cost[JOB_TABLE] = heads * sets * items * cost_item;
    cost[JOB_POLICIES] = heads * fewer * items * cost_item_all;
    cost[JOB_POLICIES_F32] = heads_f32 * fewer_f32 * items * cost_item_all;
    cost[JOB_SHARPNESS] = heads_f32 * fmin(sets, 1024) * items_up_to(8192) * cost_item_fixed;
    cost[JOB_FIT] = heads_f32 * fmin(sets, 256) * items_up_to(4096) * cost_item_fit;
    cost[JOB_BEYOND] = (double)(o->seeds * o->steps) * cost_beyond;
    cost[JOB_CLRS] = models.steps * (o->is_full ? cost_lm_step_full : cost_lm_step) +
                     models.answers * (o->is_full ? cost_lm_answer_full : cost_lm_answer);
}

static double step_seconds(const experiment *e) {
    retrieval_config config = retrieval_config_default();
    return retrieval_step_seconds(e->options.engine, &config, e->options.executor);
}

report_jobs jobs_plan(experiment *e, unsigned wanted) {
    report_jobs jobs = {.begun = 0};
    double cost[REPORT_JOBS] = {0};
    experiment_recall(e);
    wanted &= ~kept_jobs(e);
    find_costs(e, wanted, cost);
    double step = wanted & ~(JOB(PICTURES) | JOB(PANELS)) ? step_seconds(e) : 0;
    for (size_t job = 0; job < REPORT_JOBS; job++) {
        bool is_trained = job == JOB_HEADS || job == JOB_HEADS_F32; /* for what needs them */
        if (wanted >> job & 1 || is_trained)
            jobs.seconds[job] = cost[job] * step;
    }
    if (wanted & JOB(PANELS))
        jobs.seconds[JOB_PANELS] = seconds_of_panels;
    if (wanted & JOB(PICTURES))
        jobs.seconds[JOB_PICTURES] = seconds_of_pictures;
    return jobs;
}

double jobs_seconds(const report_jobs *jobs) {
    double sum = 0;
    for (size_t job = 0; job < REPORT_JOBS; job++)
        sum += jobs->seconds[job];
    return sum;
}

/* ---- progress ---- */

/* How much longer than expected things take, once there is something to go by. */
static double slowness(const report_jobs *jobs) {
    double seconds = lab_now() - jobs->began;
    return seconds > 2 && jobs->expected > 2 ? fmin(8, fmax(0.25, seconds / jobs->expected)) : 1;
}

void jobs_begin(report_jobs *jobs, report_job job) {
    if (!jobs)
        return;
    unsigned parts = 0, done = 0;
    double after = 0;
    if (jobs->begun == 0)
        jobs->began = lab_now();
    else if (jobs->current != job)
        jobs->expected += jobs->seconds[jobs->current];
    jobs->begun |= 1u << job;
    jobs->current = job;
    for (size_t i = 0; i < REPORT_JOBS; i++) {
        bool is_begun = jobs->begun >> i & 1;
        parts += is_begun || jobs->seconds[i] > 0;
        done += is_begun;
        after += is_begun ? 0 : jobs->seconds[i];
    }
    lab_progress_overall(done, parts, after * slowness(jobs));
}

void jobs_end(void) { lab_progress_overall(0, 0, 0); }
