/*
 * Decode over ranks, under mpirun: every rank has a share of 131,072 keys and one thread, against
 * one process with as many threads. The first rank measures; the others wait, without keeping a
 * processor busy, until it tells them to take part in a run.
 */
#include "decode.h"
#include "job.h"
#include "suite.h"

#include "base/ranks_decode.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 131072, DIM = 128, QUICK_SECONDS = 6 };
enum { STOP, PLAIN, ADAPTIVE };

static const report_column columns[COLUMNS_MAX] = {
    {"times threads", COMPARE_TIMES},
    {"times plain", COMPARE_TIMES},
};

typedef struct mpi_case {
    suite *with;
    report_section *section;
    const lab_ranks *ranks;
    const lab_ranks_decode *decode;
    whet_policy policies[2];
    void *plans[2];
} mpi_case;

static whet_attention part_of(const mpi_case *c, const decode_inputs *in) {
    whet_attention part = bench_decode_describe(in);
    size_t start, count;
    c->decode->local_size(in->keys, &start, &count);
    ptrdiff_t row = (ptrdiff_t)whet_type_row_bytes(in->type, DIM);
    ptrdiff_t stride[4] = {0, row * (ptrdiff_t)in->keys, row, 0};
    memcpy(part.k.stride, stride, sizeof stride);
    memcpy(part.v.stride, stride, sizeof stride);
    part.k.data = (const char *)part.k.data + row * (ptrdiff_t)start;
    part.v.data = (const char *)part.v.data + row * (ptrdiff_t)start;
    return part;
}

static bool make_plans(mpi_case *c, const decode_inputs *in) {
    for (int i = 0; i < 2; i++) {
        whet_attention part = part_of(c, in);
        part.policies = &c->policies[i];
        if (c->decode->plan(&part, NULL, &c->plans[i]) != WHET_OK)
            return bench_report_fail(c->with->report, "mpi", "the ranks cannot plan");
    }
    return true;
}

static void follow(const mpi_case *c) {
    for (int number; (number = c->decode->wait()) != STOP;)
        c->decode->execute(c->plans[number - PLAIN]);
}

static void run_plain(void *argument) {
    const mpi_case *c = argument;
    c->decode->tell(PLAIN);
    c->decode->execute(c->plans[0]);
}

static void run_adaptive(void *argument) {
    const mpi_case *c = argument;
    c->decode->tell(ADAPTIVE);
    c->decode->execute(c->plans[1]);
}

static size_t doublings(int size) {
    size_t count = 0;
    while (1 << count < size)
        count++;
    return count;
}

/* What the first rank sends for a token, and what it would have to at least: a message to a
 * doubling in each of two reductions; of a row (m, Z, S) in double, and values and their weight in
 * f32. */
static void add_counts(mpi_case *c, report_case *to) {
    lab_ranks_counts before = c->decode->counts(c->plans[1]);
    run_adaptive(c);
    lab_ranks_counts after = c->decode->counts(c->plans[1]);
    double steps = (double)doublings(c->ranks->size);
    bench_report_add_fact(to, "messages", (double)(after.messages - before.messages));
    bench_report_add_fact(to, "least messages", 2 * steps);
    bench_report_add_fact(to, "bytes", (double)(after.bytes - before.bytes));
    bench_report_add_fact(to, "least bytes", steps * DECODE_HEADS * (24 + 4 * (DIM + 1)));
}

static bool lead(mpi_case *c, const decode_inputs *in, const char *label) {
    whet_attention whole = bench_decode_describe(in);
    static char names[4][32];
    size_t size = (size_t)c->ranks->size;
    job_pair pair;
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "%s", label);
    if (bench_pair_open(&pair, &whole, &c->with->executor) != WHET_OK)
        return bench_report_fail(c->with->report, "mpi", "out of memory");
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof names[i], "%s, %zu %s", i % 2 ? "adaptive" : "plain",
                 i < 2 ? c->with->options.threads : size, i < 2 ? "threads" : "ranks");
    double work = bench_decode_bytes(in);
    contender list[4];
    bench_pair_contenders(&pair, list, work);
    list[2] = (contender){.run = run_plain, .argument = c, .work = work, .is_library = true};
    list[3] = (contender){.run = run_adaptive, .argument = c, .work = work, .is_library = true};
    for (int i = 0; i < 4; i++)
        list[i].name = names[i];
    list[0].threads = list[1].threads = c->with->options.threads;
    bench_measure_case(c->with, list, 4, NULL, result.label);
    for (int i = 0; i < 4; i++) {
        report_against against = {{i < 2 ? NULL : names[i - 2], i % 2 ? names[i - 1] : NULL}};
        report_entry *entry =
            bench_report_add_entry(c->section, &result, &c->with->measured, names[i], against);
        if (i >= 2 && size == c->with->options.threads)
            bench_report_set_bar(entry, 0, BAR_AT_MOST, 1.15);
    }
    add_counts(c, &result);
    bench_add_presence(&result, &c->with->measured);
    bench_pair_close(&pair);
    return bench_report_add_case(c->with->report, c->section, &result);
}

static bool measure(mpi_case *c) {
    char label[32];
    decode_inputs in = {.keys = 0};
    snprintf(label, sizeof label, "%s n=%d", whet_type_name(WHET_F32), LONGEST);
    if (!bench_begin_case(c->with, "mpi", label, QUICK_SECONDS))
        return true;
    bool is_good = bench_decode_open(&in, LONGEST, WHET_F32, &c->with->executor);
    is_good = lab_ranks_agree(c->ranks, is_good, NULL) && make_plans(c, &in);
    if (is_good && !lab_is_first(c->ranks))
        follow(c);
    if (is_good && lab_is_first(c->ranks)) {
        is_good = lead(c, &in, label);
        c->decode->tell(STOP);
    }
    for (int i = 0; i < 2; i++)
        c->decode->destroy(c->plans[i]);
    bench_decode_close(&in);
    return is_good || bench_report_fail(c->with->report, "mpi", "out of memory");
}

bool bench_mpi(suite *with) {
    lab_error error = {.kind = LAB_NO_ERROR};
    lab_ranks ranks;
    if (!lab_ranks_open(with->options.mpi, &ranks, &error))
        return bench_report_fail(with->report, "mpi", error.text);
    if (ranks.size == 0)
        return bench_report_fail(with->report, "mpi", "run it as 'mpirun -n 2 whet bench mpi'");
    mpi_case c = {.with = with,
                  .ranks = &ranks,
                  .decode = ranks.decode,
                  .policies = {whet_policy_softmax(), whet_policy_adaptive()}};
    with->report->is_silent = !lab_is_first(&ranks);
    c.section = bench_report_add_section(with->report, "mpi", UNIT_GBS, columns);
    snprintf(c.section->title, sizeof c.section->title,
             "mpi: decode, d=%d, %d query heads on %d key heads, %d ranks", DIM, DECODE_HEADS,
             DECODE_KV_HEADS, ranks.size);
    bool is_good = c.decode && measure(&c);
    lab_ranks_close(&ranks, is_good);
    return is_good;
}
