/*
 * Prefill: as many queries as keys, one head, f32, one thread; plain and
 * adaptive against the FMA peak, which is probed before and after every run,
 * and beside OpenBLAS's sgemm on the same products. FLOPs are those of
 * unmasked products only. Then the maps that are not a temperature against
 * plain, and several threads against one: a square, and a chunk of queries
 * over 131,072 keys. Last, a prompt whose cache holds other sequences, too
 * (sequences.h).
 */
#include "prefill.h"

#include "inputs.h"
#include "job.h"
#include "machine_limits.h"
#include "sequences.h"
#include "suite.h"
#include "speedup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR_FLOATS = 131072 * 64, PEAK_PARTS = 16 };

/* The shares of a quick run that a square, the maps and a case with threads declare: for a square,
 * one second for this many FLOPs of a single run, which at 100 GFLOP/s leaves time for three rounds
 * of three contenders; for the others, seconds. */
#define QUICK_FLOPS 7.5e9
#define QUICK_MAPS 2.6
#define QUICK_THREADS 0.9

static const report_column columns[COLUMNS_MAX] = {
    {"of FMA peak", COMPARE_SHARE},
    {"times sgemm", COMPARE_TIMES},
    {"times plain", COMPARE_TIMES},
};

bool bench_prefill_open(prefill_tensors *opened) {
    size_t bytes = TENSOR_FLOATS * sizeof(float);
    opened->q = bench_inputs_allocate(bytes);
    opened->k = bench_inputs_allocate(bytes);
    opened->v = bench_inputs_allocate(bytes);
    opened->out = bench_inputs_allocate(bytes);
    return opened->q && opened->k && opened->v && opened->out;
}

void bench_prefill_close(prefill_tensors *opened) {
    bench_inputs_release(opened->q);
    bench_inputs_release(opened->k);
    bench_inputs_release(opened->v);
    bench_inputs_release(opened->out);
    *opened = (prefill_tensors){.q = NULL};
}

double bench_prefill_flops(const prefill_shape *of) {
    double pairs = (double)of->queries * (double)of->keys;
    if (of->causal)
        pairs = 0.5 * (double)of->queries * (double)(of->queries + 1);
    return 4.0 * (double)of->dim * pairs;
}

whet_attention bench_prefill_prepare(const prefill_tensors *in, const prefill_shape *of) {
    bench_inputs_fill_queries(in->q, of->queries, of->dim, 1);
    bench_inputs_fill(in->k, of->keys * of->dim, 1, 2);
    bench_inputs_fill(in->v, of->keys * of->dim, 1, 3);
    return (whet_attention){
        .size = sizeof(whet_attention),
        .heads = 1,
        .queries = of->queries,
        .keys = of->keys,
        .head_dim = of->dim,
        .q = {.data = in->q},
        .k = {.data = in->k},
        .v = {.data = in->v},
        .out = {.data = in->out},
        .scale = (float)(bench_inputs_deviation(of->keys) / sqrt((double)of->dim)),
        .flags = of->causal ? WHET_CAUSAL : 0,
    };
}

static void add_entries(const report_section *section, report_case *to, const measurement *from,
                        const prefill_shape *of) {
    bench_report_add_entry(section, to, from, "FMA peak", (report_against){{NULL}});
    bench_report_add_entry(section, to, from, "sgemm", (report_against){{"FMA peak"}});
    report_entry *plain =
        bench_report_add_entry(section, to, from, "plain", (report_against){{"FMA peak", "sgemm"}});
    report_entry *adaptive = bench_report_add_entry(
        section, to, from, "adaptive", (report_against){{"FMA peak", "sgemm", "plain"}});
    if (of->dim == 128)
        bench_report_set_bar(adaptive, 2, BAR_AT_MOST, 1.15);
    if (of->dim == 128 && of->keys >= 4096)
        bench_report_set_bar(plain, 0, BAR_AT_LEAST, of->causal ? 0.65 : 0.75);
}

static bool measure_case(suite *with, report_section *section, const prefill_tensors *in,
                         const prefill_shape *of) {
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "d=%zu n=%zu%s", of->dim, of->keys,
             of->causal ? " causal" : "");
    if (!bench_begin_case(with, section->name, result.label, bench_prefill_flops(of) / QUICK_FLOPS))
        return true;
    whet_attention attention = bench_prefill_prepare(in, of);
    job_pair pair;
    whet_status status = bench_describe_case(with, &result, &attention);
    if (status == WHET_OK)
        status = bench_pair_open(&pair, &attention, NULL);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));

    contender list[3];
    bench_pair_contenders(&pair, list, bench_prefill_flops(of));
    size_t count = 2;
    blas_work products = {.with = &with->blas,
                          .q = in->q,
                          .k = in->k,
                          .v = in->v,
                          .out = in->out,
                          .n = of->keys,
                          .dim = of->dim,
                          .causal = of->causal};
    if (with->blas.scores)
        list[count++] = (contender){.name = "sgemm",
                                    .run = bench_blas_products,
                                    .argument = &products,
                                    .work = bench_prefill_flops(of)};
    peak_work peak;
    contender probe = bench_limit_peak(&peak);
    bench_measure_case(with, list, count, &probe, result.label);
    status = bench_pair_status(&pair);
    bench_pair_close(&pair);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    add_entries(section, &result, &with->measured, of);
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}

static bool measure_squares(suite *with, const prefill_tensors *in) {
    report_section *section =
        bench_report_add_section(with->report, "prefill", UNIT_GFLOPS, columns);
    snprintf(section->title, sizeof section->title, "prefill: f32, one head, one thread");
    static const size_t dims[] = {64, 128, 256};
    static const size_t sizes[] = {1024, 4096, 8192};
    for (size_t i = 0; i < 3 * 3 * 2; i++) {
        prefill_shape of = {.dim = dims[i / 6], .keys = sizes[i / 2 % 3], .causal = i % 2 != 0};
        of.queries = of.keys;
        bool has_bar = of.dim == 128 && of.keys >= 4096;
        if (with->options.quick && !has_bar)
            continue;
        if (!measure_case(with, section, in, &of))
            return false;
    }
    return true;
}

/* A map and the largest allowed ratio of its time to plain softmax; 0 for no bar. */
typedef struct map_bar {
    const char *name;
    double at_most;
} map_bar;

static const map_bar maps[] = {{"softmax1", 1.1}, {"sigmoid", 1.1}, {"stick-breaking", 0},
                               {"entmax15", 3},   {"sparsemax", 0}, {"entmax:1.25", 0},
                               {"topk:32", 0},    {"hardmax", 0}};

enum { MAPS = sizeof maps / sizeof maps[0] };

static const report_column map_columns[COLUMNS_MAX] = {
    {"of FMA peak", COMPARE_SHARE},
    {"times plain", COMPARE_TIMES},
};

/* Opens plain softmax and every map, and counts what was opened. */
static whet_status open_maps(const whet_attention *attention, whet_policy *policies, job *jobs,
                             size_t *opened) {
    whet_status status = WHET_OK;
    for (*opened = 0; *opened <= MAPS && status == WHET_OK; *opened += status == WHET_OK) {
        const char *name = *opened ? maps[*opened - 1].name : "softmax";
        whet_attention described = *attention;
        status = whet_policy_parse(name, &policies[*opened], NULL, 0);
        described.policies = &policies[*opened];
        if (status == WHET_OK)
            status = bench_job_open(&jobs[*opened], &described, NULL);
    }
    return status;
}

static bool measure_maps(suite *with, const prefill_tensors *in) {
    prefill_shape square = {.queries = 4096, .keys = 4096, .dim = 128};
    report_section *section =
        bench_report_add_section(with->report, "prefill maps", UNIT_GFLOPS, map_columns);
    snprintf(section->title, sizeof section->title,
             "maps that are not a temperature: f32, one head, one thread");
    report_case result = {.label = "d=128 n=4096"};
    if (!bench_begin_case(with, section->name, result.label, QUICK_MAPS))
        return true;
    whet_attention attention = bench_prefill_prepare(in, &square);
    whet_policy policies[MAPS + 1];
    job jobs[MAPS + 1];
    contender list[MAPS + 1];
    size_t opened;
    whet_status status = open_maps(&attention, policies, jobs, &opened);
    for (size_t i = 0; i < opened; i++)
        list[i] = bench_job_contender(i ? maps[i - 1].name : "plain", &jobs[i],
                                      bench_prefill_flops(&square));
    peak_work peak;
    contender probe = bench_limit_peak(&peak);
    if (status == WHET_OK)
        bench_measure_case(with, list, opened, &probe, result.label);
    for (size_t i = 0; i < opened; i++) {
        status = status == WHET_OK ? jobs[i].status : status;
        bench_job_close(&jobs[i]);
    }
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    bench_report_add_entry(section, &result, &with->measured, "plain",
                           (report_against){{"FMA peak"}});
    for (size_t i = 0; i < MAPS; i++) {
        report_entry *entry =
            bench_report_add_entry(section, &result, &with->measured, maps[i].name,
                                   (report_against){{"FMA peak", "plain"}});
        if (maps[i].at_most > 0)
            bench_report_set_bar(entry, 1, BAR_AT_MOST, maps[i].at_most);
    }
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}

static bool measure_on_threads(suite *with, report_section *section, const prefill_tensors *in,
                               const char *label, const prefill_shape *of, speedup_limit limit) {
    if (!bench_begin_case(with, section->name, label, QUICK_THREADS))
        return true;
    whet_attention attention = bench_prefill_prepare(in, of);
    return bench_speedup_case(with, section, label, &attention, bench_prefill_flops(of), limit);
}

static bool measure_threads(suite *with, const prefill_tensors *in) {
    report_section *section = bench_speedup_section(with, "prefill threads", UNIT_GFLOPS);
    if (!section)
        return true;
    char many_name[32];
    peak_work peaks[PEAK_PARTS];
    contender one = bench_limit_peak(&peaks[0]);
    for (size_t i = 1; i < PEAK_PARTS; i++)
        peaks[i] = peaks[0];
    parallel_work parallel = {.executor = &with->executor,
                              .parts = PEAK_PARTS,
                              .run = one.run,
                              .arguments = (unsigned char *)peaks,
                              .argument_size = sizeof *peaks};
    bench_speedup_name(with, one.name, many_name, sizeof many_name);
    contender many = {.name = many_name,
                      .run = bench_parallel_run,
                      .argument = &parallel,
                      .work = PEAK_PARTS * one.work};
    speedup_limit limit = {.one = &one, .many = &many, .count = 1};

    prefill_shape square = {.queries = 4096, .keys = 4096, .dim = 128};
    prefill_shape chunk = {.queries = 256, .keys = 131072, .dim = 64};
    return measure_on_threads(with, section, in, "d=128 n=4096", &square, limit) &&
           measure_on_threads(with, section, in, "d=64 256 x 131072", &chunk, limit);
}

bool bench_prefill(suite *with) {
    prefill_tensors in;
    bool done = bench_prefill_open(&in);
    if (!done)
        bench_report_fail(with->report, "prefill", "out of memory");
    done =
        done && measure_squares(with, &in) && measure_maps(with, &in) && measure_threads(with, &in);
    bench_prefill_close(&in);
    return done && (with->options.quick || bench_sequences(with, true));
}
