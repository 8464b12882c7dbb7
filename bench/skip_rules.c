/*
 * Two rules that leave out blocks of values, on the same rows: whet_attention.skip, whose
 * bound is the weight that a row loses, and the running threshold of skip-softmax (BLASST),
 * which leaves out a block if its largest logit is below the largest one so far by ln(1 /
 * threshold) in every row that shares the reading. Rows are made, in groups of four.
 *
 * The library computes its own share and weight: with unit vectors as queries, the elements
 * of a key are its logits. The threshold is applied here, in double.
 */
#include "inputs.h"
#include "skip.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 32768, GROUP = 4, GROUPS = 16, BLOCK = 64, NEAR_KEYS = 64 };

#define SKIPPED 1e-3f

/* Logits of some rows: normal, of a deviation, with more on a few keys and for recent ones. */
typedef struct row_kind {
    const char *name;
    double deviation;
    float on_few;   /* added to 64 keys */
    double recency; /* added in all from the first key to the last */
} row_kind;

static const row_kind kinds[] = {
    {"rules, sharp", 1, 18, 0},  {"rules, dispersed", 1, 0, 0}, {"rules, between", 4, 0, 0},
    {"rules, recent", 1, 0, 60}, {"rules, early", 1, 0, -60},
};

/* What a rule did to rows. */
typedef struct findings {
    double share, lost, worst;
} findings;

static void add_row(findings *all, double share, double lost) {
    all->share += share / (GROUP * GROUPS);
    all->lost += lost / (GROUP * GROUPS);
    all->worst = fmax(all->worst, lost);
}

/* [key][row of the group] */
static void fill_logits(float *logits, const row_kind *kind, uint64_t seed) {
    bench_inputs_fill(logits, (size_t)KEYS * GROUP, kind->deviation, seed);
    for (size_t j = 0; j < KEYS; j++)
        for (size_t r = 0; r < GROUP; r++) {
            bool is_one = j % (KEYS / NEAR_KEYS) == (j / 512 * 37 + seed * 11) % 512;
            logits[j * GROUP + r] +=
                (is_one ? kind->on_few : 0) + (float)(kind->recency * (double)j / KEYS);
        }
}

static whet_status skip_by_weight(const float *logits, findings *all) {
    float queries[GROUP][GROUP] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    float out[GROUP][GROUP];
    whet_stats stats[GROUP];
    whet_attention a = {.size = sizeof a,
                        .heads = GROUP,
                        .kv_heads = 1,
                        .queries = 1,
                        .keys = KEYS,
                        .head_dim = GROUP,
                        .q = {.data = queries},
                        .k = {.data = logits},
                        .v = {.data = logits},
                        .out = {.data = out},
                        .scale = 1,
                        .stats = stats,
                        .skip = SKIPPED};
    whet_status status = whet_attention_forward(&a, NULL, NULL);
    for (size_t r = 0; status == WHET_OK && r < GROUP; r++)
        add_row(all, stats[r].skipped_share, stats[r].skipped_weight);
    return status;
}

/* The largest logit of each row so far, and of this block. */
static bool is_below(const float *block, double threshold, float top[GROUP]) {
    bool all = true;
    for (size_t r = 0; r < GROUP; r++) {
        float largest = -INFINITY;
        for (size_t j = 0; j < BLOCK; j++)
            largest = fmaxf(largest, block[j * GROUP + r]);
        top[r] = fmaxf(top[r], largest);
        all = all && (double)largest - (double)top[r] < log(threshold);
    }
    return all;
}

static void skip_by_threshold(const float *logits, double threshold, findings *all) {
    float top[GROUP];
    double z[GROUP] = {0}, lost[GROUP] = {0};
    size_t left_out = 0;
    for (size_t r = 0; r < GROUP; r++)
        top[r] = -INFINITY;
    for (size_t j = 0; j < KEYS; j += BLOCK) {
        bool skipped = is_below(logits + j * GROUP, threshold, top);
        left_out += skipped;
        for (size_t i = 0; i < (size_t)BLOCK * GROUP; i++) {
            double weight = exp((double)logits[j * GROUP + i]);
            z[i % GROUP] += weight;
            lost[i % GROUP] += skipped ? weight : 0;
        }
    }
    for (size_t r = 0; r < GROUP; r++)
        add_row(all, (double)left_out * BLOCK / KEYS, lost[r] / z[r]);
}

static void add_facts(report_case *to, const char *const names[3], const findings *found) {
    bench_report_add_fact(to, names[0], 100 * found->share);
    bench_report_add_fact(to, names[1], found->lost);
    bench_report_add_fact(to, names[2], found->worst);
}

static whet_status compare(const row_kind *kind, float *logits, report_case *to) {
    static const char *const names[][3] = {{"skip percent", "skip mean lost", "skip worst lost"},
                                           {"1e-3 percent", "1e-3 mean lost", "1e-3 worst lost"},
                                           {"1e-5 percent", "1e-5 mean lost", "1e-5 worst lost"}};
    findings found[3] = {{0, 0, 0}};
    for (size_t g = 0; g < GROUPS; g++) {
        fill_logits(logits, kind, g + 1);
        whet_status status = skip_by_weight(logits, &found[0]);
        if (status != WHET_OK)
            return status;
        skip_by_threshold(logits, 1e-3, &found[1]);
        skip_by_threshold(logits, 1e-5, &found[2]);
    }
    for (size_t i = 0; i < 3; i++)
        add_facts(to, names[i], &found[i]);
    return WHET_OK;
}

bool bench_skip_rules(suite *with, report_section *section) {
    if (with->options.visitor)
        return true;
    float *logits = bench_inputs_allocate((size_t)KEYS * GROUP * sizeof *logits);
    bool done = true;
    if (!logits)
        return bench_report_fail(with->report, section->name, "out of memory");
    for (size_t i = 0; done && i < sizeof kinds / sizeof *kinds; i++) {
        report_case result = {.entry_count = 0};
        snprintf(result.label, sizeof result.label, "%s", kinds[i].name);
        whet_status status = compare(&kinds[i], logits, &result);
        done = status == WHET_OK
                   ? bench_report_add_case(with->report, section, &result)
                   : bench_report_fail(with->report, section->name, whet_status_text(status));
    }
    bench_inputs_release(logits);
    return done;
}
