/*
 * Sets up what the parts share (the processor's name, OpenBLAS, a pool of
 * threads), runs them one after the other and cleans up. A quick run keeps to
 * the seconds that its parts declare: each part gets its share of the time
 * left, and divides it among its cases.
 */
#include "suite.h"

#include "base/clock.h"
#include "base/machine.h"
#include "job.h"

#include <string.h>

static const effort full = {.rounds = 7, .seconds = 3};
static const effort quick = {.rounds = 3, .seconds = 0.3};

const suite_part bench_parts[SUITE_PARTS] = {
    {"rows", bench_rows, 1.6, .in_quick = true, .in_full = true},
    {"prefill", bench_prefill, 13, .in_quick = true, .in_full = true, .needs_blas = true},
    {"decode", bench_decode, 7.4, .in_quick = true, .in_full = true},
    {"backward", bench_backward, 2.8, .in_quick = true, .in_full = true},
    {"retrieval", bench_retrieval, 5, .in_full = true, .needs_blas = true},
    {"lm", bench_lm, 15, .in_full = true, .needs_blas = true},
    {"skip", bench_skip, 8, .in_full = false},
    {"tune", bench_tune, 300, .in_full = false, .needs_blas = true},
    {"long", bench_long, 60, .in_full = false},
    {"mpi", bench_mpi, 12, .in_full = false},
};

bool bench_begin_case(suite *with, const char *section, const char *label, double quick_seconds) {
    const suite_visitor *visitor = with->options.visitor;
    if (visitor && !visitor->wants(visitor->context, section, label, quick_seconds))
        return false;
    with->until = with->options.quick ? quick : full;
    if (with->options.quick)
        with->until.end = bench_budget_take(&with->budget, lab_now(), quick_seconds);
    return true;
}

void bench_measure_case(suite *with, const contender *list, size_t count, const contender *probe,
                        const char *label) {
    const suite_visitor *visitor = with->options.visitor;
    if (!visitor) {
        bench_measure(list, count, probe, with->until, label, &with->measured);
        return;
    }
    contender ours[SERIES_MAX];
    size_t found = 0;
    for (size_t i = 0; i < count && found < SERIES_MAX; i++)
        if (list[i].is_library)
            ours[found++] = list[i];
    memset(&with->measured, 0, sizeof with->measured);
    visitor->visit(visitor->context, ours, found);
}

whet_status bench_describe_case(const suite *with, report_case *to,
                                const whet_attention *attention) {
    return with->options.visitor ? WHET_OK : bench_job_add_beta(to, attention, &with->executor);
}

static budget budget_of_wanted(const suite_options *options) {
    budget all = {.declared = 0};
    for (size_t i = 0; i < SUITE_PARTS; i++)
        all.declared += options->wanted[i] ? bench_parts[i].quick_seconds : 0;
    all.end = lab_now() + all.declared;
    return all;
}

static bool run_parts(suite *with) {
    budget all = budget_of_wanted(&with->options);
    for (size_t i = 0; i < SUITE_PARTS; i++) {
        const suite_part *part = &bench_parts[i];
        if (!with->options.wanted[i])
            continue;
        with->budget = (budget){.end = bench_budget_take(&all, lab_now(), part->quick_seconds),
                                .declared = part->quick_seconds};
        if (!part->run(with))
            return false;
    }
    return true;
}

static bool wants_blas(const suite_options *options) {
    for (size_t i = 0; i < SUITE_PARTS; i++)
        if (options->wanted[i] && bench_parts[i].needs_blas)
            return true;
    return false;
}

bool bench_run(const suite_options *options, report *result) {
    memset(result, 0, sizeof *result);
    suite with = {.options = *options, .report = result};
    whet_status status = whet_pool_create(options->threads, &with.pool);
    if (status != WHET_OK)
        return bench_report_fail(result, "threads", whet_status_text(status));
    with.executor = whet_pool_executor(with.pool);
    result->quick = options->quick;
    result->threads = whet_pool_threads(with.pool);
    lab_cpu_name(result->cpu, sizeof result->cpu);
    if (wants_blas(options) && !options->visitor)
        bench_blas_open(&with.blas, result->blas, sizeof result->blas);
    bool done = run_parts(&with);
    bench_blas_close(&with.blas);
    whet_pool_destroy(with.pool);
    return done;
}
