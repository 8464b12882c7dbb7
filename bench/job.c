/*
 * Runs attention from a plan. The beta of a problem is found in a separate run
 * with statistics, so that timed runs need none.
 */
#include "job.h"

#include "inputs.h"

#include <stdint.h>
#include <stdlib.h>

/* Allocates memory for a finished plan. */
static whet_status allocate(job *opened) {
    size_t bytes = whet_attention_memory(&opened->plan, opened->executor);
    if (bytes == SIZE_MAX)
        return WHET_ERROR_OVERFLOW;
    opened->memory = bench_inputs_allocate(bytes);
    return opened->memory ? WHET_OK : WHET_ERROR_MEMORY;
}

whet_status bench_job_open(job *opened, const whet_attention *attention,
                           const whet_executor *executor) {
    *opened = (job){.plan = {.size = sizeof opened->plan}, .executor = executor};
    whet_status status = whet_attention_plan(attention, &opened->plan);
    return status == WHET_OK ? allocate(opened) : status;
}

whet_status bench_job_open_backward(job *opened, const whet_gradients *gradients,
                                    const whet_executor *executor) {
    *opened = (job){.plan = {.size = sizeof opened->plan}, .executor = executor};
    whet_status status = whet_attention_backward_plan(gradients, &opened->plan);
    return status == WHET_OK ? allocate(opened) : status;
}

void bench_job_close(job *opened) {
    bench_inputs_release(opened->memory);
    opened->memory = NULL;
}

void bench_job_run(void *argument) {
    job *running = argument;
    running->status =
        whet_attention_execute(&running->plan, running->executor, running->memory, NULL);
}

contender bench_job_contender(const char *name, job *running, double work) {
    return (contender){
        .name = name, .run = bench_job_run, .argument = running, .work = work, .is_library = true};
}

whet_status bench_pair_open(job_pair *opened, const whet_attention *attention,
                            const whet_executor *executor) {
    *opened = (job_pair){.plain_policy = whet_policy_softmax(),
                         .adaptive_policy = whet_policy_adaptive()};
    whet_attention described = *attention;
    described.policy_count = 1;
    described.policies = &opened->plain_policy;
    whet_status status = bench_job_open(&opened->plain, &described, executor);
    if (status != WHET_OK)
        return status;
    described.policies = &opened->adaptive_policy;
    status = bench_job_open(&opened->adaptive, &described, executor);
    if (status != WHET_OK)
        bench_job_close(&opened->plain);
    return status;
}

void bench_pair_close(job_pair *opened) {
    bench_job_close(&opened->plain);
    bench_job_close(&opened->adaptive);
}

void bench_pair_contenders(job_pair *pair, contender list[2], double work) {
    list[0] = bench_job_contender("plain", &pair->plain, work);
    list[1] = bench_job_contender("adaptive", &pair->adaptive, work);
}

whet_status bench_pair_status(const job_pair *pair) {
    return pair->plain.status != WHET_OK ? pair->plain.status : pair->adaptive.status;
}

void bench_add_presence(report_case *to, const measurement *from) {
    bench_report_add_fact(to, FACT_PRESENCE, 100 * from->presence);
}

void bench_add_beta(report_case *to, const whet_stats *stats, size_t rows) {
    double entropy = 0;
    double beta = 0;
    double sharpened = 0;
    for (size_t i = 0; i < rows; i++) {
        entropy += stats[i].entropy;
        beta += stats[i].beta;
        sharpened += stats[i].beta > 1;
    }
    bench_report_add_fact(to, "mean entropy", entropy / (double)rows);
    bench_report_add_fact(to, "mean beta", beta / (double)rows);
    bench_report_add_fact(to, "percent sharpened", 100 * sharpened / (double)rows);
}

whet_status bench_job_add_beta(report_case *to, const whet_attention *attention,
                               const whet_executor *executor) {
    size_t rows = attention->heads * attention->queries;
    whet_stats *stats = calloc(rows, sizeof *stats);
    if (!stats)
        return WHET_ERROR_MEMORY;
    whet_policy policy = whet_policy_adaptive();
    whet_attention asked = *attention;
    asked.policies = &policy;
    asked.policy_count = 1;
    asked.stats = stats;
    asked.stats_stride = 0;
    whet_status status = whet_attention_forward(&asked, executor, NULL);
    bench_add_beta(to, stats, rows);
    free(stats);
    return status;
}
