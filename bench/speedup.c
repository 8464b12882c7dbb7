/*
 * The cases of speedup.h. Everything is measured in the same rounds: attention
 * on one thread and on the pool, the limit on one thread and on the pool.
 */
#include "speedup.h"

#include "base/machine.h"
#include "job.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 32, LIMIT_VARIANTS_MAX = 8 };

static const report_column columns[COLUMNS_MAX] = {{"times as fast", COMPARE_SPEEDUP}};

static void parallel_part(void *argument, size_t task, size_t worker) {
    const parallel_work *parallel = argument;
    (void)worker;
    parallel->run(parallel->arguments + task * parallel->argument_size);
}

void bench_parallel_run(void *argument) {
    parallel_work *parallel = argument;
    parallel->executor->parallel_for(parallel->executor->context, parallel->parts, parallel_part,
                                     parallel);
}

void bench_speedup_name(const suite *with, const char *name, char *result, size_t size) {
    snprintf(result, size, "%s, %zu threads", name, whet_pool_threads(with->pool));
}

report_section *bench_speedup_section(suite *with, const char *name, report_unit unit) {
    size_t threads = whet_pool_threads(with->pool);
    if (threads < 2)
        return NULL;
    report_section *section = bench_report_add_section(with->report, name, unit, columns);
    snprintf(section->title, sizeof section->title, "%s: %zu against one", name, threads);
    return section;
}

/* Adds an entry for `name` on one thread, and one for the pool that is compared with it. There is a
 * bar for two threads. */
static void add_entries(const suite *with, const report_section *section, report_case *to,
                        const measurement *from, const char *name, bool has_bar) {
    char many_name[NAME_SIZE];
    bench_speedup_name(with, name, many_name, sizeof many_name);
    bench_report_add_entry(section, to, from, name, (report_against){{NULL}});
    report_entry *many =
        bench_report_add_entry(section, to, from, many_name, (report_against){{name}});
    if (has_bar && whet_pool_threads(with->pool) == 2)
        bench_report_set_bar(many, 0, BAR_AT_LEAST, 1.8);
}

/* The number of threads the pool can keep busy at a time. */
static size_t busy_threads(const suite *with) {
    size_t threads = whet_pool_threads(with->pool), processors = lab_processors();
    return threads < processors ? threads : processors;
}

static bool measure_pairs(suite *with, report_section *section, const char *label, job_pair *one,
                          job_pair *many, double work, speedup_limit limit) {
    char plain_many[NAME_SIZE];
    char adaptive_many[NAME_SIZE];
    bench_speedup_name(with, "plain", plain_many, sizeof plain_many);
    bench_speedup_name(with, "adaptive", adaptive_many, sizeof adaptive_many);
    contender list[4 + 2 * LIMIT_VARIANTS_MAX];
    bench_pair_contenders(one, list, work);
    bench_pair_contenders(many, list + 2, work);
    list[2].name = plain_many;
    list[3].name = adaptive_many;
    memcpy(list + 4, limit.many, limit.count * sizeof *list);
    size_t parallel_end = 4 + limit.count;
    for (size_t i = 2; i < parallel_end; i++)
        list[i].threads = busy_threads(with);
    memcpy(list + parallel_end, limit.one, limit.count * sizeof *list);

    bench_measure_case(with, list, parallel_end + limit.count, NULL, label);
    whet_status status = bench_pair_status(one);
    if (status == WHET_OK)
        status = bench_pair_status(many);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "%s", label);
    add_entries(with, section, &result, &with->measured, limit.one->name, false);
    add_entries(with, section, &result, &with->measured, "plain", true);
    add_entries(with, section, &result, &with->measured, "adaptive", true);
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}

bool bench_speedup_case(suite *with, report_section *section, const char *label,
                        const whet_attention *attention, double work, speedup_limit limit) {
    job_pair one;
    job_pair many;
    whet_status status = bench_pair_open(&one, attention, NULL);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    status = bench_pair_open(&many, attention, &with->executor);
    bool done = status == WHET_OK
                    ? measure_pairs(with, section, label, &one, &many, work, limit)
                    : bench_report_fail(with->report, section->name, whet_status_text(status));
    if (status == WHET_OK)
        bench_pair_close(&many);
    bench_pair_close(&one);
    return done;
}
