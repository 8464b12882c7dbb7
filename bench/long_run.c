/*
 * The long run: one adaptive prefill of 131,072 x 131,072, causal, one head of
 * 64, and decoding over 1,048,576 keys, with the memory they took. It shows
 * that such lengths work, not small differences: the prefill is run once, with
 * its tasks counted for the progress line.
 */
#define _POSIX_C_SOURCE 200809L

#include "decode.h"
#include "job.h"
#include "machine_limits.h"
#include "prefill.h"
#include "base/progress.h"
#include "suite.h"

#include <stdio.h>
#include <sys/resource.h>

enum { PREFILL_N = 131072, PREFILL_DIM = 64, DECODE_KEYS = 1048576 };

/* Seconds in a quick run; the prefill takes as long as it takes. */
#define QUICK_PREFILL 50
#define QUICK_DECODE 10

static const report_column prefill_columns[COLUMNS_MAX] = {{"of FMA peak", COMPARE_SHARE}};

/* State of an executor for the calling thread that counts the completed tasks. */
typedef struct counting {
    size_t done;
    size_t total;
} counting;

static void counting_for(void *context, size_t tasks, whet_task_function function, void *argument) {
    counting *counts = context;
    for (size_t task = 0; task < tasks; task++) {
        lab_remark("long prefill: %zu of %zu tasks", ++counts->done, counts->total);
        function(argument, task, 0);
    }
}

static size_t total_tasks(const whet_plan *plan) {
    size_t total = 0;
    for (unsigned phase = 0; phase < plan->phases; phase++)
        total += plan->tasks[phase];
    return total;
}

static double mebibytes(double bytes) { return bytes / 1048576; }

static void add_memory(report_case *to, const whet_plan *plan, double input_bytes) {
    struct rusage usage = {.ru_maxrss = 0};
    getrusage(RUSAGE_SELF, &usage);
    bench_report_add_fact(to, "scratch MiB", mebibytes((double)plan->scratch_bytes));
    bench_report_add_fact(to, "workspace MiB", mebibytes((double)plan->workspace_bytes));
    bench_report_add_fact(to, "inputs and outputs MiB", mebibytes(input_bytes));
    bench_report_add_fact(to, "peak memory MiB", mebibytes(1024.0 * (double)usage.ru_maxrss));
}

/* One run of the job, with the FMA peak before and after. */
static void measure_once(suite *with, const report_section *section, report_case *to, job *prefill,
                         double flops) {
    contender adaptive = {
        .name = "adaptive", .run = bench_job_run, .argument = prefill, .work = flops};
    peak_work peak;
    contender probe = bench_limit_peak(&peak);
    bench_measure(&adaptive, 1, &probe, (effort){.rounds = 1}, "long prefill", &with->measured);
    bench_report_add_entry(section, to, &with->measured, "FMA peak", (report_against){{NULL}});
    const report_entry *entry = bench_report_add_entry(section, to, &with->measured, "adaptive",
                                                       (report_against){{"FMA peak"}});
    bench_report_add_fact(to, "seconds", entry->seconds_best);
    bench_add_presence(to, &with->measured);
}

static bool measure_prefill(suite *with, report_section *section, const prefill_tensors *in) {
    prefill_shape of = {
        .queries = PREFILL_N, .keys = PREFILL_N, .dim = PREFILL_DIM, .causal = true};
    whet_attention attention = bench_prefill_prepare(in, &of);
    whet_policy policy = whet_policy_adaptive();
    attention.policies = &policy;
    counting counts = {.done = 0};
    whet_executor executor = {.workers = 1, .parallel_for = counting_for, .context = &counts};
    job prefill;
    whet_status status = bench_job_open(&prefill, &attention, &executor);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    counts.total = total_tasks(&prefill.plan);
    report_case result = {.label = "131072 x 131072"};
    measure_once(with, section, &result, &prefill, bench_prefill_flops(&of));
    add_memory(&result, &prefill.plan, 4.0 * PREFILL_N * PREFILL_DIM * sizeof(float));
    status = prefill.status;
    bench_job_close(&prefill);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    return bench_report_add_case(with->report, section, &result);
}

static bool long_prefill(suite *with) {
    report_section *section =
        bench_report_add_section(with->report, "long prefill", UNIT_GFLOPS, prefill_columns);
    snprintf(section->title, sizeof section->title,
             "long prefill: f32, d=%d, causal, one head, one thread", PREFILL_DIM);
    if (!bench_begin_case(with, section->name, "131072 x 131072", QUICK_PREFILL))
        return true;
    prefill_tensors in;
    bool done = bench_prefill_open(&in);
    if (!done)
        bench_report_fail(with->report, section->name, "out of memory");
    done = done && measure_prefill(with, section, &in);
    bench_prefill_close(&in);
    return done;
}

static bool long_decode(suite *with) {
    report_section *section = bench_decode_section(with, "long decode");
    report_case result = {.label = "f16 n=1048576"};
    if (!bench_begin_case(with, section->name, result.label, QUICK_DECODE))
        return true;
    decode_inputs in;
    if (!bench_decode_open(&in, DECODE_KEYS, WHET_F16, &with->executor))
        return bench_report_fail(with->report, section->name, "out of memory");
    bool done = bench_decode_case(with, section, &in, &result);
    whet_attention attention = bench_decode_describe(&in);
    whet_policy policy = whet_policy_adaptive();
    attention.policies = &policy;
    whet_plan plan = {.size = sizeof plan};
    if (done && whet_attention_plan(&attention, &plan) == WHET_OK) {
        bench_report_add_fact(&result, "seconds",
                              result.entries[result.entry_count - 1].seconds_best);
        add_memory(&result, &plan, bench_decode_bytes(&in));
    }
    done = done && bench_report_add_case(with->report, section, &result);
    bench_decode_close(&in);
    return done;
}

bool bench_long(suite *with) { return long_prefill(with) && long_decode(with); }
