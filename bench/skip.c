/*
 * Values left out when decoding (whet_attention.skip), at the decoding problem of decode.c
 * over 131,072 keys: rows whose weights are dispersed over all keys, and rows that have more
 * than 99.9 % of theirs on 64 keys, each with skip against without; and the maps that leave
 * out most values by themselves against softmax.
 */
#include "decode.h"
#include "job.h"
#include "quantise.h"
#include "skip.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 131072, SHARP_KEYS = 64, WAYS_MAX = 4 };

#define QUICK_SECONDS 2
#define SKIPPED 1e-3f
#define SHARP_LOGIT 18 /* of the 64 keys; others have logits of deviation 1 */

/* A way to compute the same problem, the first of which others are compared with. */
typedef struct way {
    const char *name, *policy;
    float skip;
    double bar; /* times the first; 0 for none */
} way;

static const way dispersed_ways[] = {{"plain", "softmax", 0, 0},
                                     {"skip 1e-3", "softmax", SKIPPED, 1.03},
                                     {"hardmax", "hardmax", 0, 0.62},
                                     {"topk:64", "topk:64", 0, 0.62}};
static const way sharp_ways[] = {{"plain", "softmax", 0, 0},
                                 {"skip 1e-3", "softmax", SKIPPED, 0.62}};

static const report_column columns[COLUMNS_MAX] = {{"times plain", COMPARE_TIMES}};

static whet_attention describe(const decode_inputs *in) {
    whet_attention a = bench_decode_describe(in);
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    return a;
}

static void add_to_element(void *row, whet_type type, size_t i, float more) {
    if (type == WHET_F32) {
        ((float *)row)[i] += more;
        return;
    }
    uint16_t *halves = row;
    float sign = halves[i] >> 15 ? -1.0f : 1.0f;
    float before = sign * quantise_f16_value_of(halves[i] & 0x7fff);
    halves[i] = quantise_f16(before + more);
}

/* Adds a multiple of the queries that read a key to it: to each of them it then has about the
 * logit of sharp keys. */
static void sharpen_key(const decode_inputs *in, const whet_attention *a, size_t head, size_t j) {
    size_t dim = a->head_dim, group = a->heads / a->kv_heads;
    size_t at = (head * in->keys + j) * dim;
    char *row = (char *)in->k + whet_type_row_bytes(in->type, at);
    float factor = SHARP_LOGIT / ((float)dim * a->scale);
    for (size_t i = 0; i < dim; i++) {
        float sum = 0;
        for (size_t r = 0; r < group; r++)
            sum += in->q[(head * group + r) * dim + i];
        add_to_element(row, in->type, i, factor * sum);
    }
}

/* Keys far from each other, so that each is in a block of its own. */
static void sharpen(const decode_inputs *in) {
    whet_attention a = describe(in);
    for (size_t head = 0; head < a.kv_heads; head++)
        for (size_t i = 0; i < SHARP_KEYS; i++)
            sharpen_key(in, &a, head, i * (KEYS / SHARP_KEYS) + (i * 37 + head * 11) % 2048);
}

/* How much of the values is left out, in the mean over rows. */
static whet_status add_share(report_case *to, const whet_attention *attention) {
    whet_stats stats[DECODE_HEADS];
    whet_attention asked = *attention;
    double share = 0;
    asked.stats = stats;
    asked.skip = SKIPPED;
    whet_status status = whet_attention_forward(&asked, NULL, NULL);
    for (size_t i = 0; status == WHET_OK && i < DECODE_HEADS; i++)
        share += stats[i].skipped_share / DECODE_HEADS;
    bench_report_add_fact(to, "percent skipped", 100 * share);
    return status;
}

/* The ways that could be opened, `*count` of them. */
static whet_status open_jobs(const decode_inputs *in, const way *ways, size_t wanted,
                             whet_policy *policies, job *jobs, size_t *count) {
    whet_status status = WHET_OK;
    for (*count = 0; *count < wanted; ++*count) {
        size_t i = *count;
        whet_attention a = describe(in);
        status = whet_policy_parse(ways[i].policy, &policies[i], NULL, 0);
        a.policies = &policies[i];
        a.policy_count = 1;
        a.skip = ways[i].skip;
        if (status == WHET_OK)
            status = bench_job_open(&jobs[i], &a, NULL);
        if (status != WHET_OK)
            break;
    }
    return status;
}

static whet_status measure_ways(suite *with, const report_section *section, const decode_inputs *in,
                                const way *ways, size_t count, report_case *to) {
    whet_policy policies[WAYS_MAX];
    job jobs[WAYS_MAX];
    contender list[WAYS_MAX];
    size_t opened;
    whet_status status = open_jobs(in, ways, count, policies, jobs, &opened);
    for (size_t i = 0; i < opened; i++)
        list[i] = bench_job_contender(ways[i].name, &jobs[i], bench_decode_bytes(in));
    if (status == WHET_OK) {
        bench_measure_case(with, list, count, NULL, to->label);
        for (size_t i = 0; i < count; i++) {
            report_against against = {{i ? ways[0].name : NULL}};
            report_entry *entry =
                bench_report_add_entry(section, to, &with->measured, ways[i].name, against);
            if (ways[i].bar > 0)
                bench_report_set_bar(entry, 0, BAR_AT_MOST, ways[i].bar);
        }
        bench_add_presence(to, &with->measured);
    }
    for (size_t i = 0; i < opened; i++) {
        status = status == WHET_OK ? jobs[i].status : status;
        bench_job_close(&jobs[i]);
    }
    return status;
}

static bool measure_rows(suite *with, report_section *section, decode_inputs *in, whet_type type,
                         bool sharp) {
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "%s %s", whet_type_name(type),
             sharp ? "sharp" : "dispersed");
    if (!bench_begin_case(with, section->name, result.label, QUICK_SECONDS))
        return true;
    if (!in->k && !bench_decode_open(in, KEYS, type, &with->executor))
        return bench_report_fail(with->report, section->name, "out of memory");
    if (sharp)
        sharpen(in);
    whet_attention a = describe(in);
    whet_status status = with->options.visitor ? WHET_OK : add_share(&result, &a);
    size_t count = sharp ? sizeof sharp_ways / sizeof *sharp_ways
                         : sizeof dispersed_ways / sizeof *dispersed_ways;
    if (status == WHET_OK)
        status =
            measure_ways(with, section, in, sharp ? sharp_ways : dispersed_ways, count, &result);
    if (status != WHET_OK)
        return bench_report_fail(with->report, section->name, whet_status_text(status));
    return bench_report_add_case(with->report, section, &result);
}

bool bench_skip(suite *with) {
    static const whet_type types[] = {WHET_F16, WHET_F32};
    report_section *section = bench_report_add_section(with->report, "skip", UNIT_GBS, columns);
    snprintf(section->title, sizeof section->title,
             "skip: decode, n=%d, %d query heads on %d key heads, one thread", KEYS, DECODE_HEADS,
             DECODE_KV_HEADS);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        decode_inputs in = {.keys = 0};
        bool done = measure_rows(with, section, &in, types[i], false) &&
                    measure_rows(with, section, &in, types[i], true);
        bench_decode_close(&in);
        if (!done)
            return false;
    }
    return bench_skip_rules(with, section);
}
