/*
 * Decode: one query a head, 8 query heads on 2 key heads, d = 128, keys and
 * values in f16, f32 and quantised; plain and adaptive against the fastest
 * read of the same keys and values. Quantised caches are also measured with a
 * key head for every query head, where there is less to compute for every
 * byte. Then several threads against one over 131,072 keys, beside the same
 * threads reading, and several sequences in one cache (sequences.h).
 */
#include "decode.h"

#include "inputs.h"
#include "job.h"
#include "machine_limits.h"
#include "quantise.h"
#include "sequences.h"
#include "suite.h"
#include "speedup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KV_HEADS = DECODE_KV_HEADS, DIM = 128, LONGEST = 131072, READ_PARTS = 64 };

/* Seconds in a quick run: the longest cache with one type, other caches, the longest with a key
 * head for every query head, and with threads. */
#define QUICK_LONG 0.8
#define QUICK_SHORT 0.3
#define QUICK_OWN 0.6
#define QUICK_THREADS 0.9

static const report_column columns[COLUMNS_MAX] = {
    {"of read", COMPARE_SHARE},
    {"times plain", COMPARE_TIMES},
};

static size_t tensor_values(size_t keys) { return KV_HEADS * keys * DIM; }

static size_t tensor_bytes(size_t keys, whet_type type) {
    return whet_type_row_bytes(type, tensor_values(keys));
}

static bool is_quantised(whet_type type) { return type >= WHET_Q8_0 && type != WHET_CUSTOM; }

static void fill(void *values, size_t count, uint64_t seed, whet_type type) {
    if (type == WHET_F16)
        bench_inputs_fill_f16(values, count, 1, seed);
    else if (is_quantised(type))
        bench_inputs_fill_quantised(values, count, type, 1, seed);
    else
        bench_inputs_fill(values, count, 1, seed);
}

/* For an executor: keys, then values. */
static void fill_one(void *argument, size_t task, size_t worker) {
    const decode_inputs *in = argument;
    (void)worker;
    fill(task ? in->v : in->k, tensor_values(in->keys), 2 + task, in->type);
}

bool bench_decode_open(decode_inputs *opened, size_t keys, whet_type type,
                       const whet_executor *executor) {
    *opened = (decode_inputs){
        .keys = keys,
        .heads = DECODE_HEADS,
        .type = type,
        .q = bench_inputs_allocate(DECODE_HEADS * DIM * sizeof(float)),
        .out = bench_inputs_allocate(DECODE_HEADS * DIM * sizeof(float)),
        .k = bench_inputs_allocate(tensor_bytes(keys, type)),
        .v = bench_inputs_allocate(tensor_bytes(keys, type)),
    };
    if (!opened->q || !opened->out || !opened->k || !opened->v) {
        bench_decode_close(opened);
        return false;
    }
    bench_inputs_fill_queries(opened->q, DECODE_HEADS, DIM, 1);
    executor->parallel_for(executor->context, 2, fill_one, opened);
    return true;
}

void bench_decode_close(decode_inputs *opened) {
    bench_inputs_release(opened->q);
    bench_inputs_release(opened->out);
    bench_inputs_release(opened->k);
    bench_inputs_release(opened->v);
    *opened = (decode_inputs){.keys = 0};
}

double bench_decode_bytes(const decode_inputs *of) {
    return 2.0 * (double)tensor_bytes(of->keys, of->type);
}

/* A part of the keys and the same part of the values, for reading. */
static read_work part_to_read(const decode_inputs *of, size_t part, size_t parts) {
    size_t bytes = tensor_bytes(of->keys, of->type) / parts;
    return (read_work){.range = {{(const char *)of->k + part * bytes, bytes},
                                 {(const char *)of->v + part * bytes, bytes}}};
}

whet_attention bench_decode_describe(const decode_inputs *of) {
    return (whet_attention){
        .size = sizeof(whet_attention),
        .heads = of->heads,
        .kv_heads = KV_HEADS,
        .queries = 1,
        .keys = of->keys,
        .head_dim = DIM,
        .q = {.data = of->q},
        .k = {.data = of->k, .type = of->type},
        .v = {.data = of->v, .type = of->type},
        .out = {.data = of->out},
        .scale = (float)(bench_inputs_deviation(of->keys) / sqrt((double)DIM)),
        .offset = (int64_t)of->keys - 1,
    };
}

/* The target as a share of the read rate, or 0: quantised keys need more arithmetic for every byte,
 * and 4 and 5 bits have no target. */
static double read_bar(const decode_inputs *in) {
    if (in->keys < 32768 || in->type > WHET_Q8_0)
        return 0;
    return in->type == WHET_Q8_0 ? 0.6 : 0.7;
}

static void add_entries(const report_section *section, report_case *to, const measurement *from,
                        double bar) {
    bench_report_add_entry(section, to, from, "read", (report_against){{NULL}});
    report_entry *plain =
        bench_report_add_entry(section, to, from, "plain", (report_against){{"read"}});
    report_entry *adaptive =
        bench_report_add_entry(section, to, from, "adaptive", (report_against){{"read", "plain"}});
    bench_report_set_bar(adaptive, 1, BAR_AT_MOST, 1.05);
    if (bar == 0)
        return;
    bench_report_set_bar(plain, 0, BAR_AT_LEAST, bar);
    bench_report_set_bar(adaptive, 0, BAR_AT_LEAST, bar);
}

bool bench_decode_case(suite *with, report_section *section, const decode_inputs *in,
                       report_case *to) {
    whet_attention attention = bench_decode_describe(in);
    job_pair pair;
    whet_status status = bench_describe_case(with, to, &attention);
    if (status == WHET_OK)
        status = bench_pair_open(&pair, &attention, NULL);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));

    contender list[2 + READ_VARIANTS];
    bench_pair_contenders(&pair, list, bench_decode_bytes(in));
    read_work read = part_to_read(in, 0, 1);
    size_t count = 2 + bench_limit_read(list + 2, &read);
    bench_measure_case(with, list, count, NULL, to->label);
    add_entries(section, to, &with->measured, read_bar(in));
    bench_add_presence(to, &with->measured);
    status = bench_pair_status(&pair);
    bench_pair_close(&pair);
    return status == WHET_OK ||
           bench_report_fail(with->report, section->name, whet_status_text(status));
}

report_section *bench_decode_section(suite *with, const char *name) {
    report_section *section = bench_report_add_section(with->report, name, UNIT_GBS, columns);
    snprintf(section->title, sizeof section->title,
             "%s: d=%d, %d query heads on %d key heads, one thread", name, DIM, DECODE_HEADS,
             KV_HEADS);
    return section;
}

static bool measure_threads(suite *with, report_section *section, const decode_inputs *in,
                            const char *label) {
    read_work whole = part_to_read(in, 0, 1);
    read_work parts[READ_PARTS];
    for (size_t i = 0; i < READ_PARTS; i++)
        parts[i] = part_to_read(in, i, READ_PARTS);
    contender one[READ_VARIANTS];
    contender many[READ_VARIANTS];
    parallel_work parallel[READ_VARIANTS];
    char many_name[32];
    bench_speedup_name(with, "read", many_name, sizeof many_name);
    size_t count = bench_limit_read(one, &whole);
    for (size_t i = 0; i < count; i++) {
        parallel[i] = (parallel_work){.executor = &with->executor,
                                      .parts = READ_PARTS,
                                      .run = one[i].run,
                                      .arguments = (unsigned char *)parts,
                                      .argument_size = sizeof *parts};
        many[i] = one[i];
        many[i].name = many_name;
        many[i].run = bench_parallel_run;
        many[i].argument = &parallel[i];
    }
    whet_attention attention = bench_decode_describe(in);
    speedup_limit limit = {.one = one, .many = many, .count = count};
    return bench_speedup_case(with, section, label, &attention, bench_decode_bytes(in), limit);
}

/* Inputs that several cases share, created for the first of them that is measured. */
static bool ensure_inputs(suite *with, const report_section *section, decode_inputs *in,
                          size_t keys, whet_type type) {
    return in->k || bench_decode_open(in, keys, type, &with->executor) ||
           bench_report_fail(with->report, section->name, "out of memory");
}

static bool measure_heads(suite *with, report_section *section, decode_inputs *in, size_t keys,
                          whet_type type, size_t heads) {
    bool has_own = heads == KV_HEADS;
    double seconds = has_own ? QUICK_OWN : keys == LONGEST ? QUICK_LONG : QUICK_SHORT;
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "%s n=%zu%s", whet_type_name(type), keys,
             has_own ? ", own key heads" : "");
    if (!bench_begin_case(with, section->name, result.label, seconds))
        return true;
    if (!ensure_inputs(with, section, in, keys, type))
        return false;
    in->heads = heads;
    return bench_decode_case(with, section, in, &result) &&
           bench_report_add_case(with->report, section, &result);
}

/* What else is measured at the longest length with the same inputs: threads, where there is a bar
 * for them, or for quantised caches a key head for every query head. */
static bool measure_longest(suite *with, report_section *section, report_section *threads,
                            decode_inputs *in, whet_type type) {
    if (is_quantised(type))
        return measure_heads(with, section, in, LONGEST, type, KV_HEADS);
    char label[32];
    snprintf(label, sizeof label, "%s n=%d", whet_type_name(type), LONGEST);
    if (!threads || !bench_begin_case(with, threads->name, label, QUICK_THREADS))
        return true;
    return ensure_inputs(with, threads, in, LONGEST, type) &&
           measure_threads(with, threads, in, label);
}

static bool measure_length(suite *with, report_section *section, report_section *threads,
                           size_t keys, whet_type type) {
    decode_inputs in = {.keys = 0};
    bool done = measure_heads(with, section, &in, keys, type, DECODE_HEADS) &&
                (keys != LONGEST || measure_longest(with, section, threads, &in, type));
    bench_decode_close(&in);
    return done;
}

bool bench_decode(suite *with) {
    report_section *section = bench_decode_section(with, "decode");
    report_section *threads = bench_speedup_section(with, "decode threads", UNIT_GBS);
    static const size_t lengths[] = {4096, 32768, LONGEST};
    static const whet_type types[] = {WHET_F16,  WHET_F32,  WHET_Q8_0, WHET_Q4_0,
                                      WHET_Q4_1, WHET_Q5_0, WHET_Q5_1, WHET_IQ4_NL};
    enum { COUNT = sizeof types / sizeof *types, QUICK_TYPES = 4 }; /* those with bars come first */
    for (size_t i = with->options.quick ? 1 : 0; i < 3; i++)
        for (size_t j = 0; j < (with->options.quick ? QUICK_TYPES : COUNT); j++)
            if (!measure_length(with, section, threads, lengths[i], types[j]))
                return false;
    return with->options.quick || bench_sequences(with, false);
}
