/*
 * Rows: four million values as rows of n, f32 and at one length f16, plain and
 * adaptive, against a copy and a read of the same buffers and against the same
 * number of exponentials alone.
 */
#include "inputs.h"
#include "job.h"
#include "machine_limits.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { VALUES = 4 << 20, BETA_ROWS_MAX = 256 };

/* The time of a case in a quick run. */
#define QUICK_SECONDS 0.32

static const report_column columns[COLUMNS_MAX] = {
    {"times copy", COMPARE_TIMES},
    {"times read", COMPARE_TIMES},
    {"times exp", COMPARE_TIMES},
};

/* Four million values in rows of n. */
typedef struct rows_shape {
    size_t n;
    whet_type type; /* f32 or f16, for logits and probabilities */
} rows_shape;

typedef struct softmax_work {
    whet_rows rows;
    whet_policy policy;
    whet_status status;
} softmax_work;

static void run_softmax(void *argument) {
    softmax_work *work = argument;
    work->status = whet_softmax(&work->rows, &work->policy, NULL);
}

/* Adds entropy and beta of the first rows. */
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
                        const rows_shape *of) {
    const report_against nothing = {{NULL}};
    const report_against limits = {{"copy", "read", "exp alone"}};
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        bench_report_add_entry(section, to, from, limits.names[i], nothing);
    report_entry *plain = bench_report_add_entry(section, to, from, "plain", limits);
    report_entry *adaptive = bench_report_add_entry(section, to, from, "adaptive", limits);
    if (of->n < 256 || of->type != WHET_F32)
        return;
    bench_report_set_bar(plain, 0, BAR_AT_MOST, 1.4);
    bench_report_set_bar(adaptive, 0, BAR_AT_MOST, 2.2);
}

static bool measure_case(suite *with, report_section *section, void *in, void *out,
                         const rows_shape *of) {
    bool is_half = of->type == WHET_F16;
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "%sn=%zu", is_half ? "f16 " : "", of->n);
    if (!bench_begin_case(with, section->name, result.label, QUICK_SECONDS))
        return true;
    if (is_half)
        bench_inputs_fill_f16(in, VALUES, bench_inputs_deviation(of->n), of->n);
    else
        bench_inputs_fill(in, VALUES, bench_inputs_deviation(of->n), of->n);
    whet_rows rows = {.size = sizeof rows,
                      .rows = VALUES / of->n,
                      .n = of->n,
                      .in = in,
                      .out = out,
                      .in_type = of->type,
                      .out_type = of->type};
    softmax_work plain = {.rows = rows, .policy = whet_policy_softmax()};
    softmax_work adaptive = {.rows = rows, .policy = whet_policy_adaptive()};
    size_t bytes = VALUES * (is_half ? sizeof(uint16_t) : sizeof(float));
    copy_work copy = {.from = in, .to = out, .bytes = bytes};
    read_work read = {.range = {{.data = in, .bytes = bytes}}};
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
        list[i].work = VALUES; /* also for copy and read, which count bytes themselves */

    whet_status status = add_beta(&result, &adaptive);
    bench_measure_case(with, list, count, NULL, result.label);
    if (status == WHET_OK)
        status = plain.status ? plain.status : adaptive.status;
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    add_entries(section, &result, &with->measured, of);
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}

bool bench_rows(suite *with) {
    report_section *section =
        bench_report_add_section(with->report, "rows", UNIT_NS_PER_VALUE, columns);
    snprintf(section->title, sizeof section->title, "rows: %d values, f32 or f16, one thread",
             VALUES);
    void *in = bench_inputs_allocate(VALUES * sizeof(float));
    void *out = bench_inputs_allocate(VALUES * sizeof(float));
    bool done = in && out;
    if (!done)
        bench_report_fail(with->report, section->name, "out of memory");
    static const rows_shape shapes[] = {
        {16, WHET_F32}, {256, WHET_F32}, {4096, WHET_F32}, {131072, WHET_F32}, {4096, WHET_F16}};
    for (size_t i = 0; done && i < sizeof shapes / sizeof shapes[0]; i++)
        done = measure_case(with, section, in, out, &shapes[i]);
    bench_inputs_release(in);
    bench_inputs_release(out);
    return done;
}
