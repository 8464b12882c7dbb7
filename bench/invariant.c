/*
 * What WHET_INVARIANT costs: decoding over a cache and a square of prefill with the flag against
 * the same without it, plain and adaptive, one thread.
 */
#include "invariant.h"

#include "decode.h"
#include "job.h"
#include "prefill.h"

#include <stdio.h>

enum { WAYS = 4, DECODE_KEYS = 32768, SQUARE = 4096, SQUARE_DIM = 128 };

/* Seconds that a case would declare in a quick run, which leaves them out. */
#define SECONDS 1

static const report_column columns[COLUMNS_MAX] = {{"times without", COMPARE_TIMES}};
static const char *const names[WAYS] = {"plain", "invariant", "adaptive", "invariant adaptive"};

/* The four ways in turn. */
static bool measure(suite *with, report_section *section, const char *label,
                    const whet_attention *attention, double work) {
    const whet_policy policies[] = {whet_policy_softmax(), whet_policy_adaptive()};
    report_case result = {.entry_count = 0};
    job jobs[WAYS];
    contender list[WAYS];
    size_t opened = 0;
    whet_status status = WHET_OK;
    snprintf(result.label, sizeof result.label, "%s", label);
    for (; status == WHET_OK && opened < WAYS; opened += status == WHET_OK) {
        whet_attention a = *attention;
        a.policies = &policies[opened / 2];
        a.flags |= opened % 2 ? WHET_INVARIANT : 0;
        status = bench_job_open(&jobs[opened], &a, NULL);
        list[opened] = bench_job_contender(names[opened], &jobs[opened], work);
    }
    if (status == WHET_OK)
        bench_measure_case(with, list, WAYS, NULL, label);
    for (size_t i = 0; i < opened; i++) {
        status = status == WHET_OK ? jobs[i].status : status;
        bench_job_close(&jobs[i]);
    }
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    for (size_t i = 0; i < WAYS; i++) {
        report_entry *entry =
            bench_report_add_entry(section, &result, &with->measured, names[i],
                                   (report_against){{i % 2 ? names[i - 1] : NULL}});
        if (i % 2)
            bench_report_set_bar(entry, 0, BAR_AT_MOST, 1.15);
    }
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}

bool bench_invariant_decode(suite *with) {
    static const whet_type types[] = {WHET_F16, WHET_F32, WHET_Q8_0};
    report_section *section =
        bench_report_add_section(with->report, "decode invariant", UNIT_GBS, columns);
    snprintf(section->title, sizeof section->title, "%s: as decode, one thread", section->name);
    bool done = true;
    for (size_t i = 0; done && i < sizeof types / sizeof types[0]; i++) {
        decode_inputs in;
        char label[32];
        snprintf(label, sizeof label, "%s n=%d", whet_type_name(types[i]), DECODE_KEYS);
        if (!bench_begin_case(with, section->name, label, SECONDS))
            continue;
        if (!bench_decode_open(&in, DECODE_KEYS, types[i], &with->executor))
            return bench_report_fail(with->report, section->name, "out of memory");
        whet_attention attention = bench_decode_describe(&in);
        done = measure(with, section, label, &attention, bench_decode_bytes(&in));
        bench_decode_close(&in);
    }
    return done;
}

bool bench_invariant_prefill(suite *with) {
    report_section *section =
        bench_report_add_section(with->report, "prefill invariant", UNIT_GFLOPS, columns);
    snprintf(section->title, sizeof section->title, "%s: f32, one head, one thread", section->name);
    const prefill_shape square = {.queries = SQUARE, .keys = SQUARE, .dim = SQUARE_DIM};
    prefill_tensors in;
    if (!bench_begin_case(with, section->name, "d=128 n=4096", SECONDS))
        return true;
    bool done = bench_prefill_open(&in);
    if (done) {
        whet_attention attention = bench_prefill_prepare(&in, &square);
        done = measure(with, section, "d=128 n=4096", &attention, bench_prefill_flops(&square));
    } else {
        bench_report_fail(with->report, section->name, "out of memory");
    }
    bench_prefill_close(&in);
    return done;
}
