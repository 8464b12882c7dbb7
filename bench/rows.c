/*
 * Rows: four million f32 values as rows of n, plain and adaptive, against a
 * copy and a read of the same buffers and against as many exponentials alone.
 */
#include "inputs.h"
#include "job.h"
#include "machine_limits.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { VALUES = 4 << 20, BETA_ROWS_MAX = 256 };

/* Of a case in a quick run. */
#define QUICK_SECONDS 0.4

static const report_column columns[COLUMNS_MAX] = {
    {"times copy", COMPARE_TIMES},
    {"times read", COMPARE_TIMES},
    {"times exp", COMPARE_TIMES},
};

typedef struct softmax_work {
    whet_rows rows;
    whet_policy policy;
    whet_status status;
} softmax_work;

static void run_softmax(void *argument) {
    softmax_work *work = argument;
    work->status = whet_softmax(&work->rows, &work->policy, NULL);
}

/* Over the first rows. */
static whet_status add_beta(report_case *to, const softmax_work *adaptive) {
    static whet_stats stats[BETA_ROWS_MAX];
    whet_rows some = adaptive->rows;
    some.rows = some.rows < BETA_ROWS_MAX ? some.rows : BETA_ROWS_MAX;
    some.stats = stats;
    whet_status status = whet_entropy(&some, &adaptive->policy, NULL);
    bench_add_beta(to, stats, some.rows);
    return status;
}

static void add_entries(const report_section *section, report_case *to, const measurement *from,
                        size_t n) {
    const report_against nothing = {{NULL}};
    const report_against limits = {{"copy", "read", "exp alone"}};
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        bench_report_add_entry(section, to, from, limits.names[i], nothing);
    report_entry *plain = bench_report_add_entry(section, to, from, "plain", limits);
    report_entry *adaptive = bench_report_add_entry(section, to, from, "adaptive", limits);
    if (n < 256)
        return;
    bench_report_set_bar(plain, 0, BAR_AT_MOST, 1.4);
    bench_report_set_bar(adaptive, 0, BAR_AT_MOST, 2.2);
}

static bool measure_case(suite *with, report_section *section, float *in, void *out, size_t n) {
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "n=%zu", n);
    if (!bench_begin_case(with, section->name, result.label, QUICK_SECONDS))
        return true;
    bench_inputs_fill(in, VALUES, bench_inputs_deviation(n), n);
    whet_rows rows = {.size = sizeof rows, .rows = VALUES / n, .n = n, .in = in, .out = out};
    softmax_work plain = {.rows = rows, .policy = whet_policy_softmax()};
    softmax_work adaptive = {.rows = rows, .policy = whet_policy_adaptive()};
    copy_work copy = {.from = in, .to = out, .bytes = VALUES * sizeof *in};
    read_work read = {.range = {{.data = in, .bytes = VALUES * sizeof *in}}};
    exp_work exponentials = {.values = VALUES};

    contender list[COPY_VARIANTS_MAX + READ_VARIANTS + 3];
    size_t count = bench_limit_copy(list, &copy);
    count += bench_limit_read(list + count, &read);
    list[count++] = bench_limit_exp(&exponentials);
    list[count++] =
        (contender){.name = "plain", .run = run_softmax, .argument = &plain, .is_library = true};
    list[count++] = (contender){
        .name = "adaptive", .run = run_softmax, .argument = &adaptive, .is_library = true};
    for (size_t i = 0; i < count; i++)
        list[i].work = VALUES; /* also for copy and read, which count bytes by themselves */

    whet_status status = add_beta(&result, &adaptive);
    bench_measure_case(with, list, count, NULL, result.label);
    if (status == WHET_OK)
        status = plain.status ? plain.status : adaptive.status;
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    add_entries(section, &result, &with->measured, n);
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}

bool bench_rows(suite *with) {
    report_section *section =
        bench_report_add_section(with->report, "rows", UNIT_NS_PER_VALUE, columns);
    snprintf(section->title, sizeof section->title, "rows: %d values, f32, one thread", VALUES);
    float *in = bench_inputs_allocate(VALUES * sizeof *in);
    float *out = bench_inputs_allocate(VALUES * sizeof *out);
    bool done = in && out;
    if (!done)
        bench_report_fail(with->report, section->name, "not enough memory");
    static const size_t sizes[] = {16, 256, 4096, 131072};
    for (size_t i = 0; done && i < sizeof sizes / sizeof sizes[0]; i++)
        done = measure_case(with, section, in, out, sizes[i]);
    bench_inputs_release(in);
    bench_inputs_release(out);
    return done;
}
