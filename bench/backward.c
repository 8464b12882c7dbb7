/*
 * The backward pass of attention: as many queries as keys, one head, f32, one
 * thread, all three gradients; plain and adaptive against the FMA peak, which
 * is probed before and after every run, and against the forward pass. FLOPs
 * are those of the five products, unmasked ones only.
 */
#include "inputs.h"
#include "job.h"
#include "machine_limits.h"
#include "prefill.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

/* Products of the backward pass for each product of the forward pass. */
#define PRODUCTS_TO_ONE 2.5

/* The time of the only case in a quick run. */
#define QUICK_SECONDS 2.8

static const report_column columns[COLUMNS_MAX] = {
    {"of FMA peak", COMPARE_SHARE},
    {"times forward", COMPARE_TIMES},
    {"times plain", COMPARE_TIMES},
};

/* Gradients and statistics, in addition to the tensors of the forward pass. */
typedef struct backward_tensors {
    prefill_tensors forward;
    float *out, *q, *k, *v;
    whet_stats *plain, *adaptive;
} backward_tensors;

enum { QUERIES_MAX = 4096, DIM_MAX = 256 };

static bool open_tensors(backward_tensors *opened) {
    size_t bytes = (size_t)QUERIES_MAX * DIM_MAX * sizeof(float);
    bool done = bench_prefill_open(&opened->forward);
    opened->out = bench_inputs_allocate(bytes);
    opened->q = bench_inputs_allocate(bytes);
    opened->k = bench_inputs_allocate(bytes);
    opened->v = bench_inputs_allocate(bytes);
    opened->plain = calloc(QUERIES_MAX, sizeof *opened->plain);
    opened->adaptive = calloc(QUERIES_MAX, sizeof *opened->adaptive);
    return done && opened->out && opened->q && opened->k && opened->v && opened->plain &&
           opened->adaptive;
}

static void close_tensors(backward_tensors *opened) {
    bench_prefill_close(&opened->forward);
    bench_inputs_release(opened->out);
    bench_inputs_release(opened->q);
    bench_inputs_release(opened->k);
    bench_inputs_release(opened->v);
    free(opened->plain);
    free(opened->adaptive);
}

/* Runs the forward pass with a policy to get the statistics, then plans the backward pass. */
static whet_status open_job(job *opened, const backward_tensors *in, whet_attention attention,
                            const whet_policy *policy, whet_stats *stats) {
    attention.policies = policy;
    attention.stats = stats;
    whet_status status = whet_attention_forward(&attention, NULL, NULL);
    if (status != WHET_OK)
        return status;
    whet_gradients gradients = {.size = sizeof gradients,
                                .attention = attention,
                                .out = {.data = in->out},
                                .q = {.data = in->q},
                                .k = {.data = in->k},
                                .v = {.data = in->v}};
    return bench_job_open_backward(opened, &gradients, NULL);
}

/* The forward pass, and the backward pass plain and adaptive. Must not move while open. */
typedef struct backward_jobs {
    job_pair pair;
    job forward;
} backward_jobs;

static whet_status open_jobs(backward_jobs *opened, const backward_tensors *in,
                             const whet_attention *attention) {
    job_pair *pair = &opened->pair;
    *pair = (job_pair){.plain_policy = whet_policy_softmax(),
                       .adaptive_policy = whet_policy_adaptive()};
    whet_status status = open_job(&pair->plain, in, *attention, &pair->plain_policy, in->plain);
    if (status == WHET_OK)
        status = open_job(&pair->adaptive, in, *attention, &pair->adaptive_policy, in->adaptive);
    if (status == WHET_OK)
        status = bench_job_open(&opened->forward, attention, NULL);
    return status;
}

static void close_jobs(backward_jobs *opened) {
    bench_pair_close(&opened->pair);
    bench_job_close(&opened->forward);
}

static void add_entries(const report_section *section, report_case *to, const measurement *from,
                        bool has_bar) {
    bench_report_add_entry(section, to, from, "FMA peak", (report_against){{NULL}});
    bench_report_add_entry(section, to, from, "forward", (report_against){{"FMA peak"}});
    report_entry *plain = bench_report_add_entry(section, to, from, "plain",
                                                 (report_against){{"FMA peak", "forward"}});
    report_entry *adaptive = bench_report_add_entry(
        section, to, from, "adaptive", (report_against){{"FMA peak", "forward", "plain"}});
    if (!has_bar)
        return;
    bench_report_set_bar(plain, 0, BAR_AT_LEAST, 0.6);
    bench_report_set_bar(adaptive, 2, BAR_AT_MOST, 1.2);
}

static bool measure_case(suite *with, report_section *section, const backward_tensors *in,
                         const prefill_shape *of, bool has_bar) {
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "d=%zu n=%zu%s", of->dim, of->keys,
             of->causal ? " causal" : "");
    if (!bench_begin_case(with, section->name, result.label, QUICK_SECONDS))
        return true;
    whet_attention attention = bench_prefill_prepare(&in->forward, of);
    bench_inputs_fill(in->out, of->queries * of->dim, 1, 4);
    backward_jobs jobs = {.forward = {.memory = NULL}};
    whet_status status = open_jobs(&jobs, in, &attention);
    if (status != WHET_OK) {
        close_jobs(&jobs);
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    }
    bench_add_beta(&result, in->adaptive, of->queries);

    contender list[3];
    peak_work peak;
    contender probe = bench_limit_peak(&peak);
    bench_pair_contenders(&jobs.pair, list, PRODUCTS_TO_ONE * bench_prefill_flops(of));
    list[2] = bench_job_contender("forward", &jobs.forward, bench_prefill_flops(of));
    bench_measure_case(with, list, 3, &probe, result.label);
    status = bench_pair_status(&jobs.pair);
    close_jobs(&jobs);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    add_entries(section, &result, &with->measured, has_bar);
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}

static bool measure_squares(suite *with, const backward_tensors *in) {
    report_section *section =
        bench_report_add_section(with->report, "backward", UNIT_GFLOPS, columns);
    snprintf(section->title, sizeof section->title,
             "backward: f32, one head, one thread, five products");
    static const size_t dims[] = {64, 128, DIM_MAX};
    static const size_t sizes[] = {1024, QUERIES_MAX};
    for (size_t i = 0; i < 3 * 2 * 2; i++) {
        prefill_shape of = {.dim = dims[i / 4], .keys = sizes[i / 2 % 2], .causal = i % 2 != 0};
        of.queries = of.keys;
        bool has_bar = of.dim == 128 && of.keys == 4096 && !of.causal;
        if (with->options.quick && !has_bar)
            continue;
        if (!measure_case(with, section, in, &of, has_bar))
            return false;
    }
    return true;
}

bool bench_backward(suite *with) {
    backward_tensors in;
    bool done = open_tensors(&in);
    if (!done)
        bench_report_fail(with->report, "backward", "out of memory");
    done = done && measure_squares(with, &in);
    close_tensors(&in);
    return done;
}
